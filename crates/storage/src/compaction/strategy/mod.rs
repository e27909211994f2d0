//! Which files to compact: Cassandra's strategies as pure functions of what is known of the files.
//!
//! A strategy sees the files of a table on one shard, whose part of the ring is its whole world, and answers with the
//! compactions that it wants, the most pressing one first. It keeps nothing between two questions, so that a change of it, or
//! a restart, needs no care. Source: the documentation of each strategy in Cassandra 5.0.

mod garbage;
mod leveled;
mod options;
mod overlaps;
mod size_tiered;
mod time_window;
mod unified;

use std::collections::BTreeMap;

use leveled::Leveled;
use options::{Common, Options};
use size_tiered::SizeTiered;
use time_window::TimeWindow;
use unified::Unified;

/// What a strategy knows of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileFacts {
    /// Files are numbered as they are made. Those that have names of another kind are all 0: it tells their order, not which is which.
    pub number: u64,
    /// Bytes of Data.db as stored.
    pub bytes: u64,
    /// Bytes of Data.db before compression.
    pub plain_bytes: u64,
    /// Of a levelled compaction.
    pub level: u32,
    /// Token of the first partition.
    pub first_token: i64,
    /// Token of the last one.
    pub last_token: i64,
    /// Least write timestamp in µs.
    pub minimum_timestamp: i64,
    /// Greatest write timestamp in µs.
    pub maximum_timestamp: i64,
    /// Estimated number of cells and deletions.
    pub cells: u64,
    /// Estimated share of them that are old enough to go.
    pub droppable_ratio: f64,
    /// How many of those are deletions of rows, or of ranges, at least.
    pub row_deletions: u64,
    /// How many are deletions of partitions.
    pub partition_deletions: u64,
    /// Rows.
    pub rows: u64,
    /// Partitions, at least one.
    pub partitions: u64,
    /// Seconds since the file was made.
    pub age_s: u64,
}

/// The files of a table on one shard.
#[derive(Clone, Debug)]
pub struct Arena<'a> {
    /// Those that may be compacted.
    pub idle: &'a [FileFacts],
    /// Those that are being compacted.
    pub busy: &'a [FileFacts],
    /// Those that cannot be compacted: nobody waits for them.
    pub left_out: &'a [FileFacts],
    /// The first and the last token of the shard.
    pub tokens: (i64, i64),
    /// How many shards there are.
    pub shards: usize,
    /// Bytes that a flush makes, as far as is known.
    pub flush_bytes: u64,
    /// Second of the wall clock.
    pub now_s: u64,
}

impl<'a> Arena<'a> {
    /// All files.
    fn all(&self) -> impl Iterator<Item = &'a FileFacts> {
        self.idle.iter().chain(self.busy).chain(self.left_out)
    }
}

/// Where an output ends and the next one begins; always between partitions.
#[derive(Clone, Debug, PartialEq)]
pub enum Split {
    /// There is one.
    Never,
    /// At so many bytes of Data.db, as stored.
    Bytes(u64),
    /// Behind each of these tokens, in ascending order.
    Tokens(Vec<i64>),
}

/// A compaction that a strategy wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Indices of [`Arena::idle`].
    pub files: Vec<usize>,
    /// Level of what is written.
    pub level: u32,
    /// How it is split.
    pub split: Split,
    /// Which of them it is for, if it is for garbage: without that one nothing is gained.
    pub garbage: Option<usize>,
}

impl Pick {
    fn new(files: Vec<usize>, level: u32, split: Split) -> Self {
        Self { files, level, split, garbage: None }
    }
}

/// A strategy and its options.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionStrategy {
    common: Common,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    SizeTiered(SizeTiered),
    Leveled(Leveled),
    TimeWindow(TimeWindow),
    Unified(Unified),
}

/// Package of the strategies in Cassandra.
const PACKAGE: &str = "org.apache.cassandra.db.compaction.";

/// The names that are known. ScyllaDB's incremental one is taken for what it is to its user, a size-tiered one.
pub const STRATEGIES: [&str; 5] = [
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "UnifiedCompactionStrategy",
    "IncrementalCompactionStrategy",
];

impl Default for CompactionStrategy {
    fn default() -> Self {
        Self { common: Common::default(), kind: Kind::Unified(Unified::default()) }
    }
}

impl CompactionStrategy {
    /// Reads the `compaction` option of a table. The error is Cassandra's message.
    pub fn parse(compaction: &BTreeMap<String, String>) -> Result<Self, String> {
        let class = compaction
            .get("class")
            .ok_or("Missing sub-option 'class' for the 'compaction' option.")?;
        let simple = class.strip_prefix(PACKAGE).unwrap_or(class);
        let mut options = Options::new(simple, compaction);
        let common = Common::read(&mut options)?;
        let kind = match simple {
            "SizeTieredCompactionStrategy" => Kind::SizeTiered(SizeTiered::read(&mut options)?),
            "IncrementalCompactionStrategy" => {
                options.ignore(&["sstable_size_in_mb", "space_amplification_goal"]);
                Kind::SizeTiered(SizeTiered::read(&mut options)?)
            }
            "LeveledCompactionStrategy" => Kind::Leveled(Leveled::read(&mut options)?),
            "TimeWindowCompactionStrategy" => Kind::TimeWindow(TimeWindow::read(&mut options)?),
            "UnifiedCompactionStrategy" => Kind::Unified(Unified::read(&mut options)?),
            _ => {
                let known = STRATEGIES.join(", ");
                let what = format!("Unable to find compaction strategy class '{class}'");
                return Err(format!("{what}; there are {known}"));
            }
        };
        options.end()?;
        Ok(Self { common, kind })
    }

