//! This module computes the separators, the byte strings between blocks.
//!
//! Positions come in byte-comparable form, which is prefix-free: two different positions differ at
//! a byte that both have. The choice of strings is Cassandra's.

use espalier_trie::page::common_prefix_length;

/// Writes into `output` a short string that is above `before` and at most `first`. Returns `None`
/// if `before` is not below `first`.
pub(super) fn between(before: &[u8], first: &[u8], output: &mut Vec<u8>) -> Option<()> {
    let shared = common_prefix_length(before, first);
    let (&low, &high) = (before.get(shared)?, first.get(shared)?);
    if low >= high {
        return None;
    }
    output.clear();
    output.extend_from_slice(&before[..shared]);
    output.push(low + 1);
    Some(())
}

/// Writes into `output` a short string above `last`. The separator `previous` must be at or below
/// `last`.
pub(super) fn after(previous: &[u8], last: &[u8], output: &mut Vec<u8>) {
    let shared = common_prefix_length(previous, last);
    output.clear();
    // The first byte after the shared prefix that is not FF is incremented: FF has no successor.
    match last[shared..].iter().position(|&byte| byte != 0xFF) {
        Some(skipped) => {
            let end = shared + skipped;
            output.extend_from_slice(&last[..end]);
            output.push(last[end] + 1);
        }
        None => {
            output.extend_from_slice(last);
            output.push(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_separators() {
        let mut separator = Vec::new();
        between(b"\x40ck000127\x00\x38", b"\x40ck000128\x00\x38", &mut separator).unwrap();
        assert_eq!(separator, b"\x40ck000128");
        after(b"\x40ck00192", b"\x40ck001999\x00\x38", &mut separator);
        assert_eq!(separator, b"\x40ck0019:");
        after(b"\x40a", b"\x40b\xFF\xFFa\x38", &mut separator);
        assert_eq!(separator, b"\x40c");
        after(b"\x40a", b"\x40a\xFF\xFFa\x38", &mut separator);
        assert_eq!(separator, b"\x40a\xFF\xFFb");
        assert_eq!(between(b"\x40b", b"\x40b", &mut separator), None);
        assert_eq!(between(b"\x40b", b"\x40a", &mut separator), None);
    }

    proptest! {
        #[test]
        fn separators_separate(
            mut keys in prop::collection::vec(prop::collection::vec(0xFD_u8..=0xFF, 6), 2..4),
        ) {
            keys.sort();
            keys.dedup();
            let mut separator = Vec::new();
            let mut previous = Vec::new();
            for pair in keys.windows(2) {
                between(&pair[0], &pair[1], &mut separator).unwrap();
                prop_assert!(pair[0] < separator && separator <= pair[1]);
                prop_assert!(previous < separator);
                previous.clone_from(&separator);
            }
            let last = keys.last().unwrap();
            after(&previous, last, &mut separator);
            prop_assert!(*last < separator && previous < separator);
        }
    }
}
