//! The strategies choose the files to compact. They are Cassandra's strategies, as pure functions
//! of facts about the files.
//!
//! A strategy sees the files of a table on one shard, as if the shard's part of the ring were the
//! whole ring. It returns the compactions that it wants, the most urgent one first. It keeps no
//! state, so that a change of the strategy or a restart needs no care.
//!
//! Lineage: the rules follow the documentation of each strategy in Cassandra 5.0.

mod garbage;
mod leveled;
mod options;
mod overlaps;
mod size;
mod size_tiered;
mod time_window;
mod unified;

use std::collections::BTreeMap;

use leveled::Leveled;
use options::{Common, Options};
use size_tiered::SizeTiered;
use time_window::TimeWindow;
use unified::Unified;

/// The facts that a strategy knows about a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SSTableInfo {
    /// Generation number, ascending by time. All files whose names have no number have 0, so the
    /// number determines an order, not an identity.
    pub number: u64,
    /// Bytes of Data.db as stored.
    pub bytes: u64,
    /// Bytes of Data.db before compression.
    pub plain_bytes: u64,
    /// Level of leveled compaction.
    pub level: u32,
    /// Token of the first partition.
    pub first_token: i64,
    /// Token of the last partition.
    pub last_token: i64,
    /// Least write timestamp in µs.
    pub minimum_timestamp: i64,
    /// Greatest write timestamp in µs.
    pub maximum_timestamp: i64,
    /// Estimated number of cells and deletions.
    pub cells: u64,
    /// Estimated share of `cells` that is old enough to be purged.
    pub droppable_ratio: f64,
    /// Lower limit of the number of deletions of rows or ranges that are old enough to be purged.
    pub row_deletions: u64,
    /// Number of deletions of partitions that are old enough to be purged.
    pub partition_deletions: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of partitions, at least one.
    pub partitions: u64,
    /// Seconds since the file was made.
    pub age_s: u64,
}

/// The compaction candidates: the files of a table on one shard.
#[derive(Clone, Debug)]
pub struct CompactionCandidates<'a> {
    /// Files that may be compacted.
    pub idle: &'a [SSTableInfo],
    /// Files that are being compacted.
    pub busy: &'a [SSTableInfo],
    /// Files that cannot be compacted. No pick waits for them.
    pub left_out: &'a [SSTableInfo],
    /// First and last token of the shard.
    pub tokens: (i64, i64),
    /// Number of shards.
    pub shards: usize,
    /// Stored bytes of Data.db that a flush makes, as far as known; otherwise 0.
    pub flush_bytes: u64,
    /// Wall-clock time in seconds since 1970.
    pub now_s: u64,
}

impl<'a> CompactionCandidates<'a> {
    /// Returns all files.
    fn all(&self) -> impl Iterator<Item = &'a SSTableInfo> {
        self.idle.iter().chain(self.busy).chain(self.left_out)
    }

    /// Returns the token range that some idle files span.
    fn span_of(&self, files: &[usize]) -> Option<(i64, i64)> {
        let files = files.iter().map(|index| &self.idle[*index]);
        let first = files.clone().map(|file| file.first_token).min()?;
        Some((first, files.map(|file| file.last_token).max()?))
    }
}

/// The places where an output ends and the next one begins; always between partitions.
#[derive(Clone, Debug, PartialEq)]
pub enum Split {
    /// One output only.
    Never,
    /// After this number of bytes of Data.db, as stored.
    Bytes(u64),
    /// Behind each of these tokens, in ascending order.
    Tokens(Vec<i64>),
}

/// A compaction that a strategy wants.
#[derive(Clone, Debug, PartialEq)]
pub struct PickedCompaction {
    /// Indices of [`CompactionCandidates::idle`].
    pub files: Vec<usize>,
    /// Level of the outputs.
    pub level: u32,
    /// Split of the outputs.
    pub split: Split,
    /// Index of the file with the garbage, if this is a garbage pick with covered files. Without
    /// that file the pick gains nothing.
    pub garbage: Option<usize>,
}

