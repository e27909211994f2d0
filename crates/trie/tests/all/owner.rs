//! Tests of operations that only the owner can do: changes in place, limits, accounting.

use crate::common::{config, key};
use espalier_trie::memory::{InMemoryTrie, TrieFull};
use proptest::prelude::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

#[test]
fn contents_change_in_place_without_readers() {
    let mut trie = InMemoryTrie::new();
    trie.put(b"a", String::from("one")).unwrap();
    let address = trie.get(b"a").unwrap() as *const String;
    trie.update(b"a", |content| content.push('!')).unwrap();
    *trie.get_mut(b"a").unwrap() += "?";
    assert_eq!(trie.get(b"a").unwrap(), "one!?");
    assert_eq!(trie.get(b"a").unwrap() as *const String, address);
    assert!(trie.get_mut(b"b").is_none());
    assert_eq!(trie.update(b"b", |_| ()).unwrap(), None);

    let reader = trie.reader();
    let guard = reader.pin();
    let before = guard.get(b"a").unwrap();
    assert!(trie.get_mut(b"a").is_none(), "a reader may be looking");
    trie.update(b"a", |content| content.clear()).unwrap();
    assert_eq!(before, "one!?");
    assert_eq!(guard.get(b"a").unwrap(), "");
}

#[test]
fn contents_need_not_be_shareable() {
    let drops = Rc::new(Cell::new(0));
    struct Counted(Rc<Cell<u32>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let mut trie = InMemoryTrie::new();
    for key in [&b"a"[..], b"ab", b"abc", b""] {
        trie.put(key, Counted(Rc::clone(&drops))).unwrap();
    }
    trie.put(b"ab", Counted(Rc::clone(&drops))).unwrap();
    assert_eq!(drops.get(), 1);
    assert!(trie.remove(b"").unwrap());
    assert_eq!(drops.get(), 2);
    drop(trie);
    assert_eq!(drops.get(), 5);
}

#[test]
fn a_trie_is_dropped_in_steps() {
    const KEYS: u32 = if cfg!(miri) { 50 } else { 1000 };
    let alive = Rc::new(());
    let build = || {
        let mut trie = InMemoryTrie::new();
        for number in 0..KEYS {
            trie.put(&number.to_be_bytes(), Rc::clone(&alive)).unwrap();
            trie.put(&number.to_be_bytes()[..3], Rc::clone(&alive)).unwrap();
        }
        trie
    };
    let trie = build();
    let contents = trie.content_count();
    let mut drop_incrementally = trie.drop_incrementally();
    let mut steps = 0;
    while drop_incrementally.step(10) {
        steps += 1;
        assert!(Rc::strong_count(&alive) + 10 * steps > contents, "no more than requested");
    }
    assert!(steps > KEYS as usize / 10 && Rc::strong_count(&alive) == 1);
    drop(drop_incrementally);

    for steps in [0, 1, 20, 2 * KEYS] {
        let mut drop_incrementally = build().drop_incrementally();
        for _ in 0..steps {
            drop_incrementally.step(7);
        }
        drop(drop_incrementally);
        assert_eq!(Rc::strong_count(&alive), 1);
    }

    // Readers keep all contents; the last one drops them.
    let trie = build();
    let reader = trie.reader();
    let mut drop_incrementally = trie.drop_incrementally();
    assert!(drop_incrementally.step(u32::MAX));
    assert!(reader.pin().get(&[0, 0, 0, 1]).is_some());
    drop(drop_incrementally);
    assert!(reader.pin().get(&[0, 0, 0, 1]).is_some());
    drop(reader);
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn a_change_that_panics_changes_nothing() {
    let mut trie = InMemoryTrie::new();
    trie.put(b"abc", Box::new(1)).unwrap();
    for key in [&b"abc"[..], b"abx", b"a"] {
        let change = || trie.apply(key, |_| panic!("as intended"));
        assert!(catch_unwind(AssertUnwindSafe(change)).is_err());
        trie.verify().unwrap();
        assert_eq!(trie.content_count(), 1);
        assert_eq!(trie.get(b"abc").map(|content| **content), Some(1));
    }
}

/// Blocks that were reserved for a node must not be used for another node if the first one was not
/// built.
#[test]
fn a_change_that_panics_leaves_no_room_behind() {
    let mut trie = InMemoryTrie::new();
    let fan = |prefix: u8, count: u8| (0..count).map(move |byte| [prefix, byte]);
    // A sparse node that is full, and a long array node that is not.
    for key in fan(b'a', 6).chain(fan(b'b', 30)) {
        trie.put(&key, key).unwrap();
    }
    let change = || trie.apply(b"a\x77", |_| panic!("as intended"));
    assert!(catch_unwind(AssertUnwindSafe(change)).is_err());
    trie.put(b"b\x77", *b"b\x77").unwrap();
    trie.verify().unwrap();
    assert_eq!(trie.content_count(), 37);
    for key in fan(b'a', 6).chain(fan(b'b', 30)).chain([*b"b\x77"]) {
        assert_eq!(trie.get(&key), Some(&key), "{key:?} is lost");
    }
}

/// Some reader always exists, but each only for a while. Contents that no reader can reach do not
/// count.
#[test]
fn the_weight_of_retired_contents_is_exact() {
    let mut trie = InMemoryTrie::new().with_weight(String::len);
    let mut reader = trie.snapshot(b"");
    for round in 0..2000 {
        trie.put(b"key", "x".repeat(100)).unwrap();
        if round % 10 == 0 {
            // The new snapshot is taken before the old one is dropped.
            reader = trie.snapshot(b"");
        }
        let units = trie.retired_bytes() / 32;
        assert_eq!(trie.retired_weight(), units * 100, "round {round}");
        assert!(units < 200, "{units} are kept");
    }
    drop(reader);
    trie.free_retired(u32::MAX);
    assert_eq!((trie.retired_weight(), trie.retired_bytes()), (0, 0));
    trie.remove(b"key").unwrap();
    assert_eq!(trie.retired_weight(), 0);
}

#[test]
fn a_key_longer_than_the_trie_is_refused() {
    let mut trie = InMemoryTrie::with_limit(1000);
    let key = vec![7; 26 * 1000];
    assert_eq!(trie.put(&key, ()), Err(TrieFull { used: 0 }));
    assert_eq!(trie.put(&key[..26 * 980], ()), Ok(false));
    assert_eq!(trie.stats().blocks(), 980);
    assert_eq!(trie.used_bytes(), 981 * 32);
    assert_eq!(trie.stats().greatest_depth, 26 * 980);
}

proptest! {
    #![proptest_config(config(200))]

    /// However small the trie, it either takes a key, or reports that it is full and stays as it
    /// was.
    #[test]
    fn blocks_run_out(
        limit in 0..200u32,
        keys in prop::collection::vec((key(), any::<bool>()), 1..120),
        with_reader in any::<bool>(),
    ) {
        let mut trie = InMemoryTrie::<u32>::with_limit(limit);
        let reader = with_reader.then(|| trie.reader());
        let mut model = crate::common::Model::new();
        for (number, (key, put)) in (0..).zip(&keys) {
            let before = trie.dump(|content| content.to_string());
            if *put {
                match trie.put(key, number) {
                    Ok(replaced) => {
                        prop_assert_eq!(replaced, model.insert(key.clone(), number).is_some());
                    }
                    Err(TrieFull { used }) => {
                        prop_assert_eq!(trie.dump(|content| content.to_string()), before);
                        // Fewer blocks than the limit may be used, if no adjacent blocks are free
                        // for an array node or a wide node.
                        prop_assert!(used <= limit);
                    }
                }
            } else if let Some((key, _)) = model.first_key_value() {
                let key = key.clone();
                match trie.remove(&key) {
                    Ok(removed) => {
                        prop_assert!(removed);
                        model.remove(&key);
                    }
                    Err(_) => prop_assert_eq!(trie.dump(|content| content.to_string()), before),
                }
            }
            trie.verify().unwrap();
            prop_assert!(trie.used_bytes() <= limit as usize * 32);
            prop_assert_eq!(trie.content_count(), model.len());
            prop_assert_eq!(
                trie.used_bytes() + trie.retired_bytes() + trie.free_bytes(),
                trie.allocated_bytes()
            );
        }
        for (key, value) in &model {
            prop_assert_eq!(trie.get(key), Some(value));
        }
        drop(reader);
    }
}
