//! UnifiedCompactionStrategy keeps levels of density, which is a file's bytes divided by the share
//! of the ring that it spans.
//!
//! A scaling parameter says for each level whether it is tiered (T4: four overlapping files become
//! one), leveled (L10: a file is merged with the existing one) or in between (N). Outputs are split
//! at fixed tokens. Denser outputs are split at more tokens, so that compactions stay small and
//! independent.
//!
//! Each shard is treated as a whole ring: density refers to the shard's part of the ring, and the
//! shard has its share of `base_shard_count`.
//!
//! Lineage: the rules follow UnifiedCompactionStrategy.md of Cassandra 5.0.

use std::collections::BTreeMap;

use espalier_types::literal::parse_float;

use super::{
    CompactionCandidates, PickedCompaction, SSTableInfo, Split, depth_of,
    options::{Options, is_digits},
    overlaps::{OverlapSet, overlap_sets, within_depth},
    size::{parse_bytes, print_bytes},
};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unified {
    /// Scaling parameter W of each level; the last one applies to all higher levels.
    scaling: Vec<i32>,
    target_bytes: u64,
    minimum_bytes: u64,
    /// Size in bytes that determines the levels instead of the measured flush size.
    flush_bytes: Option<u64>,
    base_shards: u64,
    growth: f64,
    max_files: usize,
}

/// Minimum share of the ring for which density is meaningful: files with less have hardly more than
/// one partition.
const MIN_SPAN: f64 = 1.0 / (1u64 << 48) as f64;
/// Maximum of `base_shard_count`. Cassandra has no limit, but more parts are useless, and each
/// costs time and memory.
const MAX_BASE_SHARDS: i64 = 1 << 16;
/// Maximum number of parts of a shard, for the same reason.
const MAX_PARTS: u64 = 1 << 20;
/// Minimum size of a part in bytes, whatever `base_shard_count` and `min_sstable_size` say, because
/// each part becomes an SSTable.
const MIN_PART_BYTES: f64 = (1 << 20) as f64;
const MAX_SPLITS: f64 = (1 << 20) as f64;
/// The size in bytes from which Cassandra refuses a `target_sstable_size`.
const END_OF_TARGETS: f64 = (1u64 << 63) as f64;

impl Default for Unified {
    fn default() -> Self {
        Self {
            scaling: vec![2],
            target_bytes: 1 << 30,
            minimum_bytes: 100 << 20,
            flush_bytes: None,
            base_shards: 4,
            growth: 1.0 / 3.0,
            max_files: 32,
        }
    }
}

impl Unified {
    pub(super) fn read(options: &mut Options<'_>) -> Result<Self, String> {
        let scaling = options.text("scaling_parameters").unwrap_or("T4");
        let scaling = scaling.split(',').map(|word| parse_scaling(word.trim()));
        let scaling = scaling.collect::<Result<Vec<i32>, String>>()?;
        let target_bytes = options.bytes("target_sstable_size", Some(END_OF_TARGETS))?;
        let target_bytes = target_bytes.unwrap_or(1 << 30);
        let minimum_bytes = read_minimum_bytes(options, target_bytes)?;
        let flush_bytes = options.bytes("flush_size_override", None)?;
        let base_shards = read_base_shards(options)?;
        let growth = read_growth(options)?;
        let max_files = options.int("max_sstables_to_compact", 32)?;
        let max_files = match usize::try_from(max_files) {
            Ok(files) if files > 0 => files,
            _ => usize::MAX,
        };
        let check_s =
            options.long("expired_sstable_check_frequency_seconds", 600, "long (base10)")?;
        if check_s <= 0 {
            return Err(format!(
                "Invalid configuration, expired_sstable_check_frequency_seconds should be positive: {check_s}"
            ));
        }
        let expiration = "unsafe_aggressive_sstable_expiration";
        options.flag(expiration, false, |text| {
            format!("{expiration} should either be 'true' or 'false', not {text}")
        })?;
        let method = options.text("overlap_inclusion_method").unwrap_or("TRANSITIVE");
        if !["NONE", "SINGLE", "TRANSITIVE"].contains(&method.to_uppercase().as_str()) {
            return Err(format!(
                "Invalid overlap inclusion method {method}. The valid options are [NONE, SINGLE, TRANSITIVE]."
            ));
        }
        Ok(Self {
            scaling,
            target_bytes,
            minimum_bytes,
            flush_bytes,
            base_shards,
            growth,
            max_files,
        })
    }

    fn scaling_of(&self, level: usize) -> i32 {
        let last = self.scaling.last().copied().unwrap_or(2);
        self.scaling.get(level).copied().unwrap_or(last)
    }

    fn fan_factor(&self, level: usize) -> u64 {
        u64::from(self.scaling_of(level).unsigned_abs()) + 2
    }

    /// Returns the number of overlapping files that make a compaction.
    fn threshold(&self, level: usize) -> u64 {
        match self.scaling_of(level) {
            w if w <= 0 => 2,
            w => u64::from(w.unsigned_abs()) + 2,
        }
    }

