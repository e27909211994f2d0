//! Tests that invalid options are refused with Cassandra's error texts.

use super::*;

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
fn the_default_is_the_unified_strategy_without_options() {
    let named = strategy("org.apache.cassandra.db.compaction.UnifiedCompactionStrategy", &[]);
    assert_eq!(CompactionStrategy::default(), named);
}

#[test]
fn sstable_growth_may_be_in_percent() {
    let percent = strategy("UnifiedCompactionStrategy", &[("sstable_growth", "50%")]);
    assert_eq!(percent, strategy("UnifiedCompactionStrategy", &[("sstable_growth", "0.5")]));
}
