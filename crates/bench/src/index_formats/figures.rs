//! Figures of a load: its rate, its latencies and the resources that it used.

use std::time::Duration;

use espalier_runtime::time::Instant;
use espalier_sstable::PartMetrics;

use crate::memtable::latency::Percentiles;

/// Resources that some reads used.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub began: Instant,
    pub clock: Duration,
    /// Time of the only thread on a core. It includes the busy wait for the next due read.
    pub core: Duration,
    pub index: PartMetrics,
    pub data: PartMetrics,
    /// Rows that were found in the row cache.
    pub row_hits: u64,
}

impl Cost {
    /// Returns the difference to an earlier state.
    pub fn since(&self, before: &Cost) -> Cost {
        Cost {
            began: before.began,
            clock: self.began.since(before.began),
            core: self.core.saturating_sub(before.core),
            index: self.index.since(&before.index),
            data: self.data.since(&before.data),
            row_hits: self.row_hits - before.row_hits,
        }
    }
}

/// One load on one contender.
#[derive(Clone, Copy, Debug)]
pub struct LoadFigure {
    /// Reads a second that were due; in a closed loop, reads a second that were done.
    pub rate: f64,
    /// Number of reads that were done.
    pub reads: u64,
    /// Time from when a read was due until it was done.
    pub latency: Percentiles,
    pub cost: Cost,
    /// True if the load fell so far behind that it was ended early.
    pub gave_up: bool,
}

impl LoadFigure {
    /// Returns reads a second that were done.
    pub fn done_per_s(&self) -> f64 {
        self.reads as f64 / self.cost.clock.as_secs_f64().max(1e-9)
    }

    /// Returns `count` divided by the number of reads.
    pub fn each(&self, count: u64) -> f64 {
        count as f64 / self.reads.max(1) as f64
    }

    /// Returns the mean number of index pages that a read touched, in memory or not.
    pub fn index_pages(&self) -> f64 {
        self.each(self.cost.index.hits + self.cost.index.misses)
    }

    /// Returns the mean number of disk reads for a row, of index and data together.
    pub fn disk_reads(&self) -> f64 {
        self.each(self.cost.index.reads + self.cost.data.reads)
    }

    /// Returns the disk reads a second as a part of the disk's maximum.
    pub fn of_the_disk(&self, device_reads_per_s: f64) -> f64 {
        self.done_per_s() * self.disk_reads() / device_reads_per_s.max(1e-9)
    }

    /// Returns the core time of each read, in µs. In an open loop it includes the busy wait.
    pub fn core_us(&self) -> f64 {
        self.cost.core.as_secs_f64() * 1e6 / self.reads.max(1) as f64
    }

    /// Returns true if the load ran to its end and the latency is within its limit.
    pub fn is_good(&self, p99_us: f64) -> bool {
        !self.gave_up && self.latency.p99_us <= p99_us
    }
}

/// All loads of one contender in one test.
#[derive(Clone, Debug)]
pub struct ContenderFigure {
    pub name: String,
    pub version: String,
    pub has_trie: bool,
    /// Names of the components with their sizes in bytes.
    pub files: Vec<(&'static str, u64)>,
    /// The closed loop: a fixed number of reads under way, as fast as possible.
    pub closed: LoadFigure,
    /// All steps of the search, in order.
    pub steps: Vec<LoadFigure>,
    /// The step with the highest rate within the limit of the latency.
    pub highest: Option<LoadFigure>,
    /// The load that all contenders sustain.
    pub equal: Option<LoadFigure>,
}

/// One test.
#[derive(Clone, Debug)]
pub struct TestFigure {
    pub population: super::population::Population,
    /// Memory of each contender, for pages and rows.
    pub memory_bytes: u64,
    /// The part of this memory that rows may take.
    pub row_cache_bytes: u64,
    pub contenders: Vec<ContenderFigure>,
    /// Random reads of 4 KiB of Data.db a second, with as many under way as in the closed loop.
    pub device_reads_per_s: f64,
}

impl TestFigure {
    /// Returns the legacy contender with the highest rate, and the trie.
    pub fn pair(&self) -> Option<(&ContenderFigure, &ContenderFigure)> {
        let rate = |one: &ContenderFigure| one.highest.map_or(0.0, |figure| figure.rate);
        let legacy = self.contenders.iter().filter(|one| !one.has_trie);
        let legacy = legacy.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        Some((legacy, self.contenders.iter().find(|one| one.has_trie)?))
    }
}
