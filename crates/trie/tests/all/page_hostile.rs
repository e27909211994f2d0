//! Tests of broken files: wrong answers and errors are fine, but no panics, endless loops or
//! growing memory.

use crate::page_support::*;
use espalier_trie::page::layout::{MAX_DEPTH, MAX_PAYLOAD_SIZE};
use espalier_trie::page::{
    Cursor, Fault, MemoryPages, PageTrieWriter, ReadError, Walker, WriteError,
};

/// Calls everything that reads, from an arbitrary root.
fn read_all(file: &[u8], root: u64, model: &Model, dice: &mut Dice) {
    let mut cursor = Cursor::new(MemoryPages(file), root);
    let most = 2 * model.len() + 100;
    let mut steps = 0;
    let mut more = block_on(cursor.first());
    while more == Ok(true) && steps < most {
        let _ = block_on(cursor.node()).map(|node| node.map(|node| node.payload().len()));
        more = block_on(cursor.next());
        steps += 1;
    }
    more = block_on(cursor.last());
    while more == Ok(true) && steps < 2 * most {
        more = block_on(cursor.previous());
        steps += 1;
    }
    let mut walker = Walker::new(MemoryPages(file));
    for _ in 0..10 {
        let at = dice.below(model.len() as u64) as usize;
        let mut key = model.keys().nth(at).unwrap().clone();
        if dice.below(2) == 0 && !key.is_empty() {
            let at = dice.below(key.len() as u64) as usize;
            key[at] ^= 1 << dice.below(8);
        }
        let _ = block_on(walker.exact(root, &key));
        let _ = block_on(walker.prefix(root, &key));
        let _ = block_on(walker.floor(root, &key));
        let _ = block_on(walker.ceiling(root, &key));
        let _ = block_on(walker.higher(root, &key));
        let _ = block_on(cursor.seek_floor(&key));
        let _ = block_on(cursor.next());
        let _ = block_on(cursor.seek_prefix_or_ceiling(&key));
        let _ = block_on(cursor.previous());
    }
}

#[test]
fn flipped_bits_and_cut_files() {
    let mut dice = Dice(0xDEAD_BEEF_1234_5677);
    for _ in 0..60 {
        let mut model = Model::new();
        let (letters, longest) = (2 + dice.below(200), 1 + dice.below(12));
        for _ in 0..1 + dice.below(400) {
            let key = (0..dice.below(longest)).map(|_| dice.below(letters) as u8).collect();
            let payload = payload(2 + dice.below(60) as usize, dice.roll() as u8);
            model.insert(key, (1 + dice.below(15) as u8, payload));
        }
        let (file, root) = build(&model, dice.below(70_000) as usize);
        for _ in 0..60 {
            let mut broken = file.clone();
            for _ in 0..1 + dice.below(8) {
                let at = dice.below(broken.len() as u64) as usize;
                broken[at] ^= 1 << dice.below(8);
            }
            // One more change is near the end, where the root and its nearest children are.
            let tail = broken.len().saturating_sub(64);
            let at = tail + dice.below((broken.len() - tail) as u64) as usize;
            broken[at] = dice.roll() as u8;
            if dice.below(4) == 0 {
                broken.truncate(dice.below(broken.len() as u64) as usize);
            }
            read_all(&broken, root, &model, &mut dice);
            read_all(&broken, dice.below(file.len() as u64 + 10), &model, &mut dice);
        }
    }
}

#[test]
fn random_bytes_do_not_panic() {
    let mut dice = Dice(99);
    let model = Model::from([(vec![1, 2, 3], (1, vec![0, 2])), (vec![0x40; 9], (1, vec![0, 2]))]);
    for _ in 0..300 {
        let file: Vec<u8> = (0..20_000).map(|_| dice.roll() as u8).collect();
        for _ in 0..10 {
            read_all(&file, dice.below(20_010), &model, &mut dice);
        }
    }
}

/// Returns the position and the fault of a look-up that must fail.
fn fault(file: &[u8], root: u64) -> (u64, Fault) {
    match block_on(Walker::new(MemoryPages(file)).maximum(root)) {
        Err(ReadError::Corrupt(corrupt)) => (corrupt.position, corrupt.fault),
        other => panic!("{other:?}"),
    }
}

