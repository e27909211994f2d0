//! Tests the picks of the unified strategy, and the parts of its outputs.

use super::*;

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

/// Checks by a search through all boundaries that none next to an end of a span is missed.
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
        let found = unified::boundaries((first, last), parts, span);
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
    // The remaining files overlap the picked ones.
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
