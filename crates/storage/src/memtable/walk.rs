//! A look at one partition, as it is or as a snapshot has it, and walks over its rows and over its deletion branch.

use espalier_mutation::{DeletionTime, Direction};
use espalier_trie::cursor::Direction as WalkDirection;

use super::{
    content::{Boundary, Content},
    path, range_tombstones,
    store::{Entries, PartitionView},
};

/// The direction of a stream as that of a walk.
pub(crate) fn walk_direction(direction: Direction) -> WalkDirection {
    match direction {
        Direction::Forward => WalkDirection::Forward,
        Direction::Reverse => WalkDirection::Reverse,
    }
}

/// One partition as a reader sees it.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) partition: PartitionView<'a>,
    /// Whether the memtable has any boundary at all.
    pub(super) has_boundaries: bool,
}

impl<'a> View<'a> {
    /// The deletion in force just before the bound `at`, or behind it, if `inclusive`.
    pub(super) fn deletion_before(&self, at: &[u8], inclusive: bool) -> DeletionTime {
        match self.has_boundaries {
            true => range_tombstones::deletion_before(self.partition, at, inclusive),
            false => DeletionTime::LIVE,
        }
    }

    /// The rows behind `from`, in `direction`, up to `to`.
    pub(super) fn rows(&self, direction: Direction, from: &[u8], to: &'a [u8]) -> Walk<'a> {
        Walk::new(self.partition, direction, from, to)
    }

    /// The boundaries behind `from`, in `direction`, up to `to`.
    pub(super) fn boundaries(&self, direction: Direction, from: &[u8], to: &'a [u8]) -> Walk<'a> {
        match self.has_boundaries {
            true => Walk::new(self.partition.subtrie(&[path::DELETIONS]), direction, from, to),
            false => Walk::nothing(),
        }
    }
}

/// What a walk stands at.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Row(&'a Content),
    Boundary(&'a Boundary),
}

/// A walk that stands at an entry, or at the end.
pub(super) struct Walk<'a> {
    /// `None`: there is nothing.
    entries: Option<Entries<'a>>,
    direction: Direction,
    /// Entries at it are not given; empty: there is no such entry.
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

    /// Path of the entry, within the partition or its deletion branch.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The entry; `None` at the end.
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
                // The partition's own content, its deletion branch and its static row are not rows.
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
