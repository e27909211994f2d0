//! The ratios that the comparison is about: the trie against the better one of the legacy contenders.

use super::super::figures::TestFigure;

/// Of one test; what could not be measured is left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// Highest rate of the trie for each one of legacy.
    pub throughput: Option<f64>,
    /// By which part the trie's 99th percentile is higher at equal load; below 0 if it is lower.
    pub p99_change: Option<f64>,
    /// Bytes of the index that legacy reads from the disk for each one that the trie reads, at equal load.
    pub index_bytes: Option<f64>,
    /// Reads from the disk for each row at equal load: legacy, trie.
    pub disk_reads: Option<(f64, f64)>,
}

impl Verdict {
    /// Compares them.
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