    /// Returns the densities below which a file is in level 0, 1, ...
    fn level_limits(&self, candidates: &CompactionCandidates<'_>) -> impl Iterator<Item = f64> {
        let flush = self.flush_bytes.unwrap_or(candidates.flush_bytes).max(1 << 20) as f64;
        // The limit starts a little below the flush size. So a file made of as many small flushes
        // as the fan factor passes it, and a file made of fewer does not.
        let mut limit = flush * (1.0 - 0.9 / self.fan_factor(0) as f64);
        (0..).map(move |level| {
            limit = (limit * self.fan_factor(level) as f64).floor();
            limit
        })
    }

    pub(super) fn level_of(
        &self,
        candidates: &CompactionCandidates<'_>,
        file: &SSTableInfo,
    ) -> usize {
        let density = density(candidates, file.bytes, (file.first_token, file.last_token));
        self.level_limits(candidates).take(64).position(|limit| density < limit).unwrap_or(64)
    }

    pub(super) fn picks(&self, candidates: &CompactionCandidates<'_>) -> Vec<PickedCompaction> {
        let mut levels: Vec<Vec<usize>> = Vec::new();
        for (index, file) in candidates.idle.iter().enumerate() {
            let level = self.level_of(candidates, file);
            levels.resize(levels.len().max(level + 1), Vec::new());
            levels[level].push(index);
        }
        let mut picks = Vec::new();
        for (level, files) in levels.iter().enumerate() {
            let mut sets = overlap_sets(candidates.idle, files);
            sets.retain(|set| set.most as u64 >= self.threshold(level));
            sets.sort_by_key(|set| std::cmp::Reverse(set.most));
            let most = self.max_files.max(usize::try_from(self.fan_factor(level)).unwrap_or(2));
            picks.extend(sets.into_iter().map(|set| self.pick(candidates, set, most)));
        }
        picks
    }

    /// Returns the score: the sum over all levels of the maximum number of files over one token,
    /// without the number that is too small for a compaction there. It is an upper limit, because
    /// the levels' maxima may lie at different tokens.
    pub(super) fn score(&self, candidates: &CompactionCandidates<'_>) -> usize {
        let mut levels: BTreeMap<usize, Vec<&SSTableInfo>> = BTreeMap::new();
        for file in candidates.all() {
            levels.entry(self.level_of(candidates, file)).or_default().push(file);
        }
        let beyond = levels.into_iter().map(|(level, files)| {
            let fewer = usize::try_from(self.threshold(level) - 1).unwrap_or(usize::MAX);
            depth_of(files).saturating_sub(fewer)
        });
        beyond.sum()
    }

    /// Picks all files of a set. If more than `most` lie over one token, picks the oldest ones, up
    /// to `most` over each token. The outputs then overlap less than the inputs did.
    fn pick(
        &self,
        candidates: &CompactionCandidates<'_>,
        set: OverlapSet,
        most: usize,
    ) -> PickedCompaction {
        let mut files = set.files;
        if set.most > most {
            files.sort_by_key(|index| {
                (candidates.idle[*index].maximum_timestamp, candidates.idle[*index].number)
            });
            files = within_depth(candidates.idle, files, most);
        }
        self.one_run(candidates, files)
    }

    /// Returns one pick of all the files. Cassandra compacts each token range separately if the
    /// files allow it.
    pub(super) fn one_run(
        &self,
        candidates: &CompactionCandidates<'_>,
        files: Vec<usize>,
    ) -> PickedCompaction {
        let bytes: u64 = files.iter().map(|index| candidates.idle[*index].bytes).sum();
        let span = candidates.span_of(&files).unwrap_or_default();
        let parts = self.parts(candidates, density(candidates, bytes, span));
        let ends = boundaries(candidates.tokens, parts, span);
        let split = if ends.is_empty() { Split::Never } else { Split::Tokens(ends) };
        PickedCompaction::new(files, 0, split)
    }

    /// Returns the number of parts into which the shard's range is split for outputs of this
    /// density.
    pub(super) fn parts(&self, candidates: &CompactionCandidates<'_>, density: f64) -> u64 {
        let mut parts = self.all_parts(candidates, density).min(MAX_PARTS);
        let most = (density / MIN_PART_BYTES).clamp(1.0, MAX_SPLITS) as u64;
        while parts > most {
            // The remaining boundaries are a subset of those of the greater number.
            parts = if parts.is_multiple_of(2) { parts / 2 } else { 1 };
        }
        parts
    }

    fn all_parts(&self, candidates: &CompactionCandidates<'_>, density: f64) -> u64 {
        let base = (self.base_shards / candidates.shards.max(1) as u64).max(1);
        let power = |count: f64| 1u64 << (count.clamp(1.0, MAX_SPLITS) as u64).ilog2();
        if self.minimum_bytes > 0 {
            let count = density / self.minimum_bytes as f64;
            if count < base as f64 {
                // Use only a number of parts that divides the greater numbers, so that its
                // boundaries are among theirs.
                return power(count).min(1 << base.trailing_zeros());
            }
        }
        if self.growth == 1.0 {
            return base;
        }
        let count = density / (self.target_bytes as f64 * 0.5f64.sqrt() * base as f64);
        if self.growth == 0.0 {
            return base * power(count);
        }
        let count = density / (self.target_bytes as f64 * base as f64);
        let exponent = (count.max(1.0).log2() * (1.0 - self.growth)).round();
        base * (1u64 << exponent.clamp(0.0, 20.0) as u32)
    }
}

