//! What loads cost, and what came of them.

use std::time::Duration;

use espalier_runtime::time::Instant;
use espalier_sstable::PartMetrics;

use crate::bench::memtable::latency::Percentiles;

/// What some reads took of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub began: Instant,
    pub clock: Duration,
    /// Of the one thread that does everything, waiting for the next read to be due included.
    pub core: Duration,
    pub index: PartMetrics,
    pub data: PartMetrics,
    /// Rows that were in the row cache.
    pub row_hits: u64,
}

impl Cost {
    /// What came since.
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
    /// Reads a second that were due; of a closed loop those that were done.
    pub rate: f64,
    /// Reads that were done.
    pub reads: u64,
    /// From when a read was due until it was done.
    pub latency: Percentiles,
    pub cost: Cost,
    /// It was so late that the rest was not tried.
    pub gave_up: bool,
}

impl LoadFigure {
    /// Reads a second that were done.
    pub fn done_per_s(&self) -> f64 {
        self.reads as f64 / self.cost.clock.as_secs_f64().max(1e-9)
    }

    /// So many of something for each read.
    pub fn each(&self, count: u64) -> f64 {
        count as f64 / self.reads.max(1) as f64
    }

    /// Pages of the index that a look-up touched, in memory or not.
    pub fn index_pages(&self) -> f64 {
        self.each(self.cost.index.hits + self.cost.index.misses)
    }

    /// Reads from the disk for each row, of index and data.
    pub fn disk_reads(&self) -> f64 {
        self.each(self.cost.index.reads + self.cost.data.reads)
    }

    /// Reads from the disk a second, for each one that the disk gives.
    pub fn of_the_disk(&self, device_reads_per_s: f64) -> f64 {
        self.done_per_s() * self.disk_reads() / device_reads_per_s.max(1e-9)
    }

    /// Time of the core for each read, in µs. Of an open loop it has the waiting, too.
    pub fn core_us(&self) -> f64 {
        self.cost.core.as_secs_f64() * 1e6 / self.reads.max(1) as f64
    }

    /// Whether it is good enough.
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
    /// Components and their bytes.
    pub files: Vec<(&'static str, u64)>,
    /// As many reads under way as were asked for, as fast as they go.
    pub closed: LoadFigure,
    /// Of the search, in their order.
    pub steps: Vec<LoadFigure>,
    /// The step with the highest rate that is good enough.
    pub highest: Option<LoadFigure>,
    /// The load that all contenders bear.
    pub equal: Option<LoadFigure>,
}

/// One test.
#[derive(Clone, Debug)]
pub struct TestFigure {
    pub population: super::population::Population,
    /// Of each contender, for pages and rows.
    pub memory_bytes: u64,
    /// The most that rows may take of it.
    pub row_cache_bytes: u64,
    pub contenders: Vec<ContenderFigure>,
    /// Random reads of 4 KiB of Data.db a second, with as many under way as the closed loop has.
    pub device_reads_per_s: f64,
}

impl TestFigure {
    /// The best of the legacy ones, and the trie.
    pub fn pair(&self) -> Option<(&ContenderFigure, &ContenderFigure)> {
        let rate = |one: &ContenderFigure| one.highest.map_or(0.0, |figure| figure.rate);
        let legacy = self.contenders.iter().filter(|one| !one.has_trie);
        let legacy = legacy.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        Some((legacy, self.contenders.iter().find(|one| one.has_trie)?))
    }
}
