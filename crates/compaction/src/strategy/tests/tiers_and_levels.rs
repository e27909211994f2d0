//! Tests the picks of the size-tiered, the time-window and the leveled strategy.

use super::*;

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
fn closed_windows_are_compacted_into_one_file() {
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
    // The file of level 1 that the files of level 0 overlap is being compacted.
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

/// A file that overlaps another file of its level counts as level 0. Only one compaction of level 0
/// runs at a time, so that its outputs in level 1 do not overlap.
#[test]
fn files_that_overlap_in_their_level_count_as_level_0() {
    let levels = strategy("LeveledCompactionStrategy", &[("sstable_size_in_mb", "10")]);
    let mut files: Vec<_> = (1..=4).map(|n| at(file(n, 5), 0, 0, 100)).collect();
    files.push(at(file(11, 10), 3, 200, 300));
    assert_eq!(picked(&levels, &files, &[at(file(12, 10), 3, 301, 350)]), [vec![1, 2, 3, 4]]);
    assert!(picked(&levels, &files, &[at(file(12, 10), 3, 250, 350)]).is_empty());
    // Here the idle file comes second in its level and counts as level 0, so it is picked.
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
