//! Tests Rows.db of Cassandra 5.0.9 and ScyllaDB: walks every node, finds every block, and compares
//! each file with the index that Espalier writes for the same separators.

use crate::bti_support;

use bti_support::*;
use espalier_sstable::index::bti::row_index::{
    Block, BlockStart, NegativeDeletions, RowIndexReader, RowIndexWriter,
};
use espalier_trie::page::MemoryPages;

fn forward(index: &RowIndexReader<MemoryPages<'_>>, from: Option<&[u8]>) -> Vec<Block> {
    let mut blocks = block_on(index.forward(from)).unwrap();
    std::iter::from_fn(|| block_on(blocks.next()).unwrap()).collect()
}

fn backward(index: &RowIndexReader<MemoryPages<'_>>, to: Option<&[u8]>) -> Vec<Block> {
    let mut blocks = block_on(index.backward(to)).unwrap();
    std::iter::from_fn(|| block_on(blocks.next()).unwrap()).collect()
}

#[test]
fn every_node_and_block_of_real_indexes() {
    let (mut entries, mut blocks_total, mut open) = (0, 0, 0);
    for fixture in fixtures() {
        let name = &fixture.name;
        let mut extents = Vec::new();
        for position in row_entry_positions(&fixture.partitions) {
            let rows = MemoryPages(&fixture.rows);
            let index = block_on(RowIndexReader::open(rows, position)).unwrap();
            let entry = index.entry();
            extents.extend(check_nodes(&fixture.rows, entry.root, row_payload_size));
            let separators = separators(&fixture.rows, entry.root);
            assert_eq!(separators.len() as u64, entry.block_count + 1, "{name}");
            assert!(separators[0].is_empty() && entry.block_count >= 2, "{name}");

            let blocks = forward(&index, None);
            assert_eq!(blocks.len() as u64, entry.block_count, "{name}");
            assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].start), "{name}");
            let mut reversed = backward(&index, None);
            reversed.reverse();
            assert_eq!(reversed, blocks, "{name}");
            if let Some(data) = &fixture.data {
                let partition = &data[entry.data_position as usize..];
                assert_eq!(key_at(partition, 0), entry.key);
                let end = blocks.last().unwrap().end as usize;
                assert_eq!(partition[end], 0x01, "{name}: end of partition");
                assert!(blocks.iter().all(|block| partition[block.start as usize] != 0x01));
            }
            check_answers(&index, &separators, &blocks, name);
            entries += 1;
            blocks_total += blocks.len();
            open += blocks.iter().filter(|block| !block.open_deletion.is_live()).count();
        }
        extents.sort_unstable();
        assert!(extents.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{name}: tries overlap");
    }
    println!("{entries} entries, {blocks_total} blocks, {open} of them in an open deletion");
}

/// Makes look-ups just before, at and after up to 300 separators.
fn check_answers(
    index: &RowIndexReader<MemoryPages<'_>>,
    separators: &[Vec<u8>],
    blocks: &[Block],
    name: &str,
) {
    let step = separators.len() / 300 + 1;
    for (number, separator) in separators.iter().enumerate().step_by(step) {
        let mut positions = vec![separator.clone()];
        positions
            .extend([0x00, 0x20, 0x38, 0x60, 0xFF].map(|byte| [separator, &[byte][..]].concat()));
        if let Some((&last, rest)) = separator.split_last() {
            positions.push(rest.to_vec());
            positions.push([rest, &[last - 1, 0xFF]].concat());
        }
        for position in &positions {
            let expected = separators.partition_point(|other| other <= position) - 1;
            let start = block_on(index.floor_block(position)).unwrap();
            let end = block_on(index.end_offset(position)).unwrap();
            match blocks.get(expected) {
                Some(block) => {
                    assert_eq!((start.offset, end), (block.start, block.end), "{name} {number}");
                    assert_eq!(start.open_deletion, block.open_deletion);
                }
                None => {
                    let last = blocks.last().unwrap().end;
                    assert_eq!((start.offset, end), (last, last), "{name} {number}");
                }
            }
            if number % (step * 20) == 0 {
                let from = expected.min(blocks.len());
                assert_eq!(forward(index, Some(position)), blocks[from..], "{name} {number}");
                let mut reversed = backward(index, Some(position));
                reversed.reverse();
                assert_eq!(reversed, blocks[..blocks.len().min(expected + 1)], "{name} {number}");
            }
        }
    }
}

/// Returns a position below the separator, so that the writer makes exactly this separator.
fn below(separator: &[u8]) -> Vec<u8> {
    let (&last, rest) = separator.split_last().unwrap();
    [rest, &[last - 1, 0x38]].concat()
}

#[test]
fn our_index_with_the_same_separators() {
    let mut equal = 0;
    for fixture in fixtures() {
        let positions = row_entry_positions(&fixture.partitions);
        if positions.is_empty() {
            continue;
        }
        let mut ours = Vec::new();
        let mut writer = RowIndexWriter::new(NegativeDeletions::Extended);
        let mut our_positions = Vec::new();
        for &position in &positions {
            let rows = MemoryPages(&fixture.rows);
            let index = block_on(RowIndexReader::open(rows, position)).unwrap();
            let entry = index.entry();
            let separators = separators(&fixture.rows, entry.root);
            let blocks = forward(&index, None);
            for (number, block) in blocks.iter().enumerate() {
                let (first, last) = (&separators[number], below(&separators[number + 1]));
                let (offset, open_deletion) = (block.start, block.open_deletion);
                let start = BlockStart { offset, open_deletion };
                writer.add_block(&mut ours, first, &last, start).unwrap();
            }
            let end = blocks.last().unwrap().end;
            let written = writer.finish_partition(
                &mut ours,
                &entry.key,
                entry.data_position,
                entry.partition_deletion,
                end,
            );
            our_positions.push(written.unwrap().unwrap());
        }
        for (&ours_at, &theirs_at) in our_positions.iter().zip(&positions) {
            let our_index = block_on(RowIndexReader::open(MemoryPages(&ours), ours_at)).unwrap();
            let rows = MemoryPages(&fixture.rows);
            let their_index = block_on(RowIndexReader::open(rows, theirs_at)).unwrap();
            check_nodes(&ours, our_index.entry().root, row_payload_size);
            assert_eq!(
                separators(&ours, our_index.entry().root),
                separators(&fixture.rows, their_index.entry().root)
            );
            assert_eq!(forward(&our_index, None), forward(&their_index, None));
            assert_eq!(
                our_index.entry().partition_deletion,
                their_index.entry().partition_deletion
            );
        }
        if fixture.version == "da" {
            assert!(ours == fixture.rows, "{}: {} bytes, not the same", fixture.name, ours.len());
            equal += 1;
        } else {
            assert!(ours.len() <= fixture.rows.len(), "{}: {} bytes", fixture.name, ours.len());
        }
    }
    println!("{equal} of ours are equal to Cassandra's");
}
