//! These tests check each strategy against its published rules, and the error texts for invalid
//! options.

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

#[test]
fn bad_options_are_refused_in_cassandras_words() {
    for (class, pairs, reason) in [
        ("Nonsense", &[][..], "Unable to find compaction strategy class 'Nonsense'"),
        (
            "SizeTiered",
            &[("min_threshold", "1")],
            "Min compaction threshold cannot be less than 2 (got 1)",
        ),
        (
            "SizeTiered",
            &[("min_threshold", "9"), ("max_threshold", "8")],
            "Min compaction threshold (got 9) cannot be greater than max compaction threshold (got 8)",
        ),
        (
            "SizeTiered",
            &[("max_threshold", "0")],
            "Disabling compaction by setting compaction thresholds to 0",
        ),
        (
            "SizeTiered",
            &[("min_threshold", "x")],
            "Invalid value x for 'min_threshold' compaction sub-option",
        ),
        (
            "SizeTiered",
            &[("min_threshold", " 4 ")],
            "Invalid value  4  for 'min_threshold' compaction sub-option - must be an integer",
        ),
        ("SizeTiered", &[("max_threshold", "+40")], "Invalid value +40 for 'max_threshold'"),
        (
            "Leveled",
            &[("sstable_size_in_mb", " 5 ")],
            " 5  is not a parsable int (base10) for sstable_size_in_mb",
        ),
        (
            "SizeTiered",
            &[("bucket_low", "2")],
            "bucket_high value (1.5) is less than or equal to the bucket_low value (2)",
        ),
        ("SizeTiered", &[("min_sstable_size", "-1")], "min_sstable_size must be non negative: -1"),
        (
            "SizeTiered",
            &[("tombstone_threshold", "0")],
            "tombstone_threshold must be greater than 0, but was 0",
        ),
        (
            "SizeTiered",
            &[("enabled", "maybe")],
            "enabled should either be 'true' or 'false', not maybe",
        ),
        (
            "SizeTiered",
            &[("foo", "1")],
            "Properties specified [foo] are not understood by SizeTieredCompactionStrategy",
        ),
        (
            "Leveled",
            &[("sstable_size_in_mb", "0")],
            "sstable_size_in_mb must be larger than 0, but was 0",
        ),
        ("Leveled", &[("fanout_size", "0")], "fanout_size must be larger than 0, but was 0"),
        (
            "TimeWindow",
            &[("compaction_window_unit", "WEEKS")],
            "WEEKS is not valid for compaction_window_unit",
        ),
        (
            "TimeWindow",
            &[("compaction_window_size", "0")],
            "compaction_window_size must be greater than 1",
        ),
        ("Unified", &[("scaling_parameters", "T4, X")], "Scaling parameter X must match"),
        ("Unified", &[("scaling_parameters", "L1")], "Fan factor cannot be lower than 2 in L1"),
        (
            "Unified",
            &[("target_sstable_size", "1KiB")],
            "target_sstable_size 1024 is not acceptable",
        ),
        (
            "Unified",
            &[("min_sstable_size", "1GiB")],
            "should be less than 70% of target_sstable_size",
        ),
        ("Unified", &[("base_shard_count", "0")], "base_shard_count should be positive: 0"),
        (
            "Unified",
            &[("base_shard_count", "2147483647")],
            "base_shard_count should be at most 65536: 2147483647",
        ),
        (
            "TimeWindow",
            &[("compaction_window_size", "2147483648")],
            "2147483648 is not a parsable int (base10) for compaction_window_size",
        ),
        ("Unified", &[("sstable_growth", "2")], "sstable_growth 2 must be between 0 and 1"),
        (
            "Unified",
            &[("min_threshold", "4")],
            "Properties specified [min_threshold] are not understood",
        ),
    ] {
        let mut all = options(pairs);
        let class =
            if class == "Nonsense" { class.into() } else { format!("{class}CompactionStrategy") };
        all.insert("class".into(), class);
        let got = CompactionStrategy::parse(&all).unwrap_err();
        assert!(got.contains(reason), "{all:?}: {got}");
    }
}

#[test]
fn the_default_is_what_the_class_alone_means() {
    let named = strategy("org.apache.cassandra.db.compaction.UnifiedCompactionStrategy", &[]);
    assert_eq!(CompactionStrategy::default(), named);
}

