//! Tests that readers on other threads see a sound trie while the writer adds, replaces and
//! removes.

use espalier_trie::cursor::Direction;
use espalier_trie::memory::{InMemoryTrie, Reader};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const ROUNDS: u64 = if cfg!(miri) { 8 } else { 300 };
const VERSIONS: u64 = if cfg!(miri) { 150 } else { 1000 };
const KEYS: u64 = if cfg!(miri) { 12 } else { 300 };

/// A content that knows its key, and is visibly dead once dropped.
struct Content(Box<Inner>);

struct Inner {
    key: Vec<u8>,
    version: u64,
    alive: u64,
    count: Arc<AtomicUsize>,
}

const ALIVE: u64 = 0x600D_600D_600D_600D;

impl Content {
    fn new(key: &[u8], version: u64, count: &Arc<AtomicUsize>) -> Content {
        count.fetch_add(1, Ordering::Relaxed);
        let (key, count) = (key.to_vec(), Arc::clone(count));
        Content(Box::new(Inner { key, version, alive: ALIVE, count }))
    }
}

impl std::ops::Deref for Content {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        assert_eq!(self.alive, ALIVE);
        self.0.alive = 0;
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the key of a number. Keys share chains of several blocks and fan out at different
/// depths, and some are prefixes of others.
fn key(number: u64) -> Vec<u8> {
    let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut key = vec![b'k'; (spread >> 40) as usize % 3 * 20];
    key.extend(&spread.to_be_bytes()[..1 + number as usize % 3]);
    key.extend(vec![b't'; number as usize % 5 * 9]);
    key
}

/// Returns true for a key that is never removed, and whose versions only grow.
fn is_permanent(number: u64) -> bool {
    number.is_multiple_of(3)
}

fn read(reader: Reader<Content>, done: &AtomicU64, started: &AtomicUsize, seed: u64) -> u64 {
    let permanent_keys: HashSet<_> =
        (0..KEYS).filter(|&number| is_permanent(number)).map(key).collect();
    let mut seen = vec![0; KEYS as usize];
    let (mut rounds, mut random) = (0u64, seed | 1);
    started.fetch_add(1, Ordering::Release);
    while done.load(Ordering::Acquire) == 0 || rounds == 0 {
        rounds += 1;
        let guard = reader.pin();
        for _ in 0..20 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let number = (random >> 33) % KEYS;
            let found = guard.get(&key(number));
            if let Some(content) = found {
                assert_eq!((&content.key, content.alive), (&key(number), ALIVE));
            }
            if is_permanent(number) {
                let version = found.map_or(0, |content| content.version);
                assert!(version >= seen[number as usize], "a version went back, or vanished");
                seen[number as usize] = version;
            }
        }
        let direction = if rounds % 2 == 0 { Direction::Forward } else { Direction::Reverse };
        let mut entries = guard.entries(direction);
        let mut last: Option<Vec<u8>> = None;
        let (mut permanent, mut contents) = (0, Vec::new());
        while let Some((key, content)) = entries.next_entry() {
            assert_eq!(key, content.key);
            assert_eq!(content.alive, ALIVE);
            if let Some(last) = &last {
                assert_eq!(key > &last[..], direction == Direction::Forward);
            }
            last = Some(key.to_vec());
            permanent += usize::from(permanent_keys.contains(key));
            contents.push(content);
        }
        assert_eq!(permanent, permanent_keys.len(), "a walk missed a key that is always there");
        // The contents listed earlier under this guard still exist.
        assert!(contents.iter().all(|content| content.alive == ALIVE));
    }
    rounds
}

