//! Compares a Rows.db of random rows with a plain list of blocks.

use crate::bti_support;

use bti_support::*;
use espalier_mutation::DeletionTime;
use espalier_sstable::index::bti::IndexWriteError;
use espalier_sstable::index::bti::row_index::{
    Block, BlockStart, NegativeDeletions, RowIndexReader, RowIndexWriter,
};
use espalier_trie::page::MemoryPages;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

/// Generates a clustering position: a stem, a text, and the terminator of a row or a bound.
fn position() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![3 => 0x61_u8..0x64, 1 => Just(0xFF_u8), 1 => 1_u8..=0xFF];
    let stem = prop_oneof![12 => Just(0), 1 => Just(2_048), 1 => Just(5_000)];
    let terminator = prop_oneof![1 => Just(0x20), 6 => Just(0x38), 1 => Just(0x60)];
    (stem, vec(letter, 0..8), terminator).prop_map(|(stem, text, terminator)| {
        let mut position = vec![0x40];
        position.resize(1 + stem, 0x61);
        position.extend(text);
        position.extend([0x00, terminator]);
        position
    })
}

#[derive(Clone, Debug)]
struct Partition {
    key: Vec<u8>,
    deletion: DeletionTime,
    data_position: u64,
    /// First and last position of each block.
    bounds: Vec<(Vec<u8>, Vec<u8>)>,
    blocks: Vec<Block>,
}

fn deletion() -> impl Strategy<Value = DeletionTime> {
    let deleted = (-1000_i64..1 << 50, 0_u32..u32::MAX).prop_map(|(timestamp, local)| {
        DeletionTime { marked_for_delete_at: timestamp, local_deletion_time: local }
    });
    prop_oneof![Just(DeletionTime::LIVE), deleted]
}

fn partition() -> impl Strategy<Value = Partition> {
    let sizes = vec((1_u64..5, 1_u64..1 << 30, deletion()), 60);
    let key = prop_oneof![20 => vec(any::<u8>(), 0..20), 1 => Just(vec![7; 60_000])];
    (btree_set(position(), 1..60), sizes, key, deletion(), 0_u64..1 << 45).prop_map(
        |(positions, sizes, key, deletion, data_position)| {
            let mut positions = positions.into_iter();
            let mut offset = 16;
            let (mut bounds, mut blocks) = (Vec::new(), Vec::new());
            for (rows, size, open_deletion) in sizes {
                let rows: Vec<_> = positions.by_ref().take(rows as usize).collect();
                let (Some(first), Some(last)) = (rows.first(), rows.last()) else { break };
                bounds.push((first.clone(), last.clone()));
                blocks.push(Block { start: offset, end: offset + size, open_deletion });
                offset += size;
            }
            Partition { key, deletion, data_position, bounds, blocks }
        },
    )
}

fn write(writer: &mut RowIndexWriter, file: &mut Vec<u8>, partition: &Partition) -> Option<u64> {
    for ((first, last), block) in partition.bounds.iter().zip(&partition.blocks) {
        let start = BlockStart { offset: block.start, open_deletion: block.open_deletion };
        writer.add_block(file, first, last, start).unwrap();
    }
    let end = partition.blocks.last().unwrap().end;
    let Partition { key, deletion, data_position, .. } = partition;
    let entry = writer.finish_partition(file, key, *data_position, *deletion, end).unwrap();
    assert_eq!(writer.position(), file.len() as u64);
    entry
}

