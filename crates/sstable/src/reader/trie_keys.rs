//! Encodes partition keys in the form that Partitions.db stores. Format:
//! docs/formats/partition-index.md.
//!
//! Nearly all keys are cut inside the token, which both forms ([`TrieKeys`]) encode alike. The
//! forms differ only for keys that share a token.

use espalier_mutation::{DecoratedKey, DecoratedKeyRef, split_composite};
use espalier_types::{
    CqlType,
    byte_comparable::{NEXT_COMPONENT, TERMINATOR, encode_component, encode_decorated_key},
};

use crate::versions::TrieKeys;

/// Encodes keys for the trie of one version.
#[derive(Clone, Debug)]
pub(crate) struct TrieKeyEncoder {
    form: TrieKeys,
    /// The types of the partition key columns.
    types: Vec<CqlType>,
}

impl TrieKeyEncoder {
    pub(crate) fn new(form: TrieKeys, key_type: &CqlType) -> Self {
        let types = match key_type {
            CqlType::Composite(types) => types.to_vec(),
            single => vec![single.clone()],
        };
        Self { form, types }
    }

    /// Returns whether the trie stores keys as raw bytes, and not encoded by the types of their
    /// columns.
    pub(crate) fn are_bytes(&self) -> bool {
        matches!(self.form, TrieKeys::Bytes)
    }

    /// Replaces the content of `out` by the encoded key.
    pub(crate) fn encode(&self, key: &DecoratedKey, out: &mut Vec<u8>) {
        out.clear();
        match self.form {
            TrieKeys::Bytes => encode_decorated_key(key.token.0, &key.key, out),
            TrieKeys::Columns => {
                encode_token(key.token.0, out);
                self.encode_columns(key, out);
                out.push(TERMINATOR);
            }
        }
    }

    /// Encodes a borrowed key. Returns false if the form needs an owned key.
    #[inline]
    pub(crate) fn encode_borrowed(&self, key: DecoratedKeyRef<'_>, out: &mut Vec<u8>) -> bool {
        out.clear();
        match (self.form, self.types.as_slice()) {
            (TrieKeys::Bytes, _) => encode_decorated_key(key.token.0, key.key, out),
            (TrieKeys::Columns, [single]) => {
                encode_token(key.token.0, out);
                encode_component(single, false, Some(key.key), out);
                out.push(TERMINATOR);
            }
            (TrieKeys::Columns, _) => return false,
        }
        true
    }

    fn encode_columns(&self, key: &DecoratedKey, out: &mut Vec<u8>) {
        if let [single] = self.types.as_slice() {
            encode_component(single, false, Some(&key.key), out);
            return;
        }
        // Every key in such a file consists of the table's key columns.
        let values = split_composite(&key.key, self.types.len()).unwrap_or_default();
        for (column_type, value) in self.types.iter().zip(&values) {
            encode_component(column_type, false, Some(value), out);
        }
    }
}

/// Encodes the byte `40` and the token with its sign bit inverted. A terminator that the caller
/// appends sorts before or after all keys of the token.
pub(crate) fn encode_token(token: i64, out: &mut Vec<u8>) {
    out.push(NEXT_COMPONENT);
    out.extend_from_slice(&(token ^ i64::MIN).to_be_bytes());
}
