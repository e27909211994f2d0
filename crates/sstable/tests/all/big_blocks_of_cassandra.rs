//! Cuts the partitions of Cassandra's files into blocks. The Index.db that results must equal
//! Cassandra's byte for byte.

use crate::big_support;

use big_support::{data_walk::walk_partition, *};
use espalier_sstable::index::big::{
    partition_index::{IndexEntry, PartitionIndexWriter},
    promoted_index::PromotedIndexBuilder,
};

/// Makes an Index.db from the keys and positions of `entries`, with blocks cut from Data.db.
fn make(
    fixture: &BigFixture,
    data: &[u8],
    entries: &[IndexEntry],
    column_index_size: u32,
) -> Vec<u8> {
    let types = &fixture.types;
    let mut builder = PromotedIndexBuilder::new(fixture.form(), column_index_size);
    let mut writer = PartitionIndexWriter::new();
    let (mut file, mut promoted) = (Vec::new(), Vec::new());
    for entry in entries {
        let partition = walk_partition(data, entry.data_position, &fixture.header, fixture.form());
        for unfiltered in &partition.unfiltereds {
            let position = unfiltered.position.as_ref();
            builder.begin(types, position, unfiltered.start).unwrap();
            builder.end(types, position, unfiltered.end, unfiltered.open).unwrap();
        }
        let last = partition.unfiltereds.last().map(|last| last.position.as_ref());
        let (deletion, end) = (partition.deletion, partition.end_offset);
        builder.finish(types, last, deletion, end, &mut promoted).unwrap();
        let promoted = (!promoted.is_empty()).then_some(promoted.as_slice());
        writer.append(&mut file, &entry.key.key, entry.data_position, promoted).unwrap();
    }
    file
}

#[test]
fn an_index_is_made_of_the_data() {
    let (mut made, mut with_blocks) = (0, 0);
    for fixture in fixtures().iter().filter(|fixture| fixture.is_cassandras()) {
        let Some(data) = &fixture.data else { continue };
        let entries = entries(&fixture.open().unwrap()).unwrap();
        // The SSTable does not record the table's `column_index_size`, so the test tries four
        // sizes.
        let sizes = [1, 4, 16, 64].map(|kib| kib * 1024);
        let is_made = |size: &u32| make(fixture, data, &entries, *size) == fixture.index;
        assert!(sizes.iter().any(is_made), "{}", fixture.name);
        made += 1;
        with_blocks += usize::from(entries.iter().any(|entry| entry.promoted.is_some()));
    }
    println!("{made} made, {with_blocks} of them with blocks");
    assert!(with_blocks >= 2);
}
