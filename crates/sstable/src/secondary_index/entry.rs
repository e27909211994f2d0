//! Splits entries into the parts that a block stores, and joins the parts.
//!
//! ```text
//! entry       40 escaped form 38 | 40 token 40 escaped key 38 | clustering 38, or nothing
//! stored                form     |                     key    | clustering
//! ```
//!
//! A block stores the parts without escapes and separators. It does not store the token, which the
//! reader computes from the key. The reader joins the parts to the entry again, so entries keep
//! their order: value, token, key, clustering. docs/formats/secondary-index.md defines the form of
//! a value.

use espalier_mutation::{DecoratedKeyRef, path, put_entry_value};
use espalier_types::byte_comparable::{NEXT_COMPONENT, TERMINATOR, decode_escaped_into};

/// The lengths of the parts of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths {
    /// Bytes of the form of the value.
    pub(super) form: usize,
    /// Bytes of the partition key.
    pub(super) key: usize,
    /// Bytes of the clustering without the last byte; `None` if the entry names a partition.
    pub(super) clustering: Option<usize>,
}

impl Lengths {
    /// Returns the bytes of all parts.
    #[inline]
    pub(super) fn total(&self) -> usize {
        let clustering = self.clustering.unwrap_or(0);
        self.form.saturating_add(self.key).saturating_add(clustering)
    }
}

/// The parts of an entry, one behind the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub(super) bytes: Vec<u8>,
    pub(super) lengths: Lengths,
}

impl Parts {
    /// Becomes a copy of `other`, in its own memory.
    #[inline]
    pub(super) fn copy_from(&mut self, other: &Parts) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.lengths = other.lengths;
    }

    /// Replaces the parts by those of an entry. Returns `None` if the entry is malformed.
    pub(super) fn take_apart(&mut self, entry: &[u8]) -> Option<()> {
        let Self { bytes, lengths } = self;
        bytes.clear();
        let mut rest = entry.strip_prefix(&[NEXT_COMPONENT])?;
        decode_escaped_into(&mut rest, bytes).ok()?;
        lengths.form = bytes.len();
        rest = rest.strip_prefix(&[TERMINATOR, NEXT_COMPONENT])?;
        let (_token, behind) = rest.split_first_chunk::<8>()?;
        rest = behind.strip_prefix(&[NEXT_COMPONENT])?;
        decode_escaped_into(&mut rest, bytes).ok()?;
        lengths.key = bytes.len() - lengths.form;
        rest = rest.strip_prefix(&[TERMINATOR])?;
        lengths.clustering = None;
        if !rest.is_empty() {
            let clustering = rest.strip_suffix(&[TERMINATOR])?;
            bytes.extend_from_slice(clustering);
            lengths.clustering = Some(clustering.len());
        }
        Some(())
    }

    /// Appends the value of the entry to `entry`.
    #[inline]
    pub(super) fn put_value(&self, entry: &mut Vec<u8>) {
        let form = self.bytes.get(..self.lengths.form).unwrap_or_default();
        put_entry_value(form, entry);
    }

    /// Appends the rest of the entry to `entry`, behind its value.
    #[inline]
    pub(super) fn put_place(&self, entry: &mut Vec<u8>) {
        let rest = self.bytes.get(self.lengths.form..).unwrap_or_default();
        let (key, clustering) = rest.split_at_checked(self.lengths.key).unwrap_or((rest, &[]));
        path::put_partition(DecoratedKeyRef::new(key), entry);
        if self.lengths.clustering.is_some() {
            entry.extend_from_slice(clustering);
            entry.push(TERMINATOR);
        }
    }
}
