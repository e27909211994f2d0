//! Ratios of the comparison: the trie against the best legacy contender.

use super::super::figures::TestFigure;

/// Ratios of one test; a ratio that could not be measured is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// The trie's highest rate as a multiple of the legacy index's.
    pub throughput: Option<f64>,
    /// Relative change of the 99th percentile at equal load from legacy to trie; negative if the
    /// trie's is lower.
    pub p99_change: Option<f64>,
    /// Index bytes that legacy reads from the disk for each byte that the trie reads, at equal
    /// load.
    pub index_bytes: Option<f64>,
    /// Disk reads for each row at equal load: legacy, trie.
    pub disk_reads: Option<(f64, f64)>,
}

impl Verdict {
    /// Computes the ratios.
    pub fn of(figure: &TestFigure) -> Self {
        let Some((legacy, trie)) = figure.pair() else { return Self::default() };
        let highest = legacy.highest.zip(trie.highest);
        let equal = legacy.equal.zip(trie.equal);
        let some = |value: f64| value.is_finite().then_some(value);
        Self {
            throughput: highest.and_then(|(low, high)| some(high.rate / low.rate)),
            p99_change: equal
                .and_then(|(low, high)| some(high.latency.p99_us / low.latency.p99_us - 1.0)),
            index_bytes: equal.and_then(|(low, high)| {
                let each =
                    |one: &super::super::figures::LoadFigure| one.each(one.cost.index.read_bytes);
                some(each(&low) / each(&high))
            }),
            disk_reads: equal.map(|(low, high)| (low.disk_reads(), high.disk_reads())),
        }
    }
}
