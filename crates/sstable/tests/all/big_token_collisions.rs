//! Tests look-ups of keys that share a token, with samples at every place among the keys.

use crate::big_support;

use big_support::*;
use espalier_mutation::{DecoratedKey, KeyBound};
use espalier_sstable::index::big::BigIndex;

#[test]
fn keys_with_one_token_are_distinguished() {
    let all = fixtures();
    let colliding = all.iter().filter(|fixture| fixture.name.contains("/token_collisions/"));
    for fixture in colliding {
        for interval in 1..=7 {
            let index = BigIndex::open(fixture.file(), None, fixture.data_length, interval);
            let index = block_on(index).unwrap();
            let entries = entries(&index).unwrap();
            let shared = entries.windows(2).filter(|pair| pair[0].key.token == pair[1].key.token);
            assert!(shared.count() > 100);
            for entry in &entries {
                let key = &entry.key;
                assert_eq!(block_on(index.exact(index.file(), key)).unwrap().as_ref(), Some(entry));
                let other = DecoratedKey { key: [&key.key[..], b"x"].concat().into(), ..*key };
                assert_eq!(block_on(index.exact(index.file(), &other)).unwrap(), None);
                let bounds = [
                    KeyBound::BeforeToken(key.token),
                    KeyBound::AfterToken(key.token),
                    KeyBound::BeforeKey(key.clone()),
                    KeyBound::AfterKey(key.clone()),
                    KeyBound::AfterKey(other),
                ];
                for bound in bounds {
                    let expected = entries.iter().find(|entry| bound.is_before(&entry.key));
                    let found = block_on(index.ceiling(index.file(), &bound)).unwrap();
                    assert_eq!(found.as_ref(), expected, "{bound:?}");
                }
            }
        }
    }
}
