//! Walks over a part of a list.
//!
//! A step forward is one access to a node. A step back is a search from the top, because nodes do
//! not have a link to the previous one.

use std::ops::Bound;

use espalier_mutation::path;
use espalier_trie::cursor::Direction;

use super::{
    super::super::content::Content,
    ListEntry,
    view::{ListView, Path},
};

pub(crate) struct ListEntries<'a> {
    view: ListView<'a>,
    is_reverse: bool,
    /// The prefix of all keys.
    prefix: Path,
    at: At<'a>,
}

enum At<'a> {
    Start,
    /// At a node that was not returned yet.
    Before(ListEntry<'a>),
    /// At a node that was returned.
    Behind(ListEntry<'a>),
    End,
}

impl<'a> ListEntries<'a> {
    pub(super) fn new(view: ListView<'a>, direction: Direction) -> Self {
        let is_reverse = direction == Direction::Reverse;
        Self { view, is_reverse, prefix: view.path(), at: At::Start }
    }

    pub(crate) fn next_entry(&mut self) -> Option<(&'a [u8], &'a Content)> {
        loop {
            let node = match std::mem::replace(&mut self.at, At::End) {
                At::Start => self.first(),
                At::Before(node) => Some(node),
                At::Behind(node) if self.is_reverse => node.prev(),
                At::Behind(node) => node.next(),
                At::End => None,
            }?;
            let path = node.key().as_bytes().strip_prefix(self.prefix.as_slice())?;
            let slot = *node.value();
            self.at = At::Behind(node);
            if let Some(content) = self.view.list.content(slot, self.view.version) {
                return Some((path, content));
            }
        }
    }

    /// Returns the key of the last entry.
    pub(crate) fn key(&self) -> &[u8] {
        match &self.at {
            At::Behind(node) => node.key().as_bytes().get(self.prefix.len()..).unwrap_or_default(),
            _ => &[],
        }
    }

    pub(crate) fn seek(&mut self, key: &[u8]) {
        let mut path = self.prefix.clone();
        path.extend_from_slice(key);
        let is_there = match &self.at {
            At::Start => false,
            At::End => true,
            At::Before(node) | At::Behind(node) if self.is_reverse => {
                node.key().as_bytes() <= path.as_slice()
            }
            At::Before(node) | At::Behind(node) => node.key().as_bytes() >= path.as_slice(),
        };
        if !is_there {
            self.at = self.from(Bound::Included(path.as_slice()));
        }
    }

    fn from(&self, bound: Bound<&[u8]>) -> At<'a> {
        self.view.list.bound(bound, self.is_reverse).map_or(At::End, At::Before)
    }

    fn first(&self) -> Option<ListEntry<'a>> {
        if !self.is_reverse {
            return self.view.list.bound(Bound::Included(&self.prefix), false);
        }
        // The first path behind all paths with the prefix.
        let behind = path::behind_prefix(&self.prefix);
        self.view.list.bound(behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded), true)
    }
}
