//! Reads the rows that the entries of an index name, by an ordinary read of each partition.
//!
//! The read walks the places of one term in the order of the table, without the places that the
//! other terms lack (`index::candidates`). It reads the rows of one partition together. If the
//! indexes cannot answer, or the walk would cost more than a scan, the caller reads the whole
//! target.

use std::sync::Arc;

use espalier_mutation::{
    Clustering, ClusteringSlice, ClusteringSlices, DecoratedKey, Direction, KeyBound, KeyRange,
    Listed,
    path::{self, BEHIND, put_key_bound},
};

use espalier_runtime::{maybe_yield, trace, trace_event};

use super::{Remaining, TableAccess, read_one};
use crate::{
    IndexSearch, IndexValues, MAX_SEARCH_STREAMS, ReadCommand, ReadPosition, ReadResult,
    ReadTarget, StorageError,
    index::{Candidates, Found, PLACES_AT_ONCE, Places, entry},
};

/// The outcome of a read by indexes.
pub(crate) enum Indexed {
    Answered(ReadResult),
    /// The caller must read the whole target, because the command is in reverse order, a source has
    /// no entries, some entries are damaged, or the search would cost more.
    Scan {
        /// The number of entries that the search has read in vain.
        passed_entries: u64,
    },
}

impl Indexed {
    const SCAN: Self = Self::Scan { passed_entries: 0 };
}

/// Reads the rows of the command's target that may satisfy the search. The result may have other
/// rows, so the caller checks each row.
pub(crate) async fn read_indexed(
    access: TableAccess<'_>,
    command: &ReadCommand,
    search: &IndexSearch,
    own: &KeyRange,
    remaining: &mut Remaining,
) -> Result<Indexed, StorageError> {
    if command.direction == Direction::Reverse {
        return Ok(Indexed::SCAN);
    }
    let (mut terms, mut streams) = (Vec::new(), 0);
    for term in &search.terms {
        // A term may be left out: the other terms find its rows, and the caller checks each row.
        if streams >= MAX_SEARCH_STREAMS && !matches!(term.values, IndexValues::Nearest { .. }) {
            continue;
        }
        let opened = Candidates::open(access.view, command, term);
        let Some(opened) = opened else { return Ok(Indexed::SCAN) };
        streams += opened.streams();
        terms.push(opened);
    }
    if trace::is_on() {
        let names: Vec<&str> = terms.iter().map(|term| term.term().index.as_str()).collect();
        trace_event!("Reading by the secondary indexes {}", names.join(", "));
    }
    // The walk prefers near vectors to single values, these to ranges, and then rows to partitions.
    terms.sort_by_key(|term| {
        (!term.is_of_vectors(), !term.is_of_values(), term.listed() == Listed::Partitions)
    });
    let Some((first, others)) = terms.split_first_mut() else { return Ok(Indexed::SCAN) };
    // The walk reads a range as a whole, so an ordinary read finds the rows of one partition
    // faster.
    let view = access.view;
    if first.is_of_range()
        && (matches!(command.target, ReadTarget::Partition(_))
            || view.costly_ranges.have(first.term(), view.rows()))
    {
        return Ok(Indexed::SCAN);
    }
    let (from, end) = bounds(command, own, first.listed());
    let before = *remaining;
    let mut read = IndexedRead { access, command, remaining, result: ReadResult::default() };
    let walked = read.walk(first, others, from, end).await;
    let mut result = read.result;
    let passed_entries = first.passed_entries();
    match walked {
        Ok(Walked::ToEnd) => {}
        Ok(Walked::IsDear { of_any_rows }) => {
            if of_any_rows {
                view.costly_ranges.record(first.term(), view.rows());
            }
            *remaining = before;
            return Ok(Indexed::Scan { passed_entries });
        }
        Err(error) => {
            if entry::is_malformed(&error) {
                first.find_malformed(command.table.comparator()).await;
            }
            let damaged = terms.iter_mut().filter_map(|term| term.forget_damaged().then_some(()));
            if damaged.count() == 0 {
                return Err(error);
            }
            *remaining = before;
            return Ok(Indexed::Scan { passed_entries });
        }
    }
    result.nearest_bound = first.nearest_bound();
    result.used_index = true;
    result.passed_entries = passed_entries;
    result.dropped = remaining.dropped();
    result.is_cut_by_tombstones = remaining.has_dropped_enough(0) && result.next.is_some();
    Ok(Indexed::Answered(result))
}

/// Returns the first place of the read, and the place behind its last one.
fn bounds(command: &ReadCommand, own: &KeyRange, listed: Listed) -> (Vec<u8>, Option<Vec<u8>>) {
    let path = |bound: &KeyBound| {
        let mut path = Vec::new();
        put_key_bound(bound, &mut path);
        path
    };
    let (mut from, mut end) = match &command.target {
        ReadTarget::Partition(key) => {
            (path(&KeyBound::BeforeKey(key.clone())), Some(path(&KeyBound::AfterKey(key.clone()))))
        }
        ReadTarget::Range(range) => {
            let end = Some(path(&range.end)).filter(|_| range.end != KeyBound::Unbounded);
            (path(&range.start), end)
        }
    };
    from = from.max(path(&own.start));
    if own.end != KeyBound::Unbounded {
        let own = path(&own.end);
        end = Some(end.map_or_else(|| own.clone(), |end| end.min(own.clone())));
    }
    if let Some(position) = &command.resume {
        from = from.max(place_behind(command, position, listed));
    }
    (from, end)
}

