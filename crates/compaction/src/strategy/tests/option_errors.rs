//! Tests that the options that Cassandra accepts are accepted, and the others refused with its
//! error texts.

use super::*;

#[test]
fn bad_options_are_refused_in_cassandras_words() {
    for (class, pairs, reason) in [
        (
            "Nonsense",
            &[][..],
            "Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.Nonsense'",
        ),
        ("a.Nonsense", &[], "Unable to find compaction strategy class 'a.Nonsense'"),
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
            "bucket_high value (1.5) is less than or equal to the bucket_low value (2.0)",
        ),
        ("SizeTiered", &[("bucket_low", "x")], "x is not a parsable float for bucket_low"),
        ("SizeTiered", &[("min_sstable_size", "-1")], "min_sstable_size must be non negative: -1"),
        (
            "SizeTiered",
            &[("tombstone_threshold", "-0.4")],
            "tombstone_threshold must be greater than 0, but was -0.400000",
        ),
        (
            "SizeTiered",
            &[("tombstone_threshold", "-Infinity")],
            "tombstone_threshold must be greater than 0, but was -Infinity",
        ),
        (
            "SizeTiered",
            &[("tombstone_threshold", "x")],
            "x is not a parsable int (base10) for tombstone_threshold",
        ),
        (
            "SizeTiered",
            &[("tombstone_compaction_interval", "-1")],
            "tombstone_compaction_interval must be greater than 0, but was -1",
        ),
        (
            "SizeTiered",
            &[("enabled", "maybe")],
            "enabled should either be 'true' or 'false', not maybe",
        ),
        ("SizeTiered", &[("log_all", "x")], "'log_all' should either be 'true' or 'false', not x"),
        (
            "SizeTiered",
            &[("unchecked_tombstone_compaction", "x")],
            "'unchecked_tombstone_compaction' should be either 'true' or 'false', not 'x'",
        ),
        (
            "SizeTiered",
            &[("provide_overlapping_tombstones", "x")],
            "Invalid value X for 'provide_overlapping_tombstones' compaction sub-option - must be one of the following [NONE, ROW, CELL].",
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
            "0 must be greater than 1 for compaction_window_size",
        ),
        (
            "TimeWindow",
            &[("unsafe_aggressive_sstable_expiration", "x")],
            "unsafe_aggressive_sstable_expiration is not 'true' or 'false' (x)",
        ),
        (
            "TimeWindow",
            &[("expired_sstable_check_frequency_seconds", "x")],
            "x is not a parsable int (base10) for expired_sstable_check_frequency_seconds",
        ),
        (
            "Unified",
            &[("expired_sstable_check_frequency_seconds", "x")],
            "x is not a parsable long (base10) for expired_sstable_check_frequency_seconds",
        ),
        (
            "Unified",
            &[("unsafe_aggressive_sstable_expiration", "x")],
            "unsafe_aggressive_sstable_expiration should either be 'true' or 'false', not x",
        ),
        (
            "Unified",
            &[("scaling_parameters", "T4, X")],
            "Scaling parameter X must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+",
        ),
        ("Unified", &[("scaling_parameters", "T+4")], "Scaling parameter T+4 must match"),
        ("Unified", &[("scaling_parameters", "L1")], "Fan factor cannot be lower than 2 in L1"),
        (
            "Unified",
            &[("target_sstable_size", "1 KiB")],
            "target_sstable_size 1 KiB is not acceptable, size must be at least 1.000MiB",
        ),
        (
            "Unified",
            &[("target_sstable_size", "1073741824")],
            "target_sstable_size 1073741824 is not a valid size in bytes: 1073741824 does not end in unit B",
        ),
        (
            "Unified",
            &[("target_sstable_size", "8EiB")],
            "target_sstable_size 8EiB is out of range of Long.",
        ),
        (
            "Unified",
            &[("flush_size_override", "0B")],
            "flush_size_override 0B is not acceptable, size must be at least 1.000MiB",
        ),
        (
            "Unified",
            &[("flush_size_override", "xB")],
            "flush_size_override xB is not a valid size in bytes: null",
        ),
        (
            "Unified",
            &[("min_sstable_size", "1GiB")],
            "Invalid configuration, min_sstable_size (1.000GiB) should be less than 70% of the targetSSTableSize (1.000GiB)",
        ),
        // The product of the target and the square root of a half is rounded up.
        (
            "Unified",
            &[("min_sstable_size", "759250125B")],
            "min_sstable_size (724.077MiB) should be less than 70%",
        ),
        (
            "Unified",
            &[("min_sstable_size", "-1B")],
            "min_sstable_size should be greater than or equal to 0 (zero)",
        ),
        (
            "Unified",
            &[("min_sstable_size", "10")],
            "10 is not a valid size in bytes for min_sstable_size",
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
        ("Unified", &[("sstable_growth", "200%")], "sstable_growth 200% must be between 0 and 1"),
        (
            "Unified",
            &[("sstable_growth", "x %")],
            "sstable_growth is not a valid number between 0 and 1: For input string: \"x\"",
        ),
        (
            "Unified",
            &[("sstable_growth", "")],
            "sstable_growth is not a valid number between 0 and 1: empty String",
        ),
        (
            "Unified",
            &[("min_threshold", "4")],
            "Properties specified [min_threshold] are not understood",
        ),
    ] {
        let mut all = options(pairs);
        let is_known = !class.ends_with("Nonsense");
        let class = if is_known { format!("{class}CompactionStrategy") } else { class.to_owned() };
        all.insert("class".into(), class);
        let got = CompactionStrategy::parse(&all).unwrap_err();
        assert!(got.contains(reason), "{all:?}: {got}");
    }
    let got = CompactionStrategy::parse(&options(&[])).unwrap_err();
    assert_eq!(got, "Missing sub-option 'class' for the 'compaction' option");
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

#[test]
fn valid_options_of_cassandra_are_accepted() {
    for (class, pairs) in [
        ("SizeTiered", &[("tombstone_threshold", "0"), ("tombstone_compaction_interval", "0")][..]),
        ("SizeTiered", &[("only_purge_repaired_tombstones", "x")]),
        ("SizeTiered", &[("provide_overlapping_tombstones", "Cell")]),
        ("Leveled", &[("single_sstable_uplevel", "x")]),
        ("Unified", &[("min_sstable_size", "759250124B")]),
        // The default of min_sstable_size is larger.
        ("Unified", &[("target_sstable_size", "1MiB")]),
        ("Unified", &[("target_sstable_size", "1GB"), ("flush_size_override", "1e3MiB")]),
        ("Unified", &[("flush_size_override", "8EiB")]),
        ("Unified", &[("flush_size_override", "1e400B")]),
    ] {
        strategy(&format!("{class}CompactionStrategy"), pairs);
    }
}

#[test]
fn sizes_are_read_as_cassandra_reads_them() {
    for (text, bytes) in [
        ("0B", 0.0),
        ("-1B", -1.0),
        ("+1.5 KB", 1500.0),
        ("1MB", 1e6),
        ("1GB", 1e9),
        ("2TB", 2e12),
        ("1e3MiB", 1000.0 * MIB as f64),
        ("1E+2B", 100.0),
        ("1EiB", (1u64 << 60) as f64),
        ("1PiB", (1u64 << 50) as f64),
    ] {
        assert_eq!(size::parse_bytes(text), Ok(bytes), "{text}");
    }
    for (text, reason) in [
        ("1024", "1024 does not end in unit B"),
        ("B", "null"),
        (" 1B", "null"),
        (".5B", "null"),
        ("1.MiB", "Unexpected characters between pos 1 and 4 in 1.MiB"),
        ("1XB", "Unexpected characters between pos 1 and 2 in 1XB"),
        ("1MiiB", "Unexpected characters between pos 3 and 4 in 1MiiB"),
    ] {
        assert_eq!(size::parse_bytes(text), Err(reason.to_owned()), "{text}");
    }
}

#[test]
fn sizes_are_printed_with_three_digits() {
    for (bytes, text) in [
        (0, "0B"),
        (1023, "1023B"),
        (MIB, "1.000MiB"),
        (1088 * MIB, "1.063GiB"),
        (1 << 63, "8.000EiB"),
    ] {
        assert_eq!(size::print_bytes(bytes), text);
    }
}

#[test]
fn refused_options_leave_the_class_and_the_switch() {
    let fallback = |pairs: &[(&str, &str)]| CompactionStrategy::fallback(&options(pairs));
    let class = "LeveledCompactionStrategy";
    let leveled = fallback(&[("class", class), ("fanout_size", "x"), ("enabled", "False")]);
    assert_eq!(leveled, strategy(class, &[("enabled", "false")]));
    assert_eq!(fallback(&[("class", "Foo"), ("enabled", "x")]), CompactionStrategy::default());
}
