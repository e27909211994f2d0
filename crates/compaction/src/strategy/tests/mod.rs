//! These tests check each strategy against its published rules, and the error texts for invalid
//! options.

mod garbage_picks;
mod option_errors;
mod same_files;
mod scores;
mod tiers_and_levels;
mod unified_picks;

use super::*;

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn strategy(class: &str, pairs: &[(&str, &str)]) -> CompactionStrategy {
    let mut options = options(pairs);
    options.insert("class".into(), class.into());
    CompactionStrategy::parse(&options).unwrap()
}

const MIB: u64 = 1 << 20;
const DAY_US: i64 = 86_400_000_000;

/// Returns a file that spans the whole ring.
fn file(number: u64, mebibytes: u64) -> SSTableInfo {
    SSTableInfo {
        number,
        bytes: mebibytes * MIB,
        plain_bytes: mebibytes * MIB,
        level: 0,
        first_token: i64::MIN,
        last_token: i64::MAX,
        minimum_timestamp: number as i64,
        maximum_timestamp: number as i64,
        cells: mebibytes * 1000,
        droppable_ratio: 0.0,
        row_deletions: 0,
        partition_deletions: 0,
        rows: mebibytes * 1000,
        partitions: mebibytes * 1000,
        age_s: 0,
    }
}

fn at(mut file: SSTableInfo, level: u32, first_token: i64, last_token: i64) -> SSTableInfo {
    (file.level, file.first_token, file.last_token) = (level, first_token, last_token);
    file
}

/// Returns the file with a share of garbage, old enough for a garbage pick.
fn with_garbage(droppable_ratio: f64, file: SSTableInfo) -> SSTableInfo {
    SSTableInfo { droppable_ratio, age_s: 90_000, ..file }
}

fn all(files: &[SSTableInfo]) -> Vec<usize> {
    (0..files.len()).collect()
}

fn candidates<'a>(idle: &'a [SSTableInfo], busy: &'a [SSTableInfo]) -> CompactionCandidates<'a> {
    let tokens = (i64::MIN, i64::MAX);
    let (flush_bytes, now_s) = (10 * MIB, 100 * 86_400);
    CompactionCandidates { idle, busy, left_out: &[], tokens, shards: 1, flush_bytes, now_s }
}

fn picked(
    strategy: &CompactionStrategy,
    idle: &[SSTableInfo],
    busy: &[SSTableInfo],
) -> Vec<Vec<u64>> {
    let picks = strategy.picks(&candidates(idle, busy)).into_iter();
    let numbers = picks.map(|pick| {
        let mut numbers: Vec<u64> = pick.files.iter().map(|index| idle[*index].number).collect();
        numbers.sort_unstable();
        numbers
    });
    numbers.collect()
}