/// Returns the place at which a read resumes behind a position.
fn place_behind(command: &ReadCommand, position: &ReadPosition, listed: Listed) -> Vec<u8> {
    let mut place = Vec::new();
    path::put_partition(position.key.borrowed(), &mut place);
    match (&position.clustering, listed) {
        (None, _) => place.push(BEHIND),
        (Some(last), Listed::Rows) => {
            path::put_row(command.table.comparator(), &last.values, &mut place);
            place.push(0);
        }
        // The place of the partition itself, because the read has to finish it.
        (Some(_), Listed::Partitions) => {}
    }
    place
}

/// The reason why a walk over the places ended.
enum Walked {
    /// The walk reached a limit, or the last place.
    ToEnd,
    /// The rest would cost more than a scan, for a read of any number of rows or for this read.
    IsDear { of_any_rows: bool },
}

/// Returns how many of the first places lie in the partition, at most [`PLACES_AT_ONCE`]: the read
/// makes slices of so many places without a yield.
fn count_within(partition: &[u8], places: &[Vec<u8>]) -> usize {
    places.iter().take(PLACES_AT_ONCE).take_while(|place| place.starts_with(partition)).count()
}

struct IndexedRead<'a> {
    access: TableAccess<'a>,
    command: &'a ReadCommand,
    remaining: &'a mut Remaining,
    result: ReadResult,
}

impl IndexedRead<'_> {
    async fn walk(
        &mut self,
        first: &mut Candidates,
        others: &mut [Candidates],
        mut from: Vec<u8>,
        end: Option<Vec<u8>>,
    ) -> Result<Walked, StorageError> {
        let listed = first.listed();
        loop {
            let rows = self.remaining.rows;
            let Places { places, is_last } =
                match first.next(others, &from, end.as_deref(), rows).await? {
                    Found::Places(places) => places,
                    Found::Scan { of_any_rows } => return Ok(Walked::IsDear { of_any_rows }),
                };
            if let Some(last) = places.last() {
                from.clone_from(last);
                from.push(0);
            }
            let mut rest = places.as_slice();
            while let Some(place) = rest.first() {
                let (partition, _) = entry::split_place(place)?;
                let (of_partition, behind) = rest.split_at(count_within(partition, rest));
                rest = behind;
                maybe_yield().await;
                if self.read_places(partition, of_partition, listed).await? {
                    if first.is_of_vectors() {
                        self.result.nearest_places = Some(places.into());
                    }
                    return Ok(Walked::ToEnd);
                }
            }
            if is_last {
                return Ok(Walked::ToEnd);
            }
        }
    }

    /// Reads places of one partition. Returns whether the read has reached a limit.
    async fn read_places(
        &mut self,
        partition: &[u8],
        places: &[Vec<u8>],
        listed: Listed,
    ) -> Result<bool, StorageError> {
        let key = entry::partition_key(partition)?;
        let command = self.command;
        let comparator = command.table.comparator();
        if listed == Listed::Partitions || comparator.types.is_empty() {
            let resume = command.resume.as_ref().filter(|position| position.key == key);
            if self.read_partition(command, &key, resume).await? {
                return Ok(true);
            }
            if self.remaining.has_dropped_enough(0) {
                self.result.next =
                    Some(ReadPosition { key, clustering: None, rows_of_partition: 0 });
                return Ok(true);
            }
            return Ok(false);
        }
        let mut rows: Vec<Clustering> = Vec::with_capacity(places.len());
        for place in places {
            let row = place.get(partition.len()..).unwrap_or_default();
            rows.push(entry::clustering(comparator, row)?);
        }
        let last = rows.last().cloned();
        let slice = |row: Clustering| ClusteringSlice::prefix(row.values);
        let slices: Vec<ClusteringSlice> = rows
            .into_iter()
            .filter(|row| command.slices.contains(comparator, row.position()))
            .map(slice)
            .collect();
        if slices.is_empty() {
            return Ok(false);
        }
        let slices = Arc::new(ClusteringSlices { slices });
        let narrow = ReadCommand { slices, resume: None, ..command.clone() };
        if self.read_partition(&narrow, &key, None).await? {
            // The index may list further rows of the partition, so the next read resumes behind the
            // last row of this one, not behind the partition.
            if let Some(next) = &mut self.result.next {
                next.clustering = next.clustering.take().or(last);
            }
            return Ok(true);
        }
        if self.remaining.has_dropped_enough(0) {
            let rows_of_partition = self.rows_of(&key);
            self.result.next = Some(ReadPosition { key, clustering: last, rows_of_partition });
            return Ok(true);
        }
        Ok(false)
    }

    async fn read_partition(
        &mut self,
        command: &ReadCommand,
        key: &DecoratedKey,
        resume: Option<&ReadPosition>,
    ) -> Result<bool, StorageError> {
        let before = self.rows_of(key);
        let mut found = ReadResult::default();
        let stopped =
            read_one(self.access, command, key, resume, self.remaining, &mut found).await?;
        for partition in found.partitions {
            match self.result.partitions.last_mut() {
                Some(last) if last.key == partition.key => last.rows.extend(partition.rows),
                _ => self.result.partitions.push(partition),
            }
        }
        self.result.next = stopped.map(|mut position| {
            if resume.is_none() {
                position.rows_of_partition += before;
            }
            position
        });
        Ok(self.result.next.is_some())
    }

    /// Returns the number of rows of a partition that this page and earlier pages have returned.
    fn rows_of(&self, key: &DecoratedKey) -> usize {
        let earlier = self.command.resume.as_ref().filter(|position| position.key == *key);
        let earlier = earlier.map_or(0, |position| position.rows_of_partition);
        let here = self.result.partitions.last().filter(|partition| partition.key == *key);
        earlier + here.map_or(0, |partition| partition.rows.len())
    }
}

#[cfg(test)]
mod tests;
