//! The rows of a test. Keys, clusterings and values are functions of the row's number, so that
//! every row that is read can be checked.

use bytes::Bytes;
use espalier_cql::Value;

use super::arguments::Test;
use crate::memtable::scatter;
use crate::simple_query::entries::Entries;

/// Rows of a partition in test 3 of ScyllaDB's comparison.
const LARGE_PARTITION_ROWS: u64 = 460_000;
/// Rows of a partition in test 4 of ScyllaDB's comparison.
const LONG_PREFIX_ROWS: u64 = 46_000;

/// Bytes of a clustering in test 3. The comparison only calls it large; 64 is arbitrary.
const LARGE_CLUSTERING_BYTES: usize = 64;
/// Bytes of a clustering in test 4.
const LONG_CLUSTERING_BYTES: usize = 2048;

/// Bytes of a key, as in cassandra-stress.
const KEY_BYTES: usize = 10;

/// The content of a test's table.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    pub test: Test,
    pub partitions: u64,
    /// Rows of each partition. 0 if the table has no clustering columns; each partition then has
    /// one row.
    pub partition_rows: u64,
    pub entries: Entries,
}

impl Population {
    /// Returns the population of `test`, scaled so that the typical test has `rows` rows.
    pub fn of(test: Test, rows: u64) -> Self {
        let narrow = |rows, columns, value_bytes| Self {
            test,
            partitions: rows,
            partition_rows: 0,
            entries: Entries { count: rows, columns, value_bytes },
        };
        // At least two partitions, because `rows` is at least 500 (`--rows` is at least 1,000).
        let wide = |rows: u64, most: u64, value_bytes| {
            let partition_rows = most.min(rows / 2).max(1);
            let partitions = rows.div_ceil(partition_rows);
            let entries = Entries { count: partitions * partition_rows, columns: 1, value_bytes };
            Self { test, partitions, partition_rows, entries }
        };
        match test {
            Test::Typical => narrow(rows, 5, 256),
            Test::KeyValue => narrow(8 * rows, 1, 8),
            Test::LargePartitions => wide(2 * rows, LARGE_PARTITION_ROWS, 256),
            Test::LongPrefixes => wide(rows / 2, LONG_PREFIX_ROWS, 1024),
            Test::WidePartition => Self {
                test,
                partitions: 1,
                partition_rows: 2 * rows,
                entries: Entries { count: 2 * rows, columns: 1, value_bytes: 300 },
            },
        }
    }

    /// Returns true if the table has clustering columns.
    pub fn has_clustering(&self) -> bool {
        self.partition_rows > 0
    }

    /// Returns the column definitions and the key for CREATE TABLE.
    pub fn definition(&self) -> String {
        let columns: Vec<_> = self.columns().map(|name| format!("{name} blob")).collect();
        let columns = columns.join(", ");
        match (self.test, self.has_clustering()) {
            (Test::WidePartition, _) => format!("k int, c int, {columns}, PRIMARY KEY (k, c)"),
            (_, true) => format!("k blob, c blob, {columns}, PRIMARY KEY (k, c)"),
            (_, false) => format!("k blob PRIMARY KEY, {columns}"),
        }
    }

    /// Returns the names of the columns beside the key.
    pub fn columns(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.entries.columns).map(|at| format!("c{at}"))
    }

    /// Returns the key of a partition.
    pub fn key(&self, partition: u64) -> Vec<u8> {
        if self.test == Test::WidePartition {
            return (partition as i32).to_be_bytes().to_vec();
        }
        let mut key = vec![0; KEY_BYTES];
        key[..8].copy_from_slice(&scatter(partition).to_be_bytes());
        key[8..].copy_from_slice(&(partition as u16).to_be_bytes());
        key
    }

    /// Returns the clustering of a row of a partition; clusterings ascend with `row`.
    pub fn clustering(&self, row: u64) -> Vec<u8> {
        match self.test {
            Test::WidePartition => (row as i32).to_be_bytes().to_vec(),
            Test::LongPrefixes => {
                let mut clustering = vec![b'p'; LONG_CLUSTERING_BYTES];
                clustering[LONG_CLUSTERING_BYTES - 8..].copy_from_slice(&row.to_be_bytes());
                clustering
            }
            _ => {
                // Each row has an interval of equal length, and lies at a hashed offset in it.
                let stride = u64::MAX / self.partition_rows.max(1);
                let place = row * stride + scatter(row) % stride;
                (0..LARGE_CLUSTERING_BYTES as u64 / 8)
                    .flat_map(|word| match word {
                        0 => place.to_be_bytes(),
                        word => scatter(place.wrapping_add(word)).to_be_bytes(),
                    })
                    .collect()
            }
        }
    }

    /// Returns the partition of a row, and the row's index in it.
    pub fn place(&self, number: u64) -> (u64, u64) {
        match self.partition_rows {
            0 => (number, 0),
            rows => (number / rows, number % rows),
        }
    }

    /// Returns the full key of a row, for SELECT.
    pub fn full_key(&self, number: u64) -> Vec<Value> {
        let (partition, row) = self.place(number);
        let mut values = vec![Value::Bytes(Bytes::from(self.key(partition)))];
        if self.has_clustering() {
            values.push(Value::Bytes(Bytes::from(self.clustering(row))));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_in_order_in_their_partitions_and_differ() {
        for test in [Test::LargePartitions, Test::LongPrefixes, Test::WidePartition] {
            let population = Population::of(test, 5000);
            assert_eq!(population.entries.count, population.partitions * population.partition_rows);
            let mut last = population.clustering(0);
            for row in 1..population.partition_rows {
                let next = population.clustering(row);
                assert!(last < next, "{test:?} {row}");
                last = next;
            }
            let (partition, row) = population.place(population.entries.count - 1);
            assert_eq!(
                (partition, row),
                (population.partitions - 1, population.partition_rows - 1)
            );
        }
        let keys = Population::of(Test::KeyValue, 5000);
        let mut all: Vec<_> = (0..keys.partitions).map(|partition| keys.key(partition)).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len() as u64, keys.partitions);
    }
}
