//! What is known of a partition from one place on, in either direction.

use espalier_mutation::{DeletionTime, Direction};
use espalier_trie::{
    cursor::Entries,
    memory::{MemoryCursor, Subtrie},
};

use super::entry::Entry;
use crate::memtable::walk_direction;

/// A walk over the entries of a partition behind some place.
pub(super) struct Walk<'a> {
    entries: Entries<MemoryCursor<'a, Entry>>,
    direction: Direction,
    /// Forward: not used. In reverse: whether the range below the place reached is known, and its deletion.
    above: Option<(bool, DeletionTime)>,
}

/// The next entry, or that there is none.
pub(super) struct Step<'a> {
    /// Where it is, and what; `None`: there is none.
    pub(super) entry: Option<(Vec<u8>, &'a Entry)>,
    /// The deletion in the range up to it, from the place reached before, if that range is known.
    pub(super) range: Option<DeletionTime>,
}

impl<'a> Walk<'a> {
    /// A walk behind `at`. Also gives the entry at `at`, if there is one.
    pub(super) fn new(
        partition: Subtrie<'a, Entry>,
        direction: Direction,
        at: &[u8],
    ) -> (Self, Option<&'a Entry>) {
        let mut upwards = partition.entries(walk_direction(Direction::Forward));
        upwards.seek(at);
        match direction {
            Direction::Forward => {
                // Entries are given again from `at` on; `next` leaves out the one at it.
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

    /// The next entry behind `at`, which is the place that the walk has reached.
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
