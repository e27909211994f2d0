//! Views of one partition, at present or in a snapshot, and walks over its rows and over its
//! deletion branch.

use espalier_mutation::{DeletionTime, Direction, path};
use espalier_trie::cursor::Direction as WalkDirection;

use super::{
    content::{Boundary, Content},
    range_tombstones,
    store::{Entries, PartitionView},
};

/// Converts the direction of a stream into that of a walk.
pub fn walk_direction(direction: Direction) -> WalkDirection {
    match direction {
        Direction::Forward => WalkDirection::Forward,
        Direction::Reverse => WalkDirection::Reverse,
    }
}

/// One partition as a reader sees it.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) partition: PartitionView<'a>,
    /// True if the memtable has any boundary at all.
    pub(super) has_boundaries: bool,
}

impl<'a> View<'a> {
    /// Returns the deletion in force just before the bound `at`, or behind it, if `inclusive`.
    pub(super) fn deletion_before(&self, at: &[u8], inclusive: bool) -> DeletionTime {
        if self.has_boundaries {
            range_tombstones::deletion_before(self.partition, at, inclusive)
        } else {
            DeletionTime::LIVE
        }
    }

    /// Walks over the rows behind `from`, in `direction`, up to `to`.
    pub(super) fn rows(&self, direction: Direction, from: &[u8], to: &'a [u8]) -> Walk<'a> {
        Walk::new(self.partition, direction, from, to)
    }

    /// Walks over the boundaries behind `from`, in `direction`, up to `to`.
    pub(super) fn boundaries(&self, direction: Direction, from: &[u8], to: &'a [u8]) -> Walk<'a> {
        if self.has_boundaries {
            Walk::new(self.partition.subtrie(&[path::DELETIONS]), direction, from, to)
        } else {
            Walk::nothing()
        }
    }
}

/// The entry at the position of a walk.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Row(&'a Content),
    Boundary(&'a Boundary),
}

/// A walk whose position is an entry, or the end.
pub(super) struct Walk<'a> {
    /// `None` if there is nothing to walk over.
    entries: Option<Entries<'a>>,
    direction: Direction,
    /// Entries at this path are left out; empty if there is no such entry.
    after: Vec<u8>,
    to: &'a [u8],
    key: Vec<u8>,
    at: Option<At<'a>>,
}

impl<'a> Walk<'a> {
    fn nothing() -> Self {
        Self {
            entries: None,
            direction: Direction::Forward,
            after: Vec::new(),
            to: &[],
            key: Vec::new(),
            at: None,
        }
    }

    fn new(branch: PartitionView<'a>, direction: Direction, from: &[u8], to: &'a [u8]) -> Self {
        let mut entries = branch.entries(walk_direction(direction));
        entries.seek(from);
        let after = from.to_vec();
        let mut walk = Self { entries: Some(entries), direction, after, to, ..Self::nothing() };
        walk.advance();
        walk
    }

    /// Returns the path of the entry, within the partition or its deletion branch.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the entry; `None` at the end.
    pub(super) fn at(&self) -> Option<At<'a>> {
        self.at
    }

    /// Goes to the next entry.
    pub(super) fn advance(&mut self) {
        self.at = self.next();
    }

    fn next(&mut self) -> Option<At<'a>> {
        let entries = self.entries.as_mut()?;
        loop {
            let (key, content) = entries.next_entry()?;
            let is_beyond = match self.direction {
                Direction::Forward => key >= self.to,
                Direction::Reverse => key <= self.to,
            };
            if is_beyond {
                return None;
            }
            let at = match content {
                Content::Boundary(boundary) => At::Boundary(boundary),
                // The partition's own content, its static row, its deletions and its runs are not
                // rows.
                _ if key.first().is_none_or(|first| *first < path::FIRST_ROW) => continue,
                row => At::Row(row),
            };
            if key == self.after.as_slice() {
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(key);
            return Some(at);
        }
    }
}