fn check(file: &[u8], entry: u64, partition: &Partition, others: &[Vec<u8>]) {
    let index = block_on(RowIndexReader::open(MemoryPages(file), entry)).unwrap();
    assert_eq!(index.entry().key, partition.key);
    assert_eq!(index.entry().data_position, partition.data_position);
    assert_eq!(index.entry().block_count, partition.blocks.len() as u64);
    assert_eq!(index.entry().partition_deletion, partition.deletion);
    check_nodes(file, index.entry().root, row_payload_size);
    let forward = |from: Option<&[u8]>| {
        let mut blocks = block_on(index.forward(from)).unwrap();
        std::iter::from_fn(|| block_on(blocks.next()).unwrap()).collect::<Vec<_>>()
    };
    let backward = |to: Option<&[u8]>| {
        let mut blocks = block_on(index.backward(to)).unwrap();
        std::iter::from_fn(|| block_on(blocks.next()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(forward(None), partition.blocks);
    assert!(backward(None).iter().rev().eq(&partition.blocks));

    let bounds = partition.bounds.iter().flat_map(|(first, last)| [first, last]);
    for position in bounds.chain(others) {
        // A reader needs that all rows at or above the position are in the block found or after it,
        // and that all rows at or below it are before the end found.
        let start = block_on(index.floor_block(position)).unwrap();
        let end = block_on(index.end_offset(position)).unwrap();
        let blocks = partition.bounds.iter().zip(&partition.blocks);
        let first_needed = blocks.clone().find(|((_, last), _)| last >= position);
        let last_needed = blocks.clone().rfind(|((first, _), _)| first <= position);
        if let Some((_, block)) = first_needed {
            assert!(start.offset <= block.start);
        }
        if let Some((_, block)) = last_needed {
            assert!(end >= block.end);
        }
        // The blocks just before the start and just after the end have no row that the reader
        // needs.
        if let Some(((_, last), _)) = blocks.clone().find(|(_, block)| block.end == start.offset) {
            assert!(last < position);
        }
        if let Some(((first, _), _)) = blocks.clone().find(|(_, block)| block.start == end) {
            assert!(first > position);
        }
        let found = partition.blocks.iter().position(|block| block.start == start.offset);
        let from = found.unwrap_or(partition.blocks.len());
        assert!(found.is_some() || start.offset == partition.blocks.last().unwrap().end);
        if let Some(found) = found {
            assert_eq!(start.open_deletion, partition.blocks[found].open_deletion);
        }
        assert_eq!(forward(Some(position)), partition.blocks[from..]);
        let to = partition.blocks.iter().take_while(|block| block.end <= end).count();
        assert!(backward(Some(position)).iter().rev().eq(&partition.blocks[..to]));
    }
}

proptest! {
    #![proptest_config(espalier_testing::properties(48))]

    #[test]
    fn blocks_are_found(
        partitions in vec(partition(), 1..8),
        others in vec(position(), 0..30),
    ) {
        let mut file = Vec::new();
        let mut writer = RowIndexWriter::new(NegativeDeletions::Extended);
        let mut entries = Vec::new();
        for partition in &partitions {
            let before = file.len();
            let entry = write(&mut writer, &mut file, partition);
            prop_assert_eq!(entry.is_some(), partition.blocks.len() > 1);
            prop_assert!(entry.is_some() || file.len() == before);
            entries.push(entry);
        }
        for (entry, partition) in entries.iter().zip(&partitions) {
            if let Some(entry) = entry {
                check(&file, *entry, partition, &others);
            }
        }
    }
}

#[test]
fn negative_deletions_are_refused_where_they_cannot_be_held() {
    let negative = DeletionTime { marked_for_delete_at: -1, local_deletion_time: 5 };
    let refused = Err(IndexWriteError::NegativeDeletion { timestamp: -1 });
    let mut file = Vec::new();
    let mut writer = RowIndexWriter::new(NegativeDeletions::Refused);
    let open = BlockStart { offset: 7, open_deletion: negative };
    assert_eq!(writer.add_block(&mut file, b"\x40\x38", b"\x40\x38", open), refused);

    let mut writer = RowIndexWriter::new(NegativeDeletions::Refused);
    let live = |offset| BlockStart { offset, open_deletion: DeletionTime::LIVE };
    writer.add_block(&mut file, b"\x40a\x38", b"\x40b\x38", live(7)).unwrap();
    writer.add_block(&mut file, b"\x40c\x38", b"\x40d\x38", live(9)).unwrap();
    let refused = writer.finish_partition(&mut file, b"k", 0, negative, 11);
    assert_eq!(refused, Err(IndexWriteError::NegativeDeletion { timestamp: -1 }));
}

#[test]
fn the_writer_refuses_disorder() {
    let mut file = Vec::new();
    let mut writer = RowIndexWriter::new(NegativeDeletions::Refused);
    let start = |offset| BlockStart { offset, open_deletion: DeletionTime::LIVE };
    writer.add_block(&mut file, b"\x40a\x38", b"\x40c\x38", start(7)).unwrap();
    for first in [&b"\x40c\x38"[..], b"\x40b\x38", b"\x40a\x38"] {
        let refused = writer.add_block(&mut file, first, b"\x40d\x38", start(8));
        assert_eq!(refused, Err(IndexWriteError::OutOfOrder { number: 1 }));
    }
    let too_large = start(1 << 56);
    assert!(writer.add_block(&mut file, b"\x40d\x38", b"\x40d\x38", too_large).is_err());
}