#[test]
fn size_tiers_take_files_of_like_size() {
    let tiers = strategy("SizeTieredCompactionStrategy", &[]);
    // Below 50 MiB all files are similar; 300 exceeds 1.5 times the mean of 100.
    let files = [1, 40, 100, 110, 90, 300, 95, 9, 3].into_iter().enumerate();
    let files: Vec<_> = files.map(|(n, size)| file(n as u64, size)).collect();
    assert_eq!(picked(&tiers, &files, &[]), [vec![0, 1, 7, 8], vec![2, 3, 4, 6]]);
    assert!(picked(&tiers, &files[..3], &[]).is_empty());
    let wide =
        strategy("SizeTieredCompactionStrategy", &[("min_threshold", "2"), ("max_threshold", "3")]);
    assert_eq!(picked(&wide, &files[..2], &[]), [vec![0, 1]]);
    assert!(picked(&wide, &files, &[]).iter().all(|files| files.len() <= 3));
    let off = strategy("SizeTieredCompactionStrategy", &[("enabled", "false")]);
    assert!(picked(&off, &files, &[]).is_empty());
}

#[test]
fn windows_that_are_over_become_one_file() {
    let windows = strategy("TimeWindowCompactionStrategy", &[]);
    let on_day = |number: u64, day: i64| SSTableInfo {
        maximum_timestamp: day * DAY_US + 5,
        ..file(number, 1)
    };
    let files = [on_day(1, 100), on_day(2, 100), on_day(3, 99), on_day(4, 98), on_day(5, 98)];
    // The open window is size-tiered and has too few files; a closed window should have one.
    assert_eq!(picked(&windows, &files, &[]), [vec![4, 5]]);
    let more = [on_day(1, 100), on_day(2, 100), on_day(3, 100), on_day(4, 100)];
    assert_eq!(picked(&windows, &more, &[]), [vec![1, 2, 3, 4]]);
    let hours = strategy(
        "TimeWindowCompactionStrategy",
        &[("compaction_window_unit", "HOURS"), ("compaction_window_size", "48")],
    );
    assert_eq!(picked(&hours, &files, &[]), [vec![3, 4, 5]]);
    // Old data is being written: the newest window closes when no file has arrived for the length
    // of a window.
    let old = [on_day(1, 50), on_day(2, 50), on_day(3, 49), on_day(4, 49)];
    assert_eq!(picked(&windows, &old, &[]), [vec![3, 4]]);
    let done = old.map(|file| SSTableInfo { age_s: 86_400, ..file });
    assert_eq!(picked(&windows, &done, &[]), [vec![1, 2], vec![3, 4]]);
}

#[test]
fn level_0_goes_up_with_all_that_it_meets() {
    let levels = strategy("LeveledCompactionStrategy", &[("sstable_size_in_mb", "10")]);
    let mut files: Vec<_> = (1..=4).map(|n| at(file(n, 5), 0, 0, 100)).collect();
    files.push(at(file(11, 10), 1, 50, 150));
    files.push(at(file(12, 10), 1, 151, 200));
    assert_eq!(picked(&levels, &files, &[]), [vec![1, 2, 3, 4, 11]]);
    let pick = &levels.picks(&candidates(&files, &[]))[0];
    assert_eq!((pick.level, &pick.split), (1, &Split::Bytes(10 * MIB)));
    // The files that it overlaps are being compacted.
    let busy = [files.remove(4)];
    assert!(picked(&levels, &files, &busy).is_empty());
    // No pick waits for files that cannot be compacted.
    let broken = [at(file(13, 1), 0, 0, 100), busy[0].clone()];
    let others = [files[4].clone(), at(file(14, 10), 1, 0, 40)];
    let idle: Vec<_> = files[..4].iter().chain(&others).cloned().collect();
    let picks = levels.picks(&CompactionCandidates { left_out: &broken, ..candidates(&idle, &[]) });
    let numbers: Vec<u64> = picks[0].files.iter().map(|index| idle[*index].number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 14]);
    // Small files only become one file of level 0.
    let small: Vec<_> = (1..=4).map(|n| file(n, 1)).collect();
    assert_eq!(levels.picks(&candidates(&small, &[]))[0].level, 0);
}