fn read_minimum_bytes(options: &mut Options<'_>, target_bytes: u64) -> Result<u64, String> {
    let Some(text) = options.text("min_sstable_size") else { return Ok(100 << 20) };
    let bytes = parse_bytes(text)
        .map_err(|_| format!("{text} is not a valid size in bytes for min_sstable_size"))?;
    let bytes = u64::try_from(bytes as i64).map_err(
        |_| "Invalid configuration, min_sstable_size should be greater than or equal to 0 (zero)",
    )?;
    let limit = (target_bytes as f64 * 0.5f64.sqrt()).ceil() as u64;
    if bytes >= limit {
        let (bytes, target) = (print_bytes(bytes), print_bytes(target_bytes));
        return Err(format!(
            "Invalid configuration, min_sstable_size ({bytes}) should be less than 70% of the targetSSTableSize ({target})"
        ));
    }
    Ok(bytes)
}

fn read_base_shards(options: &mut Options<'_>) -> Result<u64, String> {
    let base_shards = options.int("base_shard_count", 4)?;
    if base_shards <= 0 {
        return Err(format!(
            "Invalid configuration, base_shard_count should be positive: {base_shards}"
        ));
    }
    if base_shards > MAX_BASE_SHARDS {
        return Err(format!(
            "Invalid configuration, base_shard_count should be at most {MAX_BASE_SHARDS}: {base_shards}"
        ));
    }
    Ok(base_shards.unsigned_abs())
}

/// Reads a share: `0.5` or `50%`.
fn read_growth(options: &mut Options<'_>) -> Result<f64, String> {
    let Some(text) = options.text("sstable_growth") else { return Ok(1.0 / 3.0) };
    let number = text.trim();
    let (number, whole) = match number.strip_suffix('%') {
        Some(percent) => (percent.trim(), 100.0),
        None => (number, 1.0),
    };
    let growth = parse_float(number).map(|growth: f64| growth / whole);
    match growth {
        Some(growth) if (0.0..=1.0).contains(&growth) => return Ok(growth),
        Some(_) => return Err(format!("sstable_growth {text} must be between 0 and 1")),
        None => {}
    }
    // These are the texts of Java's exception.
    let cause = match number {
        "" => "empty String".to_owned(),
        _ => format!("For input string: \"{number}\""),
    };
    Err(format!("sstable_growth is not a valid number between 0 and 1: {cause}"))
}

/// Parses a scaling parameter: `T4`, `L10`, `N` or the number itself.
fn parse_scaling(word: &str) -> Result<i32, String> {
    let pattern = "N|L[0-9]+|T[0-9]+|[+-]?[0-9]+";
    let wrong = || format!("Scaling parameter {word} must match {pattern}");
    let fan = |digits: &str| -> Result<i32, String> {
        let fan: i32 = digits.parse().ok().filter(|_| is_digits(digits)).ok_or_else(wrong)?;
        match fan {
            2..=1_000_000 => Ok(fan),
            _ => Err(format!("Fan factor cannot be lower than 2 in {word}")),
        }
    };
    match word.as_bytes().first() {
        Some(b'N') if word.len() == 1 => Ok(0),
        Some(b'L') => Ok(2 - fan(&word[1..])?),
        Some(b'T') => Ok(fan(&word[1..])? - 2),
        _ => word.parse().ok().filter(|w: &i32| w.unsigned_abs() < 1_000_000).ok_or_else(wrong),
    }
}

/// Returns the number of tokens from `first` to `last`, both included.
fn tokens_in((first, last): (i64, i64)) -> f64 {
    (i128::from(last) - i128::from(first) + 1) as f64
}

fn density(candidates: &CompactionCandidates<'_>, bytes: u64, span: (i64, i64)) -> f64 {
    let share = tokens_in(span) / tokens_in(candidates.tokens);
    bytes as f64 / if share < MIN_SPAN { 1.0 } else { share.min(1.0) }
}

/// Returns the boundaries between the parts of a range: the last token of each part but the last
/// part. Only boundaries from `within.0` up to but not including `within.1` are returned.
pub(super) fn boundaries((first, last): (i64, i64), parts: u64, within: (i64, i64)) -> Vec<i64> {
    let tokens = i128::from(last) - i128::from(first) + 1;
    let count = i128::from(parts.max(1));
    let end = |part: i128| {
        let offset = tokens * part / count;
        i64::try_from(i128::from(first) + offset - 1).unwrap_or(last)
    };
    // There may be a million parts, so find the first part that ends at or behind a token by
    // division.
    let from = |token: i64| {
        let offset = i128::from(token) - i128::from(first) + 1;
        (offset * count + tokens - 1) / tokens
    };
    (from(within.0).max(1)..from(within.1).min(count)).map(end).collect()
}
