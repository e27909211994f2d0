//! Walks over the cached entries of a partition from one position on, in either direction.

use espalier_memtable::walk_direction;
use espalier_mutation::{DeletionTime, Direction};
use espalier_trie::{
    cursor::Entries,
    memory::{MemoryCursor, Subtrie},
};

use super::entry::Entry;

/// A walk over the entries of a partition behind some position.
pub(super) struct Walk<'a> {
    entries: Entries<MemoryCursor<'a, Entry>>,
    direction: Direction,
    /// The entry above the position reached, in a reverse walk: whether the range below the
    /// position is continuous, and that range's deletion. A forward walk has none.
    above: Option<(bool, DeletionTime)>,
}

/// A step of a walk: the next entry, and the range up to it.
pub(super) struct Step<'a> {
    /// The entry and its position; `None` if there is none.
    pub(super) entry: Option<(Vec<u8>, &'a Entry)>,
    /// The deletion in the range from the previous position up to the entry, if that range is
    /// continuous.
    pub(super) range: Option<DeletionTime>,
}

impl<'a> Walk<'a> {
    /// Creates a walk behind `at`, and returns the entry at `at` too, if there is one.
    pub(super) fn new(
        partition: Subtrie<'a, Entry>,
        direction: Direction,
        at: &[u8],
    ) -> (Self, Option<&'a Entry>) {
        let mut upwards = partition.entries(walk_direction(Direction::Forward));
        upwards.seek(at);
        match direction {
            Direction::Forward => {
                // The entries begin at `at`; `next` skips that first entry.
                let here = partition.get(at);
                (Self { entries: upwards, direction, above: None }, here)
            }
            Direction::Reverse => {
                let mut above = None;
                while let Some((_, entry)) = upwards.next_entry() {
                    if !entry.is_header() {
                        above = Some((entry.is_continuous(), entry.deletion()));
                        break;
                    }
                }
                let mut entries = partition.entries(walk_direction(Direction::Reverse));
                entries.seek(at);
                (Self { entries, direction, above }, partition.get(at))
            }
        }
    }

    /// Returns the next entry behind `at`, which is the position that the walk has reached.
    pub(super) fn next(&mut self, at: &[u8]) -> Step<'a> {
        let next = loop {
            match self.entries.next_entry() {
                None => break None,
                Some((_, entry)) if entry.is_header() => {}
                Some((key, _)) if key == at => {}
                Some((key, entry)) => break Some((key.to_vec(), entry)),
            }
        };
        let range = match self.direction {
            Direction::Forward => match &next {
                Some((_, entry)) => (entry.is_continuous(), entry.deletion()),
                None => (false, DeletionTime::LIVE),
            },
            Direction::Reverse => {
                let range = self.above.unwrap_or((false, DeletionTime::LIVE));
                self.above =
                    next.as_ref().map(|(_, entry)| (entry.is_continuous(), entry.deletion()));
                range
            }
        };
        let range = range.0.then_some(range.1);
        Step { entry: next, range }
    }
}
