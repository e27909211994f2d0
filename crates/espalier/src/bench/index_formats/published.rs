//! The figures that were published, to stand beside ours.

use super::arguments::Test;

/// One row of the published table, and what the text says beside it.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// As its title has it.
    pub title: &'static str,
    /// Operations a second at a 99th percentile of at most 10 ms, three nodes: legacy, trie.
    pub throughput: (u32, u32),
    /// That percentile, in ms: legacy, trie.
    pub p99_ms: (f64, f64),
    /// What ours is to reach: how many times the throughput.
    pub ratio: f64,
    /// And by how much of its own the 99th percentile at equal load falls.
    pub p99_less: Option<f64>,
}

/// Bytes of the index that the legacy format reads from the disk at equal load for each that the trie reads.
pub const INDEX_BYTES: f64 = 7.0;

/// Of a test; the wide partition is another text.
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