/// The file counts as level 0 whatever its level says: the outputs of its compaction in level 1
/// must not overlap.
#[test]
fn one_compaction_at_a_time_takes_what_overlaps_in_its_level() {
    let levels = strategy("LeveledCompactionStrategy", &[("sstable_size_in_mb", "10")]);
    let mut files: Vec<_> = (1..=4).map(|n| at(file(n, 5), 0, 0, 100)).collect();
    files.push(at(file(11, 10), 3, 200, 300));
    assert_eq!(picked(&levels, &files, &[at(file(12, 10), 3, 301, 350)]), [vec![1, 2, 3, 4]]);
    assert!(picked(&levels, &files, &[at(file(12, 10), 3, 250, 350)]).is_empty());
    // The other one of the two counts as level 0: it waits for others.
    let first = at(file(12, 10), 3, 150, 250);
    assert_eq!(picked(&levels, &files, &[first]), [vec![1, 2, 3, 4, 11]]);
}

#[test]
fn a_level_that_is_too_large_gives_its_cheapest_file_up() {
    let levels = strategy(
        "LeveledCompactionStrategy",
        &[("sstable_size_in_mb", "10"), ("fanout_size", "2")],
    );
    let files = [
        at(file(1, 10), 1, 0, 9),
        at(file(2, 10), 1, 10, 19),
        at(file(3, 10), 1, 20, 29),
        at(file(4, 10), 2, 0, 12),
        at(file(5, 10), 2, 13, 19),
    ];
    let picks = levels.picks(&candidates(&files, &[]));
    assert_eq!(picked(&levels, &files, &[]), [vec![3]]);
    assert_eq!(picks[0].level, 2);
    // Files of another origin that overlap in their level count as level 0.
    let overlapping: Vec<_> = (1..=4).map(|n| at(file(n, 10), 3, 0, 9)).collect();
    assert!(picked(&levels, &overlapping, &[]).is_empty());
    let five: Vec<_> = (1..=5).map(|n| at(file(n, 10), 3, 0, 9)).collect();
    assert_eq!(picked(&levels, &five, &[]), [vec![2, 3, 4, 5]]);
}

#[test]
fn tiers_of_the_unified_strategy_wait_for_as_many_as_overlap() {
    let unified = strategy("UnifiedCompactionStrategy", &[("scaling_parameters", "T4")]);
    let files: Vec<_> = (1..=4).map(|n| file(n, 10)).collect();
    assert_eq!(picked(&unified, &files, &[]), [vec![1, 2, 3, 4]]);
    assert!(picked(&unified, &files[..3], &[]).is_empty());
    // Four adjacent files do not overlap.
    let token = |n: u64| (i128::from(i64::MIN) + (i128::from(n) << 62)) as i64;
    let apart: Vec<_> =
        (0..4).map(|n| at(file(n, 2), 0, token(n), token(n + 1).wrapping_sub(1))).collect();
    assert!(picked(&unified, &apart, &[]).is_empty());
    // Files of different levels make no compaction: 40 MiB are beyond the first level.
    let mut mixed: Vec<_> = files[..3].to_vec();
    mixed.push(file(9, 40));
    assert!(picked(&unified, &mixed, &[]).is_empty());
}

#[test]
fn levels_of_the_unified_strategy_take_two() {
    let unified = strategy("UnifiedCompactionStrategy", &[("scaling_parameters", "L10")]);
    assert_eq!(picked(&unified, &[file(1, 10), file(2, 50)], &[]), [vec![1, 2]]);
    let mixed = strategy("UnifiedCompactionStrategy", &[("scaling_parameters", "T4, L10")]);
    assert!(picked(&mixed, &[file(1, 10), file(2, 10)], &[]).is_empty());
    assert_eq!(picked(&mixed, &[file(1, 100), file(2, 200)], &[]), [vec![1, 2]]);
    let neither = strategy("UnifiedCompactionStrategy", &[("scaling_parameters", "N")]);
    assert_eq!(picked(&neither, &[file(1, 10), file(2, 10)], &[]), [vec![1, 2]]);
}

#[test]
fn density_counts_and_not_size() {
    let Kind::Unified(unified) = strategy("UnifiedCompactionStrategy", &[]).kind else { panic!() };
    let files = [];
    let candidates = candidates(&files, &[]);
    // Flushes make 10 MiB; levels end at 31, 124, 496... MiB.
    assert_eq!(unified.level_of(&candidates, &file(1, 30)), 0);
    assert_eq!(unified.level_of(&candidates, &file(1, 32)), 1);
    assert_eq!(unified.level_of(&candidates, &file(1, 125)), 2);
    assert_eq!(unified.level_of(&candidates, &at(file(1, 32), 0, 0, i64::MAX)), 1);
    assert_eq!(unified.level_of(&candidates, &at(file(1, 63), 0, 0, i64::MAX)), 2);
    // A single partition spans too little for a density.
    assert_eq!(unified.level_of(&candidates, &at(file(1, 30), 0, 7, 7)), 0);
}