    /// The `compaction` option with what Cassandra adds to it when a table is created.
    pub fn complete(mut compaction: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let Some(class) = compaction.get("class").cloned() else { return compaction };
        if !class.contains('.') {
            compaction.insert("class".into(), format!("{PACKAGE}{class}"));
        }
        if !class.ends_with("UnifiedCompactionStrategy") {
            compaction.entry("max_threshold".into()).or_insert_with(|| "32".into());
            compaction.entry("min_threshold".into()).or_insert_with(|| "4".into());
        }
        compaction
    }

    /// Whether compactions begin by themselves.
    pub fn is_enabled(&self) -> bool {
        self.common.enabled
    }

    /// The same, whether or not the options let compactions begin by themselves.
    pub fn with_enabled(&self, is_enabled: bool) -> Self {
        let mut strategy = self.clone();
        strategy.common.enabled = is_enabled;
        strategy
    }

    /// Name without the package.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::SizeTiered(_) => STRATEGIES[0],
            Kind::Leveled(_) => STRATEGIES[1],
            Kind::TimeWindow(_) => STRATEGIES[2],
            Kind::Unified(_) => STRATEGIES[3],
        }
    }

    /// How many levels it keeps files in; `None` if their levels mean nothing to it.
    pub fn levels(&self) -> Option<usize> {
        matches!(self.kind, Kind::Leveled(_)).then_some(leveled::LEVELS)
    }

    /// The compactions that are wanted, the most pressing one first. They may share files: after one is begun, ask again.
    pub fn picks(&self, arena: &Arena<'_>) -> Vec<Pick> {
        if !self.common.enabled {
            return Vec::new();
        }
        let picks = match &self.kind {
            Kind::SizeTiered(strategy) => strategy.picks(arena),
            Kind::Leveled(strategy) => strategy.picks(arena),
            Kind::TimeWindow(strategy) => strategy.picks(arena),
            Kind::Unified(strategy) => strategy.picks(arena),
        };
        match picks.is_empty() {
            true => self.garbage_picks(arena),
            false => picks,
        }
    }

    /// How many compactions are wanted: those that share files with a more pressing one are other ways to do the same.
    pub fn pending(&self, arena: &Arena<'_>) -> usize {
        let mut is_taken = vec![false; arena.idle.len()];
        let apart = self.picks(arena).into_iter().filter(|pick| {
            let is_apart = !pick.files.iter().any(|index| is_taken[*index]);
            if is_apart {
                pick.files.iter().for_each(|index| is_taken[*index] = true);
            }
            is_apart
        });
        apart.count()
    }

    /// How many files lie over one token beyond those that this strategy leaves there when it keeps up.
    pub fn surplus(&self, arena: &Arena<'_>) -> usize {
        match &self.kind {
            Kind::SizeTiered(strategy) => {
                depth_of(strategy.unsettled(&arena.all().collect::<Vec<_>>()))
            }
            Kind::Leveled(strategy) => strategy.surplus(arena),
            Kind::TimeWindow(strategy) => depth_of(strategy.unsettled(arena)),
            Kind::Unified(strategy) => strategy.surplus(arena),
        }
    }

    /// What else is waiting to be compacted, in numbers that can be compared with that: nothing that reads or flushes wait for.
    pub fn overfull(&self, arena: &Arena<'_>) -> usize {
        match &self.kind {
            Kind::Leveled(strategy) => strategy.overfull(arena),
            Kind::SizeTiered(_) | Kind::TimeWindow(_) | Kind::Unified(_) => 0,
        }
    }

    /// How some of the idle files, or all, are written when they are compacted into one run, and the level of it.
    pub fn one_run(&self, arena: &Arena<'_>, files: Vec<usize>) -> Pick {
        match &self.kind {
            Kind::SizeTiered(_) | Kind::TimeWindow(_) => Pick::new(files, 0, Split::Never),
            Kind::Leveled(strategy) => strategy.one_run(arena, files),
            Kind::Unified(strategy) => strategy.one_run(arena, files),
        }
    }

    /// How one file of a level is written anew by itself.
    pub fn rewrite(&self, level: u32) -> (u32, Split) {
        match &self.kind {
            Kind::Leveled(strategy) => (level, strategy.split()),
            _ => (level, Split::Never),
        }
    }
}

/// How many of some ranges of tokens at most hold one token.
pub(crate) fn depth(ranges: impl IntoIterator<Item = (i64, i64)>) -> usize {
    let mut ranges: Vec<(i64, i64)> = ranges.into_iter().collect();
    ranges.sort_unstable();
    let mut reaching = overlaps::Reaching::default();
    ranges.into_iter().map(|(first, last)| reaching.enter(first, last)).max().unwrap_or(0)
}

fn depth_of<'a>(files: impl IntoIterator<Item = &'a FileFacts>) -> usize {
    depth(files.into_iter().map(|file| (file.first_token, file.last_token)))
}

impl FileFacts {
    /// Whether deletions of `newer`, of the same arena, may cover something in it.
    pub(super) fn may_be_covered_by(&self, newer: &FileFacts) -> bool {
        !std::ptr::eq(self, newer)
            && self.overlaps(newer)
            && self.minimum_timestamp <= newer.maximum_timestamp
    }

    /// Whether the ranges of keys meet.
    pub fn overlaps(&self, other: &FileFacts) -> bool {
        self.first_token <= other.last_token && other.first_token <= self.last_token
    }
}

#[cfg(test)]
mod tests;