impl PickedCompaction {
    fn new(files: Vec<usize>, level: u32, split: Split) -> Self {
        Self { files, level, split, garbage: None }
    }

    /// Returns the compaction of some files into one output without a level.
    fn into_one(files: Vec<usize>) -> Self {
        Self::new(files, 0, Split::Never)
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

impl Default for CompactionStrategy {
    fn default() -> Self {
        Self { common: Common::default(), kind: Kind::Unified(Unified::default()) }
    }
}

impl CompactionStrategy {
    /// Parses the `compaction` option of a table.
    ///
    /// # Errors
    /// Returns Cassandra's message if the class is missing or unknown, or an option is invalid.
    pub fn parse(compaction: &BTreeMap<String, String>) -> Result<Self, String> {
        let class = compaction
            .get("class")
            .ok_or("Missing sub-option 'class' for the 'compaction' option")?;
        let simple = class.strip_prefix(PACKAGE).unwrap_or(class);
        let mut options = Options::new(simple, compaction);
        let common = Common::read(&mut options)?;
        let kind = match simple {
            "SizeTieredCompactionStrategy" => Kind::SizeTiered(SizeTiered::read(&mut options)?),
            // ScyllaDB's strategy looks to a user like the size-tiered strategy.
            "IncrementalCompactionStrategy" => {
                options.ignore(&["sstable_size_in_mb", "space_amplification_goal"]);
                Kind::SizeTiered(SizeTiered::read(&mut options)?)
            }
            "LeveledCompactionStrategy" => Kind::Leveled(Leveled::read(&mut options)?),
            "TimeWindowCompactionStrategy" => Kind::TimeWindow(TimeWindow::read(&mut options)?),
            "UnifiedCompactionStrategy" => Kind::Unified(Unified::read(&mut options)?),
            _ => {
                let package = if class.contains('.') { "" } else { PACKAGE };
                return Err(format!("Unable to find compaction strategy class '{package}{class}'"));
            }
        };
        options.end()?;
        Ok(Self { common, kind })
    }

    /// Returns the strategy for options that [`CompactionStrategy::parse`] refuses: that of their
    /// class, if it is known, with default options. `enabled` is kept.
    pub fn fallback(compaction: &BTreeMap<String, String>) -> Self {
        let class = compaction.get("class").map(|class| ("class".to_owned(), class.clone()));
        let strategy = Self::parse(&class.into_iter().collect()).unwrap_or_default();
        let enabled = compaction.get("enabled");
        strategy.with_enabled(!enabled.is_some_and(|text| text.eq_ignore_ascii_case("false")))
    }

    /// Returns the `compaction` option with the defaults that Cassandra adds when a table is
    /// created.
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

    /// Returns whether auto-compaction is enabled.
    pub fn is_enabled(&self) -> bool {
        self.common.enabled
    }

    /// Returns the strategy with auto-compaction switched on or off.
    pub fn with_enabled(&self, is_enabled: bool) -> Self {
        let mut strategy = self.clone();
        strategy.common.enabled = is_enabled;
        strategy
    }

    /// Returns the class name without the package.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::SizeTiered(_) => "SizeTieredCompactionStrategy",
            Kind::Leveled(_) => "LeveledCompactionStrategy",
            Kind::TimeWindow(_) => "TimeWindowCompactionStrategy",
            Kind::Unified(_) => "UnifiedCompactionStrategy",
        }
    }

    /// Returns the number of levels; `None` for strategies that ignore the files' levels.
    pub fn levels(&self) -> Option<usize> {
        matches!(self.kind, Kind::Leveled(_)).then_some(leveled::LEVELS)
    }

