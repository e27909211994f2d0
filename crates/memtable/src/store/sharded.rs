//! Several stores side by side, each with a range of the core's tokens.
//!
//! A core has one writer, so there is no contention to lower as in Cassandra's sharded memtables.
//! The gain is room, because each trie has its own 4 GiB, and smaller structures.

use espalier_runtime::{ShardContext, shard_of_token};
use espalier_trie::cursor::Direction;

use super::{super::content::Content, Entries, single::Single};

/// The map from tokens to parts.
#[derive(Clone, Copy)]
pub(crate) struct PartMap {
    /// The number of the first part among the parts of all cores, and the number of all these.
    first: usize,
    total: usize,
    /// The number of parts, at least one.
    parts: usize,
}

impl PartMap {
    fn new(parts: usize, core: usize, cores: usize) -> Self {
        Self { first: core * parts, total: cores.max(1) * parts, parts }
    }

    /// Returns the number of the part that has the keys with this path, which begins with a token.
    /// Ascends with the path.
    #[inline]
    pub(crate) fn index(self, path: &[u8]) -> usize {
        let mut token = [0; 8];
        let given = path.get(1..).unwrap_or_default();
        let length = given.len().min(token.len());
        token[..length].copy_from_slice(&given[..length]);
        let token = (u64::from_be_bytes(token) ^ (1 << 63)) as i64;
        // Tokens of other cores come here if one core has a whole table, as the first core has the
        // schema tables.
        let index = shard_of_token(token, self.total).saturating_sub(self.first);
        index.min(self.parts - 1)
    }
}

pub(crate) struct Sharded {
    /// The parts, at least one.
    parts: Vec<Single>,
    map: PartMap,
}

impl Sharded {
    pub(super) fn new(parts: usize, core: ShardContext, single: impl Fn() -> Single) -> Self {
        let parts = parts.max(1);
        Self {
            map: PartMap::new(parts, core.index, core.count),
            parts: (0..parts).map(|_| single()).collect(),
        }
    }

    #[inline]
    fn index(&self, path: &[u8]) -> usize {
        self.map.index(path)
    }

    pub(super) fn map(&self) -> PartMap {
        self.map
    }

    #[inline]
    pub(super) fn part(&self, path: &[u8]) -> &Single {
        &self.parts[self.index(path)]
    }

    #[inline]
    pub(super) fn part_mut(&mut self, path: &[u8]) -> &mut Single {
        let index = self.index(path);
        &mut self.parts[index]
    }

    pub(super) fn parts(&self) -> &[Single] {
        &self.parts
    }

    pub(super) fn parts_mut(&mut self) -> &mut [Single] {
        &mut self.parts
    }

    pub(super) fn into_parts(self) -> Vec<Single> {
        self.parts
    }

    pub(super) fn entries(&self, direction: Direction) -> ShardedEntries<'_> {
        let at = match direction {
            Direction::Forward => 0,
            Direction::Reverse => self.parts.len() - 1,
        };
        ShardedEntries { sharded: self, direction, at, entries: self.parts[at].entries(direction) }
    }
}

/// A walk over one part after the other.
pub(crate) struct ShardedEntries<'a> {
    sharded: &'a Sharded,
    direction: Direction,
    /// The present part, and the walk over it.
    at: usize,
    entries: Entries<'a>,
}

impl<'a> ShardedEntries<'a> {
    fn enter(&mut self, part: usize) {
        self.at = part;
        self.entries = self.sharded.parts[part].entries(self.direction);
    }

    pub(super) fn next_entry(&mut self) -> Option<(&[u8], &'a Content)> {
        loop {
            let content = self.entries.next_entry().map(|(_, content)| content);
            if let Some(content) = content {
                return Some((self.entries.key(), content));
            }
            let next = match self.direction {
                Direction::Forward => self.at + 1,
                Direction::Reverse => self.at.checked_sub(1)?,
            };
            if next >= self.sharded.parts.len() {
                return None;
            }
            self.enter(next);
        }
    }

    /// Returns the key of the last entry.
    pub(super) fn key(&self) -> &[u8] {
        self.entries.key()
    }

    pub(super) fn seek(&mut self, key: &[u8]) {
        let target = self.sharded.index(key);
        let is_behind = match self.direction {
            Direction::Forward => target > self.at,
            Direction::Reverse => target < self.at,
        };
        if is_behind {
            self.enter(target);
        }
        if target == self.at {
            self.entries.seek(key);
        }
    }
}