#[test]
fn two_readers_beside_a_writer_find_every_permanent_key() {
    let count = Arc::new(AtomicUsize::new(0));
    let done = AtomicU64::new(0);
    let started = AtomicUsize::new(0);
    let mut trie = InMemoryTrie::new();
    let numbers = || 0..KEYS;
    for number in numbers().filter(|&number| is_permanent(number)) {
        trie.put(&key(number), Content::new(&key(number), 1, &count)).unwrap();
    }
    std::thread::scope(|scope| {
        for seed in [1, 2] {
            let reader = trie.reader();
            let (done, started) = (&done, &started);
            scope.spawn(move || read(reader, done, started, seed));
        }
        while started.load(Ordering::Acquire) < 2 {
            std::thread::yield_now();
        }
        for round in 2..ROUNDS {
            for number in numbers() {
                let key = key(number);
                let put = (number ^ round) % 4;
                if is_permanent(number) {
                    if put == 0 {
                        trie.put(&key, Content::new(&key, round, &count)).unwrap();
                    }
                } else if put < 2 {
                    // Two numbers may have equal keys, of which one is permanent.
                    trie.put(&key, Content::new(&key, round, &count)).unwrap();
                } else if !numbers().any(|other| is_permanent(other) && self::key(other) == key) {
                    trie.remove(&key).unwrap();
                }
            }
            if round % 500 == 0 {
                trie.verify().unwrap();
            }
        }
        done.store(1, Ordering::Release);
    });
    trie.verify().unwrap();
    trie.free_retired(u32::MAX);
    assert_eq!(trie.retired_bytes(), 0);
    assert_eq!(count.load(Ordering::Relaxed), trie.content_count());
    drop(trie);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_pin_retains_contents_only_until_it_is_dropped() {
    let count = Arc::new(AtomicUsize::new(0));
    let mut trie = InMemoryTrie::new();
    trie.put(b"key", Content::new(b"key", 1, &count)).unwrap();
    let reader = trie.reader();
    let guard = reader.pin();
    let first = guard.get(b"key").unwrap();
    for version in 2..VERSIONS {
        trie.put(b"key", Content::new(b"key", version, &count)).unwrap();
        trie.put(b"kex", Content::new(b"kex", version, &count)).unwrap();
        trie.remove(b"kex").unwrap();
    }
    assert_eq!((first.version, first.alive), (1, ALIVE));
    assert_eq!(guard.get(b"key").unwrap().version, VERSIONS - 1);
    assert!(trie.free_retired(u32::MAX) > 0, "the pin holds all that was retired after it");
    drop(guard);
    assert_eq!(trie.free_retired(u32::MAX), 0);
    assert_eq!(count.load(Ordering::Relaxed), 1);

    // A reader that is not pinned holds nothing back, and neither does one that pins again.
    for version in VERSIONS..2 * VERSIONS {
        let _guard = reader.pin();
        trie.put(b"key", Content::new(b"key", version, &count)).unwrap();
    }
    assert!(count.load(Ordering::Relaxed) < 130, "memory does not grow with short pins");
}

#[test]
fn nested_guards_pin_until_the_last() {
    let mut trie = InMemoryTrie::new();
    trie.put(b"key", Box::new(1)).unwrap();
    let reader = trie.reader();
    let first = reader.pin();
    let second = reader.pin();
    let content = second.get(b"key").unwrap();
    drop(first);
    trie.put(b"key", Box::new(2)).unwrap();
    assert!(trie.free_retired(u32::MAX) > 0);
    assert_eq!(**content, 1);
    drop(second);
    assert_eq!(trie.free_retired(u32::MAX), 0);
}

#[test]
fn readers_outlive_the_writer() {
    let count = Arc::new(AtomicUsize::new(0));
    let mut trie = InMemoryTrie::new();
    let reader = trie.reader();
    for number in 0..KEYS {
        trie.put(&key(number), Content::new(&key(number), 1, &count)).unwrap();
    }
    let guard = reader.pin();
    let held = guard.get(&key(1)).unwrap();
    trie.put(&key(1), Content::new(&key(1), 2, &count)).unwrap(); // the old content is retired
    trie.remove(&key(2)).unwrap();
    let clone = reader.clone();
    drop(trie);
    assert_eq!((held.version, held.alive), (1, ALIVE));
    assert_eq!(guard.get(&key(1)).unwrap().version, 2);
    assert!(guard.get(&key(2)).is_none());
    drop(guard);
    drop(reader);
    assert!(count.load(Ordering::Relaxed) > 0);
    std::thread::scope(|scope| {
        scope.spawn(move || assert_eq!(clone.pin().get(&key(1)).unwrap().version, 2));
    });
    assert_eq!(count.load(Ordering::Relaxed), 0);
}
