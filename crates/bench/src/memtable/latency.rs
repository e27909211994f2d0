//! Latencies of reads, counted from the time at which a read was due and from the time at which the
//! read began.

/// One read.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Due time, in seconds since the readers began.
    pub at_s: f64,
    /// Time from the due time until the read was done, in µs.
    pub latency_us: f64,
    /// Time of the read itself, in µs, including other tasks that ran while it had yielded.
    pub service_us: f64,
}

const READS_OF_A_PART: usize = 200;
const MAX_PARTS: usize = 100;

/// The reads of one kind during writes.
#[derive(Clone, Debug)]
pub struct LatencyFigure {
    /// The kind of reads.
    pub what: &'static str,
    /// The kind of memtable.
    pub kind: String,
    /// Number of tasks that read.
    pub readers: u32,
    /// Writes a second, by the clock, while the readers read.
    pub writes_per_s: f64,
    /// All reads, in the order of their due times.
    pub samples: Vec<Sample>,
}

/// Percentiles of some reads, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Percentiles {
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

impl Percentiles {
    /// Computes the percentiles of these values, by the nearest rank.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let rank = |part: f64| {
            let rank = (part * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Self { p50_us: rank(0.5), p99_us: rank(0.99), p999_us: rank(0.999), max_us: rank(1.0) }
    }
}

impl LatencyFigure {
    /// Returns the percentiles of the time from when a read was due until it was done.
    pub fn latency(&self) -> Percentiles {
        Percentiles::of(self.samples.iter().map(|sample| sample.latency_us))
    }

    /// Returns the percentiles of the time from when a read began until it was done.
    pub fn service(&self) -> Percentiles {
        Percentiles::of(self.samples.iter().map(|sample| sample.service_us))
    }

    /// Returns percentiles of the latency in equal parts of the time, each with the second in which
    /// the part begins. Parts without reads are left out. There are at most [`MAX_PARTS`] parts, of
    /// at least [`READS_OF_A_PART`] reads on average, so that a 99th percentile is not just the
    /// maximum.
    pub fn over_time(&self) -> Vec<(f64, Percentiles)> {
        let parts = (self.samples.len() / READS_OF_A_PART).clamp(1, MAX_PARTS);
        let end = self.samples.iter().map(|sample| sample.at_s).fold(0.0, f64::max);
        let length = (end / parts as f64).max(1e-9);
        let mut values = vec![Vec::new(); parts];
        for sample in &self.samples {
            let part = ((sample.at_s / length) as usize).min(parts - 1);
            values[part].push(sample.latency_us);
        }
        let parts = values.into_iter().enumerate().filter(|(_, values)| !values.is_empty());
        parts.map(|(part, values)| (part as f64 * length, Percentiles::of(values))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let percentiles = Percentiles::of((1..=1000).rev().map(f64::from));
        let expected = Percentiles { p50_us: 500.0, p99_us: 990.0, p999_us: 999.0, max_us: 1000.0 };
        assert_eq!(percentiles, expected);
        assert_eq!(Percentiles::of([]), Percentiles::default());
        assert_eq!(Percentiles::of([7.0]).p50_us, 7.0);
    }

    #[test]
    fn the_course_of_time_has_all_reads_in_their_part() {
        let sample =
            |at: u32| Sample { at_s: f64::from(at), latency_us: f64::from(at), service_us: 1.0 };
        let samples = (0..=2000).filter(|at| !(800..1200).contains(at)).map(sample).collect();
        let figure = LatencyFigure {
            what: "rows",
            kind: "trie".into(),
            readers: 1,
            writes_per_s: 1.0,
            samples,
        };
        let parts = figure.over_time();
        // 1601 reads make eight parts of 250 s each; the middle parts have fewer reads.
        assert_eq!(parts.len(), 8);
        assert_eq!((parts[0].0, parts[0].1.max_us), (0.0, 249.0));
        assert_eq!((parts[3].0, parts[3].1.max_us), (750.0, 799.0));
        assert_eq!((parts[7].0, parts[7].1.max_us), (1750.0, 2000.0));
    }
}
