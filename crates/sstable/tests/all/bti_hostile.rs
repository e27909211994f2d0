//! Tests broken index files: errors and wrong answers are allowed, but no panics, endless loops or
//! growing memory.

use crate::bti_support;
use crate::support::dice;

use bti_support::*;
use dice::Dice;
use espalier_mutation::DeletionTime;
use espalier_sstable::index::bti::IndexError;
use espalier_sstable::index::bti::partition_index::{
    IndexPosition, PartitionIndexReader, PartitionIndexWriter,
};
use espalier_sstable::index::bti::row_index::{
    BlockStart, NegativeDeletions, RowIndexReader, RowIndexWriter,
};
use espalier_trie::page::MemoryPages;

fn break_file(dice: &mut Dice, file: &[u8]) -> Vec<u8> {
    let mut broken = file.to_vec();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(broken.len());
        broken[at] ^= 1 << dice.below(8);
    }
    let tail = broken.len().min(60);
    let at = broken.len() - 1 - dice.below(tail);
    broken[at] = dice.below(256) as u8;
    if dice.below(5) == 0 {
        broken.truncate(dice.below(broken.len()));
    }
    broken
}

fn read_partitions(file: &[u8], dice: &mut Dice) -> bool {
    let reader = PartitionIndexReader::open(MemoryPages(file), file.len() as u64);
    let Ok(index) = block_on(reader) else { return false };
    let mut cursor = index.cursor(index.source());
    let mut steps = 0;
    let mut next = block_on(cursor.first());
    // The loop has a limit of its own, because the damage may be in the number of keys, which
    // limits the cursor.
    while let (Ok(Some(_)), true) = (&next, steps < 5000) {
        next = block_on(cursor.next());
        steps += 1;
    }
    for _ in 0..5 {
        let key = byte_comparable(dice.below(1000) as i64 - 500, &[dice.below(256) as u8]);
        let _ = block_on(cursor.seek_ceiling(&key));
        let _ = block_on(index.exact_candidate(index.source(), &key, 0));
    }
    true
}

#[test]
fn broken_partition_indexes() {
    let mut dice = Dice(0x1357_9BDF_0246_8ACE);
    let mut opened = 0;
    for count in [1, 2, 50, 900] {
        let mut file = Vec::new();
        let mut writer = PartitionIndexWriter::new();
        for number in 0..count {
            let key = [number as u8; 3];
            let full = byte_comparable(number as i64 - 450, &key);
            let position = IndexPosition::Data(number * 40);
            writer.add(&mut file, &full, &key, hash_byte(&key), position).unwrap();
        }
        writer.finish(&mut file).unwrap();
        for _ in 0..400 {
            opened += usize::from(read_partitions(&break_file(&mut dice, &file), &mut dice));
        }
    }
    assert!(opened > 100, "nearly all were refused at once: nothing was tested");
    for length in 0..200 {
        read_partitions(&vec![0; length], &mut dice);
        read_partitions(&vec![0xFF; length], &mut dice);
    }
}

fn read_rows(file: &[u8], entry: u64, dice: &mut Dice) -> bool {
    let Ok(index) = block_on(RowIndexReader::open(MemoryPages(file), entry)) else { return false };
    let position = [0x40, dice.below(256) as u8, dice.below(256) as u8, 0x38];
    for position in [None, Some(&position[..])] {
        if let Ok(mut blocks) = block_on(index.forward(position)) {
            let mut steps = 0;
            while let (Ok(Some(_)), true) = (block_on(blocks.next()), steps < 5000) {
                steps += 1;
            }
        }
        if let Ok(mut blocks) = block_on(index.backward(position)) {
            let mut steps = 0;
            while let (Ok(Some(_)), true) = (block_on(blocks.next()), steps < 5000) {
                steps += 1;
            }
        }
    }
    let _ = block_on(index.floor_block(&position));
    let _ = block_on(index.end_offset(&position));
    true
}

