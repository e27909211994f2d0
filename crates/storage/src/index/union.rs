//! Unites the places of some values of an index in the order of the table.
//!
//! Each source has the entries of a value in this order. There is a stream for each source and
//! value. A binary heap keeps the streams in order. A union moves only forward, and a seek moves
//! only the streams that are before its place.

use std::{cmp::Ordering, rc::Rc};

use espalier_runtime::maybe_yield;

use super::{
    entry::BEHIND,
    source::{EntrySource, IndexFile},
};
use crate::StorageError;

/// The entries of one value in one source.
pub(super) struct Stream {
    source: EntrySource,
    /// The value, as entries have it.
    value: Rc<[u8]>,
    /// The entry that is sought, in memory that all seeks use.
    sought: Vec<u8>,
}

impl Stream {
    /// Creates the stream of `value`, as entries have it, in a new source.
    pub(super) fn new(source: EntrySource, value: Rc<[u8]>) -> Self {
        Self { source, value, sought: Vec::new() }
    }

    /// Returns the present place; `None` behind the last entry of the value.
    fn place(&self) -> Option<&[u8]> {
        self.source.entry()?.strip_prefix(&*self.value)
    }

    async fn seek(&mut self, place: &[u8]) -> Result<(), StorageError> {
        self.sought.clear();
        self.sought.extend_from_slice(&self.value);
        self.sought.extend_from_slice(place);
        self.source.seek(&self.sought).await
    }
}

/// A union of streams.
pub(super) struct Union {
    streams: Vec<Stream>,
    /// The indexes of the streams as a binary heap, with the least place first. Empty before the
    /// first seek.
    heap: Vec<usize>,
}

impl Union {
    /// Creates a union. The caller calls [`Union::seek`] before it reads.
    pub(super) fn new(streams: Vec<Stream>) -> Self {
        Self { streams, heap: Vec::new() }
    }

    pub(super) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut IndexFile> {
        self.streams.iter_mut().filter_map(|stream| stream.source.file())
    }

    /// Returns the least place; `None` behind the last one, and before the first seek.
    pub(super) fn place(&self) -> Option<&[u8]> {
        self.streams.get(*self.heap.first()?)?.place()
    }

    /// Moves to the first place from `place` on, unless the union is behind `place` already.
    pub(super) async fn seek(&mut self, place: &[u8]) -> Result<(), StorageError> {
        if self.heap.is_empty() {
            for stream in &mut self.streams {
                stream.seek(place).await?;
                maybe_yield().await;
            }
            self.heap = (0..self.streams.len()).collect();
            (0..self.heap.len() / 2).rev().for_each(|at| self.sift_down(at));
            return Ok(());
        }
        while let Some(stream) = self.least_if(|least| least < place) {
            stream.seek(place).await?;
            self.sift_down(0);
            maybe_yield().await;
        }
        Ok(())
    }

    /// Moves behind the present place, `passed`.
    pub(super) async fn next(&mut self, passed: &[u8]) -> Result<(), StorageError> {
        while let Some(stream) = self.least_if(|least| least == passed) {
            stream.source.next().await?;
            self.sift_down(0);
            maybe_yield().await;
        }
        Ok(())
    }

    /// Records which SSTables have an entry of the values that `check` refuses.
    pub(super) async fn find_malformed(
        &mut self,
        check: impl Fn(&[u8]) -> Result<(), StorageError>,
    ) {
        for Stream { source, value, .. } in &mut self.streams {
            let end = [&**value, &[BEHIND]].concat();
            source.find_malformed((&**value, Some(end.as_slice())), &check).await;
        }
    }

    /// Returns the stream at the least place if `is_wanted` accepts the place.
    fn least_if(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> Option<&mut Stream> {
        let stream = self.streams.get_mut(*self.heap.first()?)?;
        stream.place().is_some_and(is_wanted).then_some(stream)
    }

    /// Restores the order of the heap. Only the element `at` may be out of order, namely too early.
    fn sift_down(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1..self.heap.len()).take(2);
            let Some(least) = children.min_by(|one, other| self.compare(*one, *other)) else {
                return;
            };
            if self.compare(at, least).is_le() {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    /// Compares two elements of the heap. A stream that has ended comes behind all others.
    fn compare(&self, one: usize, other: usize) -> Ordering {
        let place = |at: usize| self.streams[self.heap[at]].place();
        match (place(one), place(other)) {
            (Some(one), Some(other)) => one.cmp(other),
            (one, other) => other.is_some().cmp(&one.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{block_on, random};

    use super::*;

    /// Creates a union of lists of places, each of another value.
    fn union(lists: &[Vec<u64>]) -> Union {
        let stream = |(value, list): (usize, &Vec<u64>)| {
            let value: Rc<[u8]> = vec![value as u8].into();
            let entries = list.iter().map(|place| [&*value, &place.to_be_bytes()].concat());
            Stream::new(EntrySource::List(entries.collect(), 0), value)
        };
        Union::new(lists.iter().enumerate().map(stream).collect())
    }

    fn place(union: &Union) -> Option<u64> {
        union.place().map(|place| u64::from_be_bytes(place.try_into().unwrap()))
    }

    #[test]
    fn places_come_in_order_and_each_once() {
        block_on(async {
            for _ in 0..100 {
                let mut lists: Vec<Vec<u64>> = Vec::new();
                for _ in 0..random::below(9) {
                    lists.push((0..random::below(20)).map(|_| random::below(60)).collect());
                    lists.iter_mut().for_each(|list| list.sort_unstable());
                    lists.iter_mut().for_each(Vec::dedup);
                }
                let mut expected: Vec<u64> = lists.concat();
                expected.sort_unstable();
                expected.dedup();
                let mut union = union(&lists);
                assert_eq!(place(&union), None);
                let mut from = 0;
                loop {
                    from += random::below(8);
                    union.seek(&from.to_be_bytes()).await.unwrap();
                    let wanted = expected.iter().copied().find(|place| *place >= from);
                    assert_eq!(place(&union), wanted, "{lists:?} from {from}");
                    let Some(passed) = wanted else { break };
                    // A seek to a place that was passed moves nothing.
                    union.seek(&from.saturating_sub(3).to_be_bytes()).await.unwrap();
                    assert_eq!(place(&union), wanted);
                    union.next(&passed.to_be_bytes()).await.unwrap();
                    assert_eq!(
                        place(&union),
                        expected.iter().copied().find(|place| *place > passed)
                    );
                    from = passed + 1;
                }
            }
        });
    }
}