#[test]
fn outputs_are_split_by_the_published_formula() {
    let files = [];
    let candidates = candidates(&files, &[]);
    let parts = |pairs: &[(&str, &str)], gibibytes: f64| {
        let Kind::Unified(unified) = strategy("UnifiedCompactionStrategy", pairs).kind else {
            panic!()
        };
        unified.parts(&candidates, gibibytes * 1024.0 * MIB as f64)
    };
    // Below min_sstable_size for each base shard, there are as many parts as the size allows.
    assert_eq!(parts(&[], 0.05), 1);
    assert_eq!(parts(&[], 0.25), 2);
    assert_eq!(parts(&[], 1.0), 4);
    // b * 2^round((1 - growth) * log2(d / (t * b)))
    assert_eq!(parts(&[], 16.0), 4 * 2);
    assert_eq!(parts(&[], 4.0 * 64.0), 4 * 16);
    assert_eq!(parts(&[("sstable_growth", "1")], 4096.0), 4);
    // The size is within a factor of the square root of two from the target.
    assert_eq!(parts(&[("sstable_growth", "0")], 4.0 * 64.0), 4 * 64);
    assert_eq!(parts(&[("sstable_growth", "0"), ("base_shard_count", "3")], 3.0 * 8.0), 3 * 8);
    // No part has less than a MiB.
    let many = [("base_shard_count", "65536"), ("min_sstable_size", "0B")];
    assert_eq!(parts(&many, 1.0), 1024);
    assert_eq!(parts(&many, 1024.0), 65536);
    assert_eq!(parts(&[("base_shard_count", "6"), ("min_sstable_size", "0B")], 5.0 / 1024.0), 3);
    assert_eq!(parts(&[("base_shard_count", "6"), ("min_sstable_size", "0B")], 2.0 / 1024.0), 1);
}

/// Boundaries next to the ends of a span are not missed: compares with a search through all of
/// them.
#[test]
fn ends_of_parts_within_a_span() {
    let mut random = espalier_runtime::random::Generator::from_seed(9);
    for _ in 0..2000 {
        let mut token = || match random.below(4) {
            0 => [i64::MIN, i64::MAX, 0, -1][random.below(4) as usize],
            1 => random.below(2000) as i64 - 1000,
            _ => random.next_u64() as i64,
        };
        let (mut range, mut span) = ([token(), token()], [token(), token()]);
        range.sort();
        span.sort();
        let [first, last] = range;
        let span = (span[0].clamp(first, last), span[1].clamp(first, last));
        let parts = 1 + random.below(300);
        let tokens = i128::from(last) - i128::from(first) + 1;
        let end = |part| (i128::from(first) + tokens * part / i128::from(parts) - 1) as i64;
        let all = (1..i128::from(parts)).map(end).filter(|end| *end >= span.0 && *end < span.1);
        let found = super::unified::boundaries((first, last), parts, span);
        assert_eq!(found, all.collect::<Vec<_>>(), "{first} {last} {parts} {span:?}");
    }
}

#[test]
fn a_major_compaction_is_split_like_its_level() {
    let unified = strategy("UnifiedCompactionStrategy", &[]);
    let files: Vec<_> = (1..=8).map(|n| file(n, 1024)).collect();
    let PickedCompaction { files, split, .. } =
        unified.one_run(&candidates(&files, &[]), all(&files));
    assert_eq!(files.len(), 8);
    // 8 GiB: 4 * 2^round(2/3 * log2(8 / 4)) parts.
    let end = |part: i128| (i128::from(i64::MIN) + (part << 61) - 1) as i64;
    assert_eq!(split, Split::Tokens((1..8).map(end).collect()));
    let levels = strategy("LeveledCompactionStrategy", &[]);
    let nine: Vec<_> = (1..=9).map(|n| file(n, 1024)).collect();
    assert_eq!(levels.one_run(&candidates(&nine, &[]), all(&nine)).level, 2);
    // The remaining files overlap these.
    assert_eq!(levels.one_run(&candidates(&nine, &[]), vec![1, 2]).level, 0);
    assert_eq!(levels.one_run(&candidates(&nine[1..], &nine[..1]), vec![0, 1]).level, 0);
    // All are of one level, and no other file of it lies between them.
    let side_by_side: Vec<_> = (0..4)
        .map(|n| SSTableInfo {
            level: 3,
            first_token: n * 100,
            last_token: n * 100 + 99,
            ..file(n as u64, 160)
        })
        .collect();
    let of = |files| levels.one_run(&candidates(&side_by_side, &[]), files).level;
    assert_eq!((of(vec![2]), of(vec![1, 2]), of(vec![1, 3])), (3, 3, 0));
    assert_eq!(
        levels.one_run(&candidates(&side_by_side[1..], &side_by_side[..1]), vec![0, 2]).level,
        0
    );
}

