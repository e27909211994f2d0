//! Tests the scores of strategies, and their numbers of pending compactions.

use super::*;

#[test]
fn closed_windows_of_one_file_have_no_score() {
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
fn files_that_a_strategy_does_not_compact_have_no_score() {
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
    // There are three files of each size, or level.
    let sizes: Vec<_> = (0..15).map(|number| file(number, 60 << (number / 3 * 2))).collect();
    assert_eq!(score("SizeTiered", &[], &sizes), 0);
    assert_eq!(score("Unified", &[], &sizes), 0);
    // There is one file of each level. Then files of another origin overlap in level 3.
    let mut levels: Vec<_> = (0..8).map(|level| at(file(level, 10), level as u32, 0, 9)).collect();
    assert_eq!(score("Leveled", &[], &levels), 0);
    levels.extend((10..15).map(|number| at(file(number, 10), 3, 0, 9)));
    assert_eq!(score("Leveled", &[], &levels), 6 - 3);
}

#[test]
fn picks_that_share_files_are_pending_once() {
    let tiers = strategy("SizeTieredCompactionStrategy", &[]);
    let garbage =
        |number: u64| SSTableInfo { minimum_timestamp: 2, ..with_garbage(0.9, file(number, 10)) };
    let files = [file(1, 10), garbage(2), garbage(3)];
    assert_eq!(picked(&tiers, &files, &[]).len(), 2);
    assert_eq!(tiers.pending(&candidates(&files, &[])), 1);
}
