//! Compares the picks of each strategy from the same files with a text.

use insta::assert_snapshot;

use super::*;

/// Shows the picks, the most urgent one first: numbers of the files, level and split of the
/// outputs.
fn shown(strategy: &CompactionStrategy, files: &[SSTableInfo]) -> String {
    let picks = strategy.picks(&candidates(files, &[])).into_iter();
    let lines = picks.map(|pick| {
        let numbers: Vec<u64> = pick.files.iter().map(|index| files[*index].number).collect();
        format!("  {numbers:?} to level {}, split: {:?}", pick.level, pick.split)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_strategy_has_its_picks() {
    let of_day = |file: SSTableInfo, day: i64| SSTableInfo {
        minimum_timestamp: (day - 1) * DAY_US,
        maximum_timestamp: day * DAY_US + 5,
        ..file
    };
    // Four flushes of today, two files of level 0 from yesterday, and a level 1 of older data.
    let mut files: Vec<_> = (1..=4).map(|number| of_day(file(number, 10), 100)).collect();
    files.extend([of_day(file(5, 60), 99), of_day(file(6, 70), 99)]);
    files.push(of_day(at(file(7, 160), 1, i64::MIN, -1), 98));
    files.push(of_day(at(file(8, 160), 1, 0, i64::MAX), 97));

    let mut picks = String::new();
    for (class, options) in [
        ("SizeTieredCompactionStrategy", [].as_slice()),
        ("SizeTieredCompactionStrategy", &[("min_threshold", "2")]),
        ("TimeWindowCompactionStrategy", &[]),
        ("LeveledCompactionStrategy", &[]),
        ("UnifiedCompactionStrategy", &[]),
        ("UnifiedCompactionStrategy", &[("scaling_parameters", "L4")]),
    ] {
        let shown = shown(&strategy(class, options), &files);
        picks += &format!("{class} {options:?}\n{shown}\n");
    }
    assert_snapshot!(picks, @r#"
    SizeTieredCompactionStrategy []
      [1, 2, 3, 4] to level 0, split: Never
    SizeTieredCompactionStrategy [("min_threshold", "2")]
      [1, 2, 3, 4] to level 0, split: Never
      [5, 6] to level 0, split: Never
      [7, 8] to level 0, split: Never
    TimeWindowCompactionStrategy []
      [1, 2, 3, 4] to level 0, split: Never
      [5, 6] to level 0, split: Never
    LeveledCompactionStrategy []
      [5, 6, 1, 2, 3, 4, 7, 8] to level 1, split: Bytes(167772160)
    UnifiedCompactionStrategy []
      [1, 2, 3, 4] to level 0, split: Never
    UnifiedCompactionStrategy [("scaling_parameters", "L4")]
      [1, 2, 3, 4] to level 0, split: Never
      [5, 6] to level 0, split: Never
    "#);
}
