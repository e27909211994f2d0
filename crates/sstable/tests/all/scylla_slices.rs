//! Tests slices of rows, forward and in reverse, and ranges of keys and tokens. The slices and
//! ranges come from ScyllaDB's own tests of these files.

use crate::support;

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringSlice, ClusteringSlices, DecoratedKey, Direction,
    KeyBound, KeyRange, Token, Unfiltered, UnfilteredStream,
};
use espalier_sstable::{ColumnSelection, SSTableError, SSTableReader};
use support::{
    block_on, content,
    scylla::{open_as_it_is, sstable},
};

fn open(folder: &str, name: &str) -> Option<SSTableReader> {
    Some(block_on(open_as_it_is(&sstable(folder, name)?, None)).unwrap())
}

fn int(value: i32) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

fn key(bytes: &[u8]) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(bytes))
}

fn bound(kind: BoundKind, value: impl Into<Bytes>) -> ClusteringBound {
    ClusteringBound { kind, values: [Some(value.into())].into() }
}

fn slice(
    (start, from): (BoundKind, impl Into<Bytes>),
    (end, to): (BoundKind, impl Into<Bytes>),
) -> ClusteringSlice {
    ClusteringSlice { start: bound(start, from), end: bound(end, to) }
}

/// Reads the rows and markers of a slice, and returns them in clustering order.
fn read(
    reader: &SSTableReader,
    key: &DecoratedKey,
    slices: Vec<ClusteringSlice>,
    direction: Direction,
) -> Vec<Unfiltered> {
    let slices = Arc::new(ClusteringSlices { slices });
    let mut all = block_on(async {
        let columns = ColumnSelection::All;
        let mut stream = reader.read_partition(key, slices, direction, &columns).await?.unwrap();
        let mut all = Vec::new();
        while let Some(unfiltered) = stream.next().await? {
            all.push(unfiltered);
        }
        Ok::<_, SSTableError>(all)
    })
    .unwrap();
    if direction == Direction::Reverse {
        all.reverse();
    }
    all
}

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// Returns the first clustering value of each row.
fn texts(unfiltereds: &[Unfiltered]) -> Vec<String> {
    let values = unfiltereds.iter().map(|unfiltered| match unfiltered {
        Unfiltered::Row(row) => row.clustering.values[0].clone().unwrap(),
        Unfiltered::Marker(marker) => panic!("{marker:?}"),
    });
    values.map(|value| String::from_utf8(value.to_vec()).unwrap()).collect()
}

fn ints(unfiltereds: &[Unfiltered]) -> Vec<i32> {
    let of = |unfiltered: &Unfiltered| match unfiltered {
        Unfiltered::Row(row) => row.clustering.values[0].clone().unwrap(),
        Unfiltered::Marker(marker) => panic!("{marker:?}"),
    };
    unfiltereds.iter().map(|row| i32::from_be_bytes((&of(row)[..]).try_into().unwrap())).collect()
}

use BoundKind::{ExclusiveEnd, ExclusiveStart, InclusiveEnd, InclusiveStart};

#[test]
fn slices_of_a_large_partition_return_their_rows() {
    let folder = "large_partition/try1/data-1c6ace40fad111e7b9cf000000000002";
    for version in ["mc", "me", "mt"] {
        let Some(reader) = open(folder, &format!("{version}-3-big")) else { return };
        let partition = key(b"v1");
        for direction in BOTH {
            let five = slice((InclusiveStart, "18wX"), (InclusiveEnd, "18xB"));
            let rows = read(&reader, &partition, vec![five], direction);
            assert_eq!(texts(&rows), ["18wX", "18wY", "18wZ", "18xA", "18xB"]);
            let many = slice((InclusiveStart, "13aB"), (InclusiveEnd, "15aA"));
            let rows = read(&reader, &partition, vec![many], direction);
            assert_eq!(rows.len(), 1352);
            let none = slice((ExclusiveStart, "18wX"), (ExclusiveEnd, "18wY"));
            assert!(read(&reader, &partition, vec![none], direction).is_empty());
        }
    }
}

#[test]
fn slices_of_small_partitions_return_their_rows() {
    let folder =
        "sliced_mutation_reads/ks/sliced_mutation_reads_test-1c6ace40fad111e7b9cf000000000002";
    for version in ["mc", "md", "me", "ms", "mt"] {
        let Some(reader) = open(folder, &format!("{version}-1-big")) else { return };
        let one = |value| slice((InclusiveStart, int(value)), (InclusiveEnd, int(value)));
        for (slices, of_zero, of_one) in [
            (vec![one(0), one(5)], vec![0], vec![5]),
            (vec![slice((InclusiveStart, int(0)), (ExclusiveEnd, int(3)))], vec![0, 1, 2], vec![1]),
            (vec![slice((InclusiveStart, int(3)), (InclusiveEnd, int(9)))], vec![3, 4], vec![3, 5]),
        ] {
            for direction in BOTH {
                for (partition, expected) in [(0, &of_zero), (1, &of_one)] {
                    let rows = read(&reader, &key(&int(partition)), slices.clone(), direction);
                    assert_eq!(ints(&rows), *expected, "{version} {partition} {direction:?}");
                }
            }
        }
    }
}

