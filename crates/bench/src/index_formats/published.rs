//! The published figures, to compare with.

use super::arguments::Test;

/// One row of the published table, with figures of its text.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// The published title.
    pub title: &'static str,
    /// Operations a second at a 99th percentile of at most 10 ms on three nodes: legacy, trie.
    pub throughput: (u32, u32),
    /// The 99th percentile, in ms: legacy, trie.
    pub p99_ms: (f64, f64),
    /// The goal for this build: throughput of the trie as a multiple of the legacy index's.
    pub ratio: f64,
    /// The goal for the fall of the 99th percentile at equal load, as a part of the legacy index's.
    pub p99_less: Option<f64>,
}

/// Index bytes that the legacy format reads from the disk for each byte that the trie reads, at
/// equal load.
pub const INDEX_BYTES: f64 = 7.0;

/// Returns the published figures of a test; those of the wide partition are in another text.
pub fn of(test: Test) -> Option<Published> {
    let (title, throughput, p99_ms, ratio, p99_less) = match test {
        Test::Typical => {
            ("Test 1: typical, 20 % row cache", (130_000, 170_000), (5.1, 1.9), 1.31, Some(0.49))
        }
        Test::KeyValue => ("Test 2: key/value", (90_000, 300_000), (5.2, 3.6), 3.33, None),
        Test::LargePartitions => {
            ("Test 3: large partitions", (23_000, 37_000), (7.7, 4.6), 1.61, None)
        }
        Test::LongPrefixes => {
            ("Test 4: long shared clustering prefixes", (22_000, 38_000), (5.4, 3.3), 1.73, None)
        }
        Test::WidePartition => return None,
    };
    Some(Published { title, throughput, p99_ms, ratio, p99_less })
}