#[test]
fn a_file_full_of_tombstones_is_compacted_alone() {
    for class in ["SizeTieredCompactionStrategy", "UnifiedCompactionStrategy"] {
        let strategy = strategy(class, &[]);
        let dead = SSTableInfo { droppable_ratio: 0.5, age_s: 90_000, ..file(7, 10) };
        assert_eq!(picked(&strategy, std::slice::from_ref(&dead), &[]), [vec![7]]);
        let young = SSTableInfo { age_s: 80_000, ..dead.clone() };
        assert!(picked(&strategy, &[young], &[]).is_empty());
        // The data that it covers may be in an older file: both are compacted if that is worth it.
        assert_eq!(picked(&strategy, &[dead.clone(), file(1, 10)], &[]), [vec![1, 7]]);
        assert!(picked(&strategy, &[dead.clone(), file(1, 20)], &[]).is_empty());
        assert!(picked(&strategy, std::slice::from_ref(&dead), &[file(1, 10)]).is_empty());
        assert_eq!(picked(&strategy, &[dead, file(9, 10)], &[]), [vec![7]]);
    }
}

/// The disk may have no room for the best pick.
#[test]
fn there_are_several_picks_for_garbage_and_the_best_comes_first() {
    let token = |n: u64| n as i64 * 1000;
    let part = |n: u64, ratio: f64| SSTableInfo {
        droppable_ratio: ratio,
        age_s: 90_000,
        ..at(file(n, 1), 0, token(n), token(n) + 999)
    };
    let unified = strategy("UnifiedCompactionStrategy", &[]);
    let apart = [part(1, 0.5), part(2, 0.9), part(3, 0.1)];
    assert_eq!(picked(&unified, &apart, &[]), [[2], [1]]);
    let many: Vec<_> = (0..20).map(|n| part(n, 0.5)).collect();
    assert_eq!(picked(&unified, &many, &[]).len(), 8);
    // Each file covers one other.
    let below = |n: u64| SSTableInfo { minimum_timestamp: 0, ..part(n, 0.0) };
    let pairs = [part(1, 0.5), below(1), part(2, 0.9), below(2)];
    let picks = unified.picks(&candidates(&pairs, &[]));
    let parts: Vec<_> = picks.iter().map(|pick| (&pick.files[..], pick.garbage)).collect();
    assert_eq!(parts, [(&[2, 3][..], Some(2)), (&[0, 1], Some(0))]);
    let levels = strategy("LeveledCompactionStrategy", &[]);
    let level = |n: u64, file: SSTableInfo| SSTableInfo { level: n as u32, ..file };
    let leveled =
        [level(1, part(1, 0.9)), level(2, below(1)), level(1, part(2, 0.9)), level(2, below(2))];
    let picks = levels.picks(&candidates(&leveled, &[]));
    let parts: Vec<_> = picks.iter().map(|pick| (&pick.files[..], pick.garbage)).collect();
    assert_eq!(parts, [(&[0, 1][..], Some(0)), (&[2, 3], Some(2))]);
}