    /// Returns the compactions that the strategy wants, the most urgent one first. They may share
    /// files: the caller must ask again after it has begun a compaction.
    pub fn picks(&self, candidates: &CompactionCandidates<'_>) -> Vec<PickedCompaction> {
        if !self.common.enabled {
            return Vec::new();
        }
        let picks = match &self.kind {
            Kind::SizeTiered(strategy) => strategy.picks(candidates),
            Kind::Leveled(strategy) => strategy.picks(candidates),
            Kind::TimeWindow(strategy) => strategy.picks(candidates),
            Kind::Unified(strategy) => strategy.picks(candidates),
        };
        if picks.is_empty() { self.garbage_picks(candidates) } else { picks }
    }

    /// Returns the number of pending compactions. Picks that share files with a more urgent one are
    /// alternatives to it and do not count.
    pub fn pending(&self, candidates: &CompactionCandidates<'_>) -> usize {
        let mut is_taken = vec![false; candidates.idle.len()];
        let apart = self.picks(candidates).into_iter().filter(|pick| {
            let is_apart = !pick.files.iter().any(|index| is_taken[*index]);
            if is_apart {
                pick.files.iter().for_each(|index| is_taken[*index] = true);
            }
            is_apart
        });
        apart.count()
    }

    /// Returns the score: the maximum number of files over one token, without the number that this
    /// strategy leaves there when it keeps up.
    pub fn score(&self, candidates: &CompactionCandidates<'_>) -> usize {
        match &self.kind {
            Kind::SizeTiered(strategy) => {
                depth_of(strategy.unsettled(&candidates.all().collect::<Vec<_>>()))
            }
            Kind::Leveled(strategy) => strategy.score(candidates),
            Kind::TimeWindow(strategy) => depth_of(strategy.unsettled(candidates)),
            Kind::Unified(strategy) => strategy.score(candidates),
        }
    }

    /// Returns a score of further pending work, comparable with [`CompactionStrategy::score`],
    /// for which neither reads nor flushes wait.
    pub fn level_score(&self, candidates: &CompactionCandidates<'_>) -> usize {
        match &self.kind {
            Kind::Leveled(strategy) => strategy.level_score(candidates),
            Kind::SizeTiered(_) | Kind::TimeWindow(_) | Kind::Unified(_) => 0,
        }
    }

    /// Returns the pick that compacts some or all of the idle files into one run: its split and its
    /// level.
    pub fn one_run(
        &self,
        candidates: &CompactionCandidates<'_>,
        files: Vec<usize>,
    ) -> PickedCompaction {
        match &self.kind {
            Kind::SizeTiered(_) | Kind::TimeWindow(_) => PickedCompaction::into_one(files),
            Kind::Leveled(strategy) => strategy.one_run(candidates, files),
            Kind::Unified(strategy) => strategy.one_run(candidates, files),
        }
    }

    /// Returns level and split for rewriting a single file of a level.
    pub fn rewrite(&self, level: u32) -> (u32, Split) {
        match &self.kind {
            Kind::Leveled(strategy) => (level, strategy.split()),
            _ => (level, Split::Never),
        }
    }
}

/// Returns the maximum number of ranges that contain the same token.
pub fn depth(ranges: impl IntoIterator<Item = (i64, i64)>) -> usize {
    let mut ranges: Vec<(i64, i64)> = ranges.into_iter().collect();
    ranges.sort_unstable();
    let mut reaching = overlaps::Reaching::default();
    ranges.into_iter().map(|(first, last)| reaching.enter(first, last)).max().unwrap_or(0)
}

fn depth_of<'a>(files: impl IntoIterator<Item = &'a SSTableInfo>) -> usize {
    depth(files.into_iter().map(|file| (file.first_token, file.last_token)))
}

impl SSTableInfo {
    /// Returns whether deletions in `newer`, of the same candidates, may cover data in this file.
    pub(super) fn may_be_covered_by(&self, newer: &SSTableInfo) -> bool {
        !std::ptr::eq(self, newer)
            && self.overlaps(newer)
            && self.minimum_timestamp <= newer.maximum_timestamp
    }

    /// Returns whether the token ranges overlap.
    pub fn overlaps(&self, other: &SSTableInfo) -> bool {
        self.first_token <= other.last_token && other.first_token <= self.last_token
    }
}

#[cfg(test)]
mod tests;
