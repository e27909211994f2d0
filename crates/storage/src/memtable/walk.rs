//! A look at one partition of the trie, through what a reader's overlay has saved, and walks over its rows and over its
//! deletion branch. All of it borrows the trie: nobody gives way meanwhile.

use espalier_mutation::{DeletionTime, Direction};
use espalier_trie::{
    cursor::{Cursor as _, Direction as WalkDirection, Entries},
    memory::{InMemoryTrie, MemoryCursor},
};

use super::{
    content::{Boundary, Content},
    isolation::State,
    path, range_tombstones,
};

/// One partition as a reader sees it.
pub(super) struct View<'a> {
    pub(super) trie: &'a InMemoryTrie<Content>,
    pub(super) prefix: &'a [u8],
    pub(super) overlay: Option<&'a State>,
    /// Whether the memtable has any boundary at all.
    pub(super) has_boundaries: bool,
}

impl<'a> View<'a> {
    fn saved_boundaries(&self) -> Option<&'a [(Vec<u8>, Boundary)]> {
        self.overlay.and_then(|overlay| overlay.boundaries.as_deref())
    }

    /// The deletion in force just before the bound `at`, or behind it, if `inclusive`.
    pub(super) fn deletion_before(&self, at: &[u8], inclusive: bool) -> DeletionTime {
        if !self.has_boundaries {
            return DeletionTime::LIVE;
        }
        let Some(saved) = self.saved_boundaries() else {
            return range_tombstones::deletion_before(self.trie, self.prefix, at, inclusive);
        };
        let count = saved.partition_point(|(key, _)| {
            if inclusive { key.as_slice() <= at } else { key.as_slice() < at }
        });
        count
            .checked_sub(1)
            .and_then(|last| saved.get(last))
            .map_or(DeletionTime::LIVE, |(_, boundary)| boundary.after)
    }

    /// The rows behind `from`, in `direction`, up to `to`.
    pub(super) fn rows(&self, direction: Direction, from: &[u8], to: &'a [u8]) -> Walk<'a> {
        let mut walk = Walk::new(self.trie, self.prefix, direction, from, to);
        walk.overlay = self.overlay;
        walk.advance();
        walk
    }

    /// The boundaries behind `from`, in `direction`, up to `to`.
    pub(super) fn boundaries(&self, direction: Direction, from: &[u8], to: &'a [u8]) -> Walk<'a> {
        if !self.has_boundaries {
            return Walk::nothing();
        }
        let mut walk = match self.saved_boundaries() {
            Some(saved) => Walk::saved(saved, direction, from, to),
            None => {
                let branch = range_tombstones::branch_of(self.prefix);
                Walk::new(self.trie, &branch, direction, from, to)
            }
        };
        walk.advance();
        walk
    }
}

enum Source<'a> {
    Nothing,
    Trie(Entries<MemoryCursor<'a, Content>>),
    /// Saved boundaries still to come.
    Saved(&'a [(Vec<u8>, Boundary)]),
}

/// What a walk stands at.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Row(&'a Content),
    Boundary(&'a Boundary),
}

/// A walk that stands at an entry, or at the end.
pub(super) struct Walk<'a> {
    source: Source<'a>,
    direction: Direction,
    /// Entries at it are not given; empty: there is no such entry.
    after: Vec<u8>,
    to: &'a [u8],
    overlay: Option<&'a State>,
    key: Vec<u8>,
    at: Option<At<'a>>,
}

impl<'a> Walk<'a> {
    fn nothing() -> Self {
        Self {
            source: Source::Nothing,
            direction: Direction::Forward,
            after: Vec::new(),
            to: &[],
            overlay: None,
            key: Vec::new(),
            at: None,
        }
    }

    fn new(
        trie: &'a InMemoryTrie<Content>,
        prefix: &[u8],
        direction: Direction,
        from: &[u8],
        to: &'a [u8],
    ) -> Self {
        let walk_direction = match direction {
            Direction::Forward => WalkDirection::Forward,
            Direction::Reverse => WalkDirection::Reverse,
        };
        let mut entries = trie.cursor_from(prefix, walk_direction).into_entries();
        entries.seek(from);
        let after = from.to_vec();
        Self { source: Source::Trie(entries), direction, after, to, ..Self::nothing() }
    }

    fn saved(
        saved: &'a [(Vec<u8>, Boundary)],
        direction: Direction,
        from: &[u8],
        to: &'a [u8],
    ) -> Self {
        let rest = match direction {
            Direction::Forward => {
                saved.get(saved.partition_point(|(key, _)| key.as_slice() <= from)..)
            }
            Direction::Reverse => {
                saved.get(..saved.partition_point(|(key, _)| key.as_slice() < from))
            }
        };
        Self { source: Source::Saved(rest.unwrap_or_default()), direction, to, ..Self::nothing() }
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
        loop {
            let (key, at) = match &mut self.source {
                Source::Nothing => return None,
                Source::Trie(entries) => match entries.next_entry()? {
                    (key, Content::Boundary(boundary)) => (key, At::Boundary(boundary)),
                    (key, content) => (key, At::Row(content)),
                },
                Source::Saved(rest) => {
                    let ((key, boundary), others) = match self.direction {
                        Direction::Forward => rest.split_first()?,
                        Direction::Reverse => rest.split_last()?,
                    };
                    *rest = others;
                    (key.as_slice(), At::Boundary(boundary))
                }
            };
            let is_beyond = match self.direction {
                Direction::Forward => key >= self.to,
                Direction::Reverse => key <= self.to,
            };
            if is_beyond {
                return None;
            }
            // The partition's own content, its deletion branch and its static row are not rows.
            let is_row = key.first().is_some_and(|first| *first >= path::FIRST_ROW);
            if key == self.after.as_slice() || (matches!(at, At::Row(_)) && !is_row) {
                continue;
            }
            let at = match (at, self.overlay.and_then(|overlay| overlay.rows.get(key))) {
                (At::Row(_), Some(None)) => continue, // written after the read began
                (At::Row(_), Some(Some(old))) => At::Row(old),
                (at, _) => at,
            };
            self.key.clear();
            self.key.extend_from_slice(key);
            return Some(at);
        }
    }
}