#[test]
fn slices_of_two_rows_return_their_rows() {
    let Some(reader) = open("3.x/uncompressed/read_two_rows_fast_forwarding", "mc-1-big") else {
        return;
    };
    let range = |from, to| slice((InclusiveStart, int(from)), (ExclusiveEnd, int(to)));
    for direction in BOTH {
        let read = |slices| ints(&read(&reader, &key(&int(0)), slices, direction));
        assert_eq!(read(vec![range(2, 3), range(4, 5)]), Vec::<i32>::new());
        assert_eq!(read(vec![range(2, 3), range(4, 5), range(6, 9)]), [7, 8]);
    }
}

/// The range deletion that covers a row is returned, wherever the slice begins.
#[test]
fn inside_of_a_range_deletion() {
    let folder = "promoted_index_read/ks/promoted_index_read-1c6ace40fad111e7b9cf000000000002";
    for version in ["mc", "md", "me", "ms", "mt"] {
        let Some(reader) = open(folder, &format!("{version}-1-big")) else { return };
        let partition = key(&int(0));
        for direction in BOTH {
            let all = read(&reader, &partition, vec![ClusteringSlice::all()], direction);
            let kinds = all.iter().map(|unfiltered| match unfiltered {
                Unfiltered::Row(row) => row.clustering.values.clone(),
                Unfiltered::Marker(marker) => marker.position.values.clone(),
            });
            let value = |value| Some(int(value));
            let expected: [Box<[_]>; 4] = [
                [value(0)].into(),
                [value(0), value(0)].into(),
                [value(0), value(1)].into(),
                [value(0)].into(),
            ];
            assert!(kinds.eq(expected), "{version} {direction:?}");
            let second = ClusteringSlice::prefix([value(0), value(1)].into());
            let found = read(&reader, &partition, vec![second], direction);
            let [Unfiltered::Marker(opens), Unfiltered::Row(_), Unfiltered::Marker(closes)] =
                found.as_slice()
            else {
                panic!("{found:?}");
            };
            assert!(!opens.after.is_live() && opens.after == closes.before);
        }
    }
}

/// Each range between two keys or tokens, with each kind of end, must return exactly the keys
/// inside.
#[test]
fn ranges_of_keys_and_tokens_return_their_keys() {
    let folder = "partition_skipping/ks/test_skipping_partitions-1c6ace40fad111e7b9cf000000000002";
    for version in ["mc", "md", "me", "ms", "mt"] {
        let Some(reader) = open(folder, &format!("{version}-1-big")) else { return };
        let all: Vec<_> = block_on(content(&reader)).unwrap();
        let all: Vec<_> = all.into_iter().map(|(header, _)| header.key).collect();
        let mut numbers: Vec<_> = all.iter().map(|key| key.key[3]).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        // Each bound is paired with the number of keys before it.
        let mut starts = vec![(KeyBound::Unbounded, 0)];
        let mut ends = vec![(KeyBound::Unbounded, all.len())];
        for (index, key) in all.iter().enumerate() {
            let (before, token) = (Token(key.token.0 - 1), key.token);
            for (bound, number) in [
                (KeyBound::BeforeToken(before), index),
                (KeyBound::AfterToken(before), index),
                (KeyBound::BeforeToken(token), index),
                (KeyBound::BeforeKey(key.clone()), index),
                (KeyBound::AfterKey(key.clone()), index + 1),
                (KeyBound::AfterToken(token), index + 1),
            ] {
                starts.push((bound.clone(), number));
                ends.push((bound, number));
            }
        }
        for (start, from) in &starts {
            for (end, to) in &ends {
                let range = KeyRange { start: start.clone(), end: end.clone() };
                let expected = all.get(*from..*to).unwrap_or_default();
                let found = block_on(async {
                    let slices = Arc::new(ClusteringSlices::all());
                    let mut scan =
                        reader.scan(range.clone(), slices, &ColumnSelection::All).await?;
                    let mut found = Vec::new();
                    // Rows are left unread, and the scan skips them.
                    while let Some(partition) = scan.next_partition().await? {
                        found.push(partition.header().key.clone());
                    }
                    Ok::<_, SSTableError>(found)
                })
                .unwrap();
                assert!(found == expected, "{version} {range:?}");
            }
        }
    }
}