#[test]
fn broken_row_indexes() {
    let mut dice = Dice(0xFEDC_BA98_7654_3210);
    let mut opened = 0;
    for count in [2_u64, 30, 1000] {
        let mut file = Vec::new();
        let mut writer = RowIndexWriter::new(NegativeDeletions::Extended);
        for number in 0..count {
            let position = [&[0x40][..], &number.to_be_bytes()[6..], &[0x38]].concat();
            let marked_for_delete_at = if number % 5 == 0 { i64::MIN } else { number as i64 - 9 };
            let open_deletion = DeletionTime { marked_for_delete_at, local_deletion_time: 1 };
            let start = BlockStart { offset: 16 + number * 1000, open_deletion };
            writer.add_block(&mut file, &position, &position, start).unwrap();
        }
        let live = DeletionTime::LIVE;
        let entry = writer.finish_partition(&mut file, b"key", 99, live, 16 + count * 1000);
        let entry = entry.unwrap().unwrap();
        for _ in 0..400 {
            let broken = break_file(&mut dice, &file);
            opened += usize::from(read_rows(&broken, entry, &mut dice));
            read_rows(&broken, dice.below(file.len() + 10) as u64, &mut dice);
        }
    }
    assert!(opened > 100, "nearly all were refused at once: nothing was tested");
    read_rows(&[], u64::MAX, &mut dice);
}

/// Forty nodes, each with two ways to the next: 2^40 keys in less than 300 bytes. The number of
/// keys in the footer (1,000) ends an iteration.
#[test]
fn branches_that_share_nodes_do_not_hold_anyone() {
    let mut file = vec![0x08, 0xE6, 0xFF];
    let mut distance = 3;
    for _ in 0..40 {
        file.extend([0x50, 2, 0, 1, distance, distance]);
        distance = 6;
    }
    let root = file.len() as u64 - 6;
    let keys = file.len() as u64;
    file.extend([0, 1, b'a', 0, 1, b'b']);
    for field in [keys, 1000, root] {
        file.extend(field.to_be_bytes());
    }
    let reader = PartitionIndexReader::open(MemoryPages(&file), file.len() as u64);
    let index = block_on(reader).unwrap();
    let mut cursor = index.cursor(index.source());
    assert!(block_on(cursor.first()).unwrap().is_some());
    let mut steps = 0;
    let error = loop {
        match block_on(cursor.next()) {
            Ok(candidate) => assert!(candidate.is_some() && steps < 1000),
            Err(error) => break error,
        }
        steps += 1;
    };
    assert!(matches!(error, IndexError::Malformed(_)), "{error}");
    assert_eq!(steps, 999);
}

#[test]
fn a_footer_is_checked() {
    let mut good = Vec::new();
    let mut writer = PartitionIndexWriter::new();
    for key in [b"a", b"b"] {
        let full = byte_comparable(i64::from(key[0]), key);
        writer.add(&mut good, &full, key, 0, IndexPosition::Data(0)).unwrap();
    }
    writer.finish(&mut good).unwrap();
    let open = |file: &[u8]| {
        block_on(PartitionIndexReader::open(MemoryPages(file), file.len() as u64)).err()
    };
    assert_eq!(open(&good), None);
    let message = |at_from_end: usize, bytes: &[u8]| {
        let mut file = good.clone();
        let at = file.len() - at_from_end;
        file[at..at + bytes.len()].copy_from_slice(bytes);
        open(&file).unwrap().to_string()
    };
    let behind = u64::MAX.to_be_bytes();
    assert!(message(24, &behind).ends_with("the first key after itself"));
    assert!(message(8, &behind).ends_with("the root after the first key"));
    assert!(message(16, &[0; 8]).ends_with("counts no keys"));
    assert!(message(30, &[0, 9]).ends_with("the first key is cut off"));
    assert!(message(27, &[0, 9]).ends_with("the last key is cut off"));
    assert!(message(27, &[0, 0]).ends_with("between the last key and the footer"));
    let short = open(&good[..20]).unwrap().to_string();
    assert!(short.ends_with("the file ends before its footer does"), "{short}");
}