#[test]
fn faults_are_named() {
    // A leaf without payload; a distance of 0; a child before the file; a child table cut off.
    assert_eq!(fault(&[0x00], 0), (0, Fault::Empty));
    assert_eq!(fault(&[0x01, 0x10, b'a'], 1), (1, Fault::Distance { distance: 0 }));
    assert_eq!(fault(&[0x01, 0x12, b'a'], 1), (1, Fault::Distance { distance: 2 }));
    assert_eq!(fault(&[0x01, 0x50, 9, 1, 2, 3], 1), (1, Fault::PastPage));
    assert_eq!(fault(&[0x01], 1), (1, Fault::PastPage));
    assert_eq!(fault(&[0x01], u64::MAX), (u64::MAX, Fault::PastPage));
    // Dense without any child, and sparse without children.
    assert_eq!(fault(&[0x01, 0xA0, 0, 0, 0, 0], 1), (1, Fault::Empty));
    assert_eq!(fault(&[0x01, 0x50, 0], 1), (1, Fault::Empty));
    // A dense node with three transitions from 0xFE on: the last one would be beyond 0xFF.
    assert_eq!(fault(&[0x01, 0xA0, 0xFE, 2, 0, 0x10, 1, 0, 1], 1), (1, Fault::Transitions));
    // A node over the end of its page although the file goes on.
    let mut file = vec![1; 4095];
    file.extend([0x2F, b'a', 1, 0, 0]);
    assert_eq!(fault(&file, 4095), (4095, Fault::PastPage));
}

#[test]
fn a_path_may_not_be_endlessly_deep() {
    let mut file = vec![0x01, 0];
    for _ in 0..MAX_DEPTH + 10 {
        file.extend([0x12, b'a']);
    }
    let root = file.len() as u64 - 2;
    let result = block_on(Cursor::new(MemoryPages(&file), root).first());
    let Err(ReadError::Corrupt(corrupt)) = result else { panic!("{result:?}") };
    assert_eq!(corrupt.fault, Fault::TooDeep);
    let mut cursor = Cursor::new(MemoryPages(&file), root - 2 * 10);
    assert_eq!(block_on(cursor.first()), Ok(true));
    assert_eq!(cursor.key().len(), MAX_DEPTH);

    // Look-ups that go to the end of a branch; no key of the caller limits their depth.
    let mut walker = Walker::new(MemoryPages(&file));
    let too_deep = |result| match result {
        Err(ReadError::Corrupt(corrupt)) if corrupt.fault == Fault::TooDeep => {}
        other => panic!("{other:?}"),
    };
    too_deep(block_on(walker.minimum(root)).map(Some));
    too_deep(block_on(walker.maximum(root)).map(Some));
    too_deep(block_on(walker.floor(root, b"b")));
    too_deep(block_on(walker.ceiling(root, b"")));
    too_deep(block_on(walker.higher(root, b"Z")));
    assert!(block_on(walker.maximum(root - 2 * 10)).is_ok());
}

#[test]
fn the_writer_refuses_keys_and_payloads_that_readers_cannot_read() {
    let mut file = Vec::new();
    let mut writer = PageTrieWriter::new(0);
    assert_eq!(writer.complete(&mut file), Err(WriteError::NoKeys));
    let bits = |bits| WriteError::Payload { length: 1, bits };
    assert_eq!(writer.add(&mut file, b"a", 0, b"x"), Err(bits(0)));
    assert_eq!(writer.add(&mut file, b"a", 16, b"x"), Err(bits(16)));
    let long = vec![0; MAX_PAYLOAD_SIZE + 1];
    assert!(writer.add(&mut file, b"a", 1, &long).is_err());
    let long = vec![0; MAX_DEPTH + 1];
    let length = long.len();
    assert_eq!(writer.add(&mut file, &long, 1, b"x"), Err(WriteError::KeyTooLong { length }));
    writer.add(&mut file, b"ab", 1, b"\0\x02").unwrap();
    for (key, depth) in [(&b"ab"[..], 2), (b"aa", 1), (b"a", 1), (b"", 0), (b"Z", 0)] {
        let refused = Err(WriteError::OutOfOrder { number: 1, depth });
        assert_eq!(writer.add(&mut file, key, 1, b"xx"), refused);
    }
    // A refusal leaves the trie as it was.
    writer.add(&mut file, b"abc", 1, b"\0\x02").unwrap();
    let root = writer.complete(&mut file).unwrap();
    assert!(contents(&file, root).keys().eq([&b"ab"[..], b"abc"]));
}
