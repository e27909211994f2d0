//! Tests that the memory that tries and writers report is the memory that the allocator gave them.
// A counting allocator needs `unsafe`. It counts the bytes of each thread, and so of each test.
#![allow(unsafe_code, clippy::unwrap_used)]

use espalier_trie::memory::InMemoryTrie;
use espalier_trie::page::PageTrieWriter;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // While a thread ends, its counter may be gone already.
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes));
}

// SAFETY: every call goes to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocated() -> isize {
    BYTES.with(Cell::get)
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

const KEYS: u64 = if cfg!(miri) { 200 } else { 20_000 };

/// The table of chunks, and the counters around it.
const TABLES: isize = 4 << 10;
const REST: isize = 512;

#[test]
fn a_trie_that_is_cleared_keeps_its_memory() {
    let mut trie = InMemoryTrie::<u64>::new();
    let empty = trie.used_bytes();
    for number in 0..KEYS {
        trie.put(&key(number), number).unwrap();
    }
    // Leaves free blocks and runs of blocks behind.
    for number in 0..KEYS / 2 {
        trie.remove(&key(number)).unwrap();
    }
    let (before, capacity) = (allocated(), trie.allocated_bytes());
    for round in 1..3 {
        assert!(trie.clear());
        assert_eq!((trie.used_bytes(), trie.allocated_bytes()), (empty, capacity));
        assert!(trie.is_empty() && trie.content_count() == 0);
        for number in 0..KEYS {
            assert_eq!(trie.get(&key(number)), None);
            trie.put(&key(KEYS * round + number), number).unwrap();
        }
        assert_eq!(trie.allocated_bytes(), capacity);
        let entries = || (0..KEYS).map(|number| (key(KEYS * round + number), number));
        assert!(entries().all(|(key, number)| trie.get(&key) == Some(&number)));
        assert_eq!(trie.content_count() as u64, KEYS);
    }
    assert!(allocated() <= before);
    let reader = trie.reader();
    assert!(!trie.clear(), "a reader still has the entries");
    assert_eq!(trie.content_count() as u64, KEYS);
    drop(reader);
    assert!(trie.clear());
    assert!(!InMemoryTrie::<Box<u8>>::new().clear(), "contents must be dropped");
}

#[test]
fn a_trie_counts_its_chunks_and_gives_everything_back() {
    for readers in [0, 3] {
        let before = allocated();
        let mut trie = InMemoryTrie::<u64>::new();
        let readers: Vec<_> = (0..readers).map(|_| trie.reader()).collect();
        for number in 0..KEYS {
            trie.put(&key(number), number).unwrap();
            if number % 3 == 0 {
                trie.put(&key(number / 2), number).unwrap();
                trie.remove(&key(number / 3)).unwrap();
            }
        }
        assert!(readers.is_empty() || trie.retired_bytes() > 0);
        let taken = allocated() - before - trie.allocated_bytes() as isize;
        let slots = 64 * readers.len() as isize + 8 * 4;
        // Bags of 256 retired units, of which three may be nearly empty.
        let retired = 4 * (trie.retired_bytes() as isize / 8) + 3 * 4 * 256 + 512;
        assert!(taken > 0 && taken < TABLES + REST + slots + retired, "{taken} bytes besides");
        let sum = trie.used_bytes() + trie.retired_bytes() + trie.free_bytes();
        assert_eq!(sum, trie.allocated_bytes());
        drop(trie);
        drop(readers);
        assert_eq!(allocated(), before);
    }
}

#[test]
fn a_trie_dropped_incrementally_gives_everything_back() {
    let before = allocated();
    let mut trie = InMemoryTrie::<Box<u64>>::new();
    for number in 0..KEYS {
        trie.put(&key(number), Box::new(number)).unwrap();
    }
    let mut drop_incrementally = trie.drop_incrementally();
    while drop_incrementally.step(100) {}
    drop(drop_incrementally);
    assert_eq!(allocated(), before);
}

#[test]
fn a_page_writer_counts_all_its_buffers() {
    let before = allocated();
    let mut writer = PageTrieWriter::new(0);
    let mut keys: Vec<_> = (0..KEYS).map(key).collect();
    keys.sort_unstable();
    let with_keys = allocated();
    for key in &keys {
        // The writer's memory does not include its output.
        writer.add(&mut Nowhere, key, 9, b"12345").unwrap();
        assert_eq!(allocated() - with_keys, writer.memory_bytes() as isize);
    }
    writer.complete(&mut Nowhere).unwrap();
    assert_eq!(allocated() - with_keys, writer.memory_bytes() as isize);
    drop((writer, keys));
    assert_eq!(allocated(), before);
}

struct Nowhere;

impl espalier_trie::page::Sink for Nowhere {
    fn append(&mut self, _bytes: &[u8]) {}
}