/// A comparison of all pairs would take minutes.
#[test]
fn many_files_of_garbage_are_looked_through_at_once() {
    let token = |n: u64| i64::MIN + n as i64 * 1000;
    let part = |n: u64| SSTableInfo {
        droppable_ratio: 0.5,
        age_s: 90_000,
        ..at(file(n, 1), 0, token(n), token(n) + 999)
    };
    let files: Vec<_> = (0..200_000).map(part).collect();
    let unified = strategy("UnifiedCompactionStrategy", &[]);
    let began = espalier_runtime::time::Instant::now();
    assert_eq!(picked(&unified, &files, &[]).len(), 8);
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

/// Many files that cover nothing do not hide the other picks, for which the disk may have room.
#[test]
fn what_covers_something_is_found_among_what_does_not() {
    let token = |n: u64| n as i64 * 1000;
    let part = |n: u64, mebibytes: u64| SSTableInfo {
        droppable_ratio: 0.5,
        age_s: 90_000,
        ..at(file(n, mebibytes), 0, token(n), token(n) + 999)
    };
    let mut files: Vec<_> = (0..40).map(|n| part(n, 9)).collect();
    let below = SSTableInfo { minimum_timestamp: 0, droppable_ratio: 0.0, ..part(40, 1) };
    files.extend([part(40, 1), below]);
    let unified = strategy("UnifiedCompactionStrategy", &[]);
    assert!(picked(&unified, &files, &[]).contains(&vec![40, 40]));
}

/// Many files with more garbage that are not worth a compaction do not hide a pick that is; they
/// will not shrink soon.
#[test]
fn what_is_worth_it_is_found_among_what_is_not() {
    let token = |n: u64| n as i64 * 1000;
    let part = |n: u64, mebibytes: u64, level: u32| {
        at(file(n, mebibytes), level, token(n), token(n) + 999)
    };
    let mut files = Vec::new();
    for n in 0..100 {
        let garbage = SSTableInfo { droppable_ratio: 0.25, age_s: 90_000, ..part(n, 10, 1) };
        files.extend([garbage, SSTableInfo { minimum_timestamp: 0, ..part(n, 100, 2) }]);
    }
    let garbage = SSTableInfo { droppable_ratio: 1.0, age_s: 90_000, ..part(100, 1, 1) };
    files.extend([garbage, SSTableInfo { minimum_timestamp: 0, ..part(100, 1, 2) }]);
    for class in ["SizeTiered", "Unified", "Leveled"] {
        // No strategy has another pick for these files.
        let options: &[_] = match class {
            "SizeTiered" => &[("min_threshold", "1000"), ("max_threshold", "1000")],
            _ => &[],
        };
        let strategy = strategy(&format!("{class}CompactionStrategy"), options);
        assert_eq!(picked(&strategy, &files, &[]), [[100, 100]], "{class}");
        let (last, idle) = files.split_last().unwrap();
        assert!(picked(&strategy, idle, std::slice::from_ref(last)).is_empty(), "{class}");
    }
}

/// Many files of a level that cover only data of a lone file of level 0 give no pick: moving down
/// does not bring them together.
#[test]
fn what_covers_nothing_deeper_hides_no_deeper_garbage() {
    let token = |n: u64| n as i64 * 1000;
    let part = |n: u64, level: u32, ratio: f64| SSTableInfo {
        droppable_ratio: ratio,
        age_s: 90_000,
        ..at(file(n, 1), level, token(n), token(n) + 999)
    };
    let mut files: Vec<_> = (0..40).map(|n| part(n, 1, 0.5)).collect();
    files.push(SSTableInfo { minimum_timestamp: 0, ..at(file(40, 1), 0, token(0), token(60)) });
    files.push(part(50, 2, 0.5));
    files.push(SSTableInfo { minimum_timestamp: 0, ..part(50, 3, 0.0) });
    let strategy = strategy("LeveledCompactionStrategy", &[]);
    assert_eq!(picked(&strategy, &files, &[]), [[50, 50]]);
}

/// Cassandra may give files names without a number.
#[test]
fn files_without_numbers_are_not_one() {
    for class in ["SizeTieredCompactionStrategy", "UnifiedCompactionStrategy"] {
        let strategy = strategy(class, &[]);
        let taken = |files: &[SSTableInfo]| -> Vec<Vec<usize>> {
            let files: Vec<_> =
                files.iter().map(|file| SSTableInfo { number: 0, ..file.clone() }).collect();
            let picks = strategy.picks(&candidates(&files, &[])).into_iter();
            picks.map(|pick| pick.files).collect()
        };
        let dead = SSTableInfo { droppable_ratio: 0.5, age_s: 90_000, ..file(7, 10) };
        assert_eq!(taken(&[dead.clone(), file(1, 10), file(9, 10)]), [[0, 1]]);
        assert!(taken(&[dead, file(1, 20)]).is_empty());
    }
}

#[test]
fn a_window_is_written_anew_for_its_tombstones_only_if_that_is_asked_for() {
    let dead = SSTableInfo { droppable_ratio: 0.9, age_s: 90_000, ..file(7, 10) };
    let go = |pairs: &[(&str, &str)]| {
        let windows = strategy("TimeWindowCompactionStrategy", pairs);
        !picked(&windows, std::slice::from_ref(&dead), &[]).is_empty()
    };
    assert!(!go(&[]));
    assert!(!go(&[("unchecked_tombstone_compaction", "false")]));
    assert!(go(&[("tombstone_threshold", "0.2")]));
    assert!(go(&[("tombstone_compaction_interval", "86400")]));
    assert!(go(&[("unchecked_tombstone_compaction", "true")]));
}

/// A row deletion covers all cells of the row, a partition deletion all its rows.
#[test]
fn deletions_are_worth_what_they_cover() {
    for class in ["SizeTieredCompactionStrategy", "UnifiedCompactionStrategy"] {
        let strategy = strategy(class, &[]);
        let old = SSTableInfo { cells: 6000, rows: 1000, partitions: 100, ..file(1, 10) };
        let dead = SSTableInfo { droppable_ratio: 1.0, age_s: 90_000, ..file(7, 1) };
        let rows = |count: u64| SSTableInfo {
            cells: count,
            row_deletions: count,
            rows: count,
            partitions: 100,
            ..dead.clone()
        };
        assert_eq!(picked(&strategy, &[rows(1000), old.clone()], &[]), [vec![1, 7]]);
        assert_eq!(picked(&strategy, &[rows(300), old.clone()], &[]), [vec![1, 7]]);
        assert!(picked(&strategy, &[rows(100), old.clone()], &[]).is_empty());
        let partitions = |count: u64| SSTableInfo {
            row_deletions: 0,
            partition_deletions: count,
            rows: 0,
            partitions: count,
            ..rows(count)
        };
        assert_eq!(picked(&strategy, &[partitions(50), old.clone()], &[]), [vec![1, 7]]);
        assert!(picked(&strategy, &[partitions(10), old.clone()], &[]).is_empty());
        // Deleted cells count only themselves.
        let cells = SSTableInfo { row_deletions: 0, ..rows(1000) };
        assert!(picked(&strategy, &[cells, old], &[]).is_empty());
    }
}

#[test]
fn garbage_goes_down_to_the_level_that_it_covers() {
    let levels = strategy("LeveledCompactionStrategy", &[("sstable_size_in_mb", "10")]);
    let garbage = |number, level| SSTableInfo {
        droppable_ratio: 1.0,
        age_s: 90_000,
        row_deletions: 3000,
        rows: 3000,
        cells: 3000,
        ..at(file(number, 1), level, 0, 100)
    };
    let old = [at(file(1, 10), 3, 0, 100), at(file(2, 10), 3, 101, 200)];
    let beside = at(file(3, 10), 1, 101, 200);
    let go = |idle: &[SSTableInfo]| {
        let picks = levels.picks(&candidates(idle, &[]));
        let numbers = |pick: &PickedCompaction| {
            pick.files.iter().map(|index| idle[*index].number).collect::<Vec<u64>>()
        };
        picks.iter().map(|pick| (numbers(pick), pick.level)).collect::<Vec<_>>()
    };
    let all = |garbage: SSTableInfo| [garbage, old[0].clone(), old[1].clone(), beside.clone()];
    assert_eq!(go(&all(garbage(9, 0))), [(vec![9], 1)]);
    assert_eq!(go(&all(garbage(9, 1))), [(vec![9], 2)]);
    assert_eq!(go(&all(garbage(9, 2))), [(vec![9, 1], 3)]);
    // No deeper data is older: the file is compacted alone.
    let newer = at(file(10, 10), 3, 0, 100);
    assert_eq!(go(&[garbage(9, 2), newer]), [(vec![9], 2)]);
}

/// A small table has only level 0.
#[test]
fn garbage_of_level_0_goes_with_what_it_covers_there() {
    let levels = strategy("LeveledCompactionStrategy", &[]);
    let garbage = SSTableInfo { droppable_ratio: 1.0, age_s: 90_000, ..file(2, 10) };
    assert_eq!(picked(&levels, &[file(1, 10), garbage.clone()], &[]), [vec![1, 2]]);
    assert!(picked(&levels, &[file(1, 100), garbage.clone()], &[]).is_empty(), "not worth it");
    assert!(picked(&levels, &[garbage], &[file(1, 10)]).is_empty(), "being compacted");
}

/// Whatever the number of files, the outputs must overlap less than the inputs.
#[test]
fn the_most_files_are_counted_over_one_token() {
    let step = i128::from(u64::MAX / 32);
    let part = |number: i128| {
        let first = i128::from(i64::MIN) + (number - 1) * step;
        let span = (first as i64, (first + step - 1) as i64);
        let part = at(file(number as u64, 1), 0, span.0, span.1);
        SSTableInfo { bytes: 20 * MIB / 32, ..part }
    };
    let mut files: Vec<SSTableInfo> = (1..=32).map(part).collect();
    files.extend((40..43).map(|number| file(number, 20)));
    for most in ["32", "2"] {
        let unified = strategy("UnifiedCompactionStrategy", &[("max_sstables_to_compact", most)]);
        assert_eq!(picked(&unified, &files, &[])[0].len(), 35, "{most}");
    }
    // At most four over each token: the oldest.
    let unified = strategy("UnifiedCompactionStrategy", &[("max_sstables_to_compact", "2")]);
    let wide: Vec<SSTableInfo> = (1..=7).map(|number| file(number, 20)).collect();
    assert_eq!(picked(&unified, &wide, &[]), [[1, 2, 3, 4]]);
}

#[test]
fn windows_that_are_over_are_no_surplus() {
    let day =
        |number: u64, day: i64| SSTableInfo { maximum_timestamp: day * DAY_US, ..file(number, 10) };
    let files: Vec<SSTableInfo> = (0..100).map(|number| day(number, number as i64)).collect();
    let windows = strategy("TimeWindowCompactionStrategy", &[]);
    assert_eq!(windows.score(&candidates(&files, &[])), 0);
    let more: Vec<SSTableInfo> =
        (0..3).map(|number| day(200 + number, 100)).chain([day(300, 7)]).collect();
    let all: Vec<SSTableInfo> = files.iter().chain(&more).cloned().collect();
    assert_eq!(
        windows.score(&candidates(&all, &[])),
        1,
        "three files of the open window are too few"
    );
    let today: Vec<SSTableInfo> = (0..10).map(|number| day(200 + number, 100)).collect();
    assert_eq!(windows.score(&candidates(&today, &[])), 10 - 3);
}

#[test]
fn what_a_strategy_leaves_is_no_surplus() {
    let score = |class: &str, pairs: &[(&str, &str)], files: &[SSTableInfo]| {
        strategy(&format!("{class}CompactionStrategy"), pairs).score(&candidates(files, &[]))
    };
    let files: Vec<_> = (0..63).map(|number| file(number, 10)).collect();
    let sixty_four = &[("min_threshold", "64"), ("max_threshold", "64")][..];
    let unified = &[("scaling_parameters", "T64")][..];
    let classes = [("SizeTiered", sixty_four), ("Leveled", sixty_four), ("Unified", unified)];
    for (class, pairs) in classes {
        assert_eq!(score(class, pairs, &files), 0, "{class}");
        assert_eq!(score(class, &[], &files), 60, "{class}");
    }
    // There are three of each size, or level.
    let sizes: Vec<_> = (0..15).map(|number| file(number, 60 << (number / 3 * 2))).collect();
    assert_eq!(score("SizeTiered", &[], &sizes), 0);
    assert_eq!(score("Unified", &[], &sizes), 0);
    // There are one file of each level, and files of another origin that overlap there.
    let mut levels: Vec<_> = (0..8).map(|level| at(file(level, 10), level as u32, 0, 9)).collect();
    assert_eq!(score("Leveled", &[], &levels), 0);
    levels.extend((10..15).map(|number| at(file(number, 10), 3, 0, 9)));
    assert_eq!(score("Leveled", &[], &levels), 6 - 3);
}

#[test]
fn a_growth_may_be_told_in_percent() {
    let percent = strategy("UnifiedCompactionStrategy", &[("sstable_growth", "50%")]);
    assert_eq!(percent, strategy("UnifiedCompactionStrategy", &[("sstable_growth", "0.5")]));
}

#[test]
fn picks_that_share_files_are_pending_once() {
    let tiers = strategy("SizeTieredCompactionStrategy", &[]);
    let garbage = |number: u64| SSTableInfo {
        droppable_ratio: 0.9,
        age_s: 90_000,
        minimum_timestamp: 2,
        ..file(number, 10)
    };
    let files = [file(1, 10), garbage(2), garbage(3)];
    assert_eq!(picked(&tiers, &files, &[]).len(), 2);
    assert_eq!(tiers.pending(&candidates(&files, &[])), 1);
}
