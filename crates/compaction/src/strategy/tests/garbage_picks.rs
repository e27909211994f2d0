//! Tests the picks of files for their tombstones.

use espalier_runtime::cpu::thread_time;

use super::*;

/// Returns a file of the `n`th thousand tokens.
fn part(n: u64, mebibytes: u64, level: u32) -> SSTableInfo {
    let first = n as i64 * 1000;
    at(file(n, mebibytes), level, first, first + 999)
}

#[test]
fn a_file_full_of_tombstones_is_compacted_alone() {
    for class in ["SizeTieredCompactionStrategy", "UnifiedCompactionStrategy"] {
        let strategy = strategy(class, &[]);
        let dead = with_garbage(0.5, file(7, 10));
        assert_eq!(picked(&strategy, std::slice::from_ref(&dead), &[]), [vec![7]]);
        let young = SSTableInfo { age_s: 80_000, ..dead.clone() };
        assert!(picked(&strategy, &[young], &[]).is_empty());
        // The data that `dead` covers may be in an older file. Both files are compacted if that is
        // worth the work.
        assert_eq!(picked(&strategy, &[dead.clone(), file(1, 10)], &[]), [vec![1, 7]]);
        assert!(picked(&strategy, &[dead.clone(), file(1, 20)], &[]).is_empty());
        assert!(picked(&strategy, std::slice::from_ref(&dead), &[file(1, 10)]).is_empty());
        assert_eq!(picked(&strategy, &[dead, file(9, 10)], &[]), [vec![7]]);
    }
}

/// The disk may have no room for the best pick.
#[test]
fn several_garbage_picks_are_ordered_from_the_best() {
    let garbage = |n: u64, ratio: f64| with_garbage(ratio, part(n, 1, 0));
    let unified = strategy("UnifiedCompactionStrategy", &[]);
    let apart = [garbage(1, 0.5), garbage(2, 0.9), garbage(3, 0.1)];
    assert_eq!(picked(&unified, &apart, &[]), [[2], [1]]);
    let many: Vec<_> = (0..20).map(|n| garbage(n, 0.5)).collect();
    assert_eq!(picked(&unified, &many, &[]).len(), 8);
    // Each file of the first kind covers one of the second kind.
    let below = |n: u64| SSTableInfo { minimum_timestamp: 0, ..part(n, 1, 0) };
    let pairs = [garbage(1, 0.5), below(1), garbage(2, 0.9), below(2)];
    let picks = unified.picks(&candidates(&pairs, &[]));
    let parts: Vec<_> = picks.iter().map(|pick| (&pick.files[..], pick.garbage)).collect();
    assert_eq!(parts, [(&[2, 3][..], Some(2)), (&[0, 1], Some(0))]);
    let levels = strategy("LeveledCompactionStrategy", &[]);
    let level = |n: u64, file: SSTableInfo| SSTableInfo { level: n as u32, ..file };
    let (one, two) = (level(1, garbage(1, 0.9)), level(1, garbage(2, 0.9)));
    let leveled = [one, level(2, below(1)), two, level(2, below(2))];
    let picks = levels.picks(&candidates(&leveled, &[]));
    let parts: Vec<_> = picks.iter().map(|pick| (&pick.files[..], pick.garbage)).collect();
    assert_eq!(parts, [(&[0, 1][..], Some(0)), (&[2, 3], Some(2))]);
}

/// A comparison of all pairs would take minutes.
#[test]
fn many_files_of_garbage_are_looked_through_at_once() {
    let files: Vec<_> = (0..200_000).map(|n| with_garbage(0.5, part(n, 1, 0))).collect();
    let unified = strategy("UnifiedCompactionStrategy", &[]);
    // Processor time, because other processes have the cores at times.
    let began = thread_time();
    assert_eq!(picked(&unified, &files, &[]).len(), 8);
    let worked = thread_time() - began;
    assert!(worked.as_secs() < 10, "{worked:?}");
}

/// Many files that cover nothing do not hide the other picks, for which the disk may have room.
#[test]
fn a_file_that_covers_data_is_picked_among_many_that_do_not() {
    let mut files: Vec<_> = (0..40).map(|n| with_garbage(0.5, part(n, 9, 0))).collect();
    let below = SSTableInfo { minimum_timestamp: 0, ..part(40, 1, 0) };
    files.extend([with_garbage(0.5, part(40, 1, 0)), below]);
    let unified = strategy("UnifiedCompactionStrategy", &[]);
    assert!(picked(&unified, &files, &[]).contains(&vec![40, 40]));
}

/// Many files with more garbage that are not worth a compaction do not hide a pick that is worth
/// one.
#[test]
fn a_worthwhile_pick_is_found_among_many_that_are_not() {
    let mut files = Vec::new();
    for n in 0..100 {
        let garbage = with_garbage(0.25, part(n, 10, 1));
        files.extend([garbage, SSTableInfo { minimum_timestamp: 0, ..part(n, 100, 2) }]);
    }
    let garbage = with_garbage(1.0, part(100, 1, 1));
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

/// Many files of a level that cover only data of a single file of level 0 give no pick, because a
/// move down does not bring them together with that file.
#[test]
fn files_that_cover_nothing_deeper_do_not_hide_deeper_garbage() {
    let mut files: Vec<_> = (0..40).map(|n| with_garbage(0.5, part(n, 1, 1))).collect();
    files.push(SSTableInfo { minimum_timestamp: 0, ..at(file(40, 1), 0, 0, 60_000) });
    files.push(with_garbage(0.5, part(50, 1, 2)));
    files.push(SSTableInfo { minimum_timestamp: 0, ..part(50, 1, 3) });
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
        let dead = with_garbage(0.5, file(7, 10));
        assert_eq!(taken(&[dead.clone(), file(1, 10), file(9, 10)]), [[0, 1]]);
        assert!(taken(&[dead, file(1, 20)]).is_empty());
    }
}

#[test]
fn a_window_is_rewritten_for_tombstones_only_if_an_option_is_set() {
    let dead = with_garbage(0.9, file(7, 10));
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
fn row_and_partition_deletions_are_worth_the_cells_they_cover() {
    for class in ["SizeTieredCompactionStrategy", "UnifiedCompactionStrategy"] {
        let strategy = strategy(class, &[]);
        let old = SSTableInfo { cells: 6000, rows: 1000, partitions: 100, ..file(1, 10) };
        let dead = with_garbage(1.0, file(7, 1));
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
        row_deletions: 3000,
        rows: 3000,
        cells: 3000,
        ..with_garbage(1.0, at(file(number, 1), level, 0, 100))
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
    // No deeper file has older data, so the file with the garbage is compacted alone.
    let newer = at(file(10, 10), 3, 0, 100);
    assert_eq!(go(&[garbage(9, 2), newer]), [(vec![9], 2)]);
}

/// A small table has only level 0.
#[test]
fn garbage_in_level_0_is_picked_with_the_files_it_covers() {
    let levels = strategy("LeveledCompactionStrategy", &[]);
    let garbage = with_garbage(1.0, file(2, 10));
    assert_eq!(picked(&levels, &[file(1, 10), garbage.clone()], &[]), [vec![1, 2]]);
    assert!(picked(&levels, &[file(1, 100), garbage.clone()], &[]).is_empty(), "not worth it");
    assert!(picked(&levels, &[garbage], &[file(1, 10)]).is_empty(), "being compacted");
}
