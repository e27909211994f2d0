//! Finds the places that the entries of an index name, in the order of the table.
//!
//! A place is the part of an entry behind its value: the path of a partition, and of a row if the
//! index lists rows. The entries of one value are in the order of the table, so that a search for
//! values is a [`Union`]. A search for a range of values ([`RangeSearch`]) or for near vectors
//! ([`NearestPlaces`]) has to sort the places.
//!
//! A search with several terms seeks in turns: if another term lacks the place of the first term,
//! the first term seeks to the next place of the other. So the entries of the rarest value bound
//! the number of seeks.

use std::rc::Rc;

use espalier_mutation::{ClusteringComparator, Listed, put_entry_value};
use espalier_runtime::maybe_yield;

use super::{
    entry,
    nearest::NearestPlaces,
    range::RangeSearch,
    source::{IndexFile, open},
    union::{Stream, Union},
};
use crate::{
    FoundPlaces, IndexTerm, IndexValues, MAX_SEARCH_STREAMS, NearestBound, ReadCommand,
    StorageError, table::TableView,
};

/// Maximum number of places in a batch that the read takes at once.
pub(crate) const PLACES_AT_ONCE: usize = 256;

/// Maximum bytes of such a batch (arbitrary).
const MAX_PLACES_BYTES: usize = 256 << 10;

/// Number of places that the read takes first, because a page of few rows needs no more.
pub(crate) const FIRST_PLACES: usize = 32;

/// The places of one term.
pub(crate) struct Candidates {
    term: IndexTerm,
    listed: Listed,
    kind: Kind,
}

enum Kind {
    OneOf {
        union: Union,
        /// The number of places to take next.
        most: usize,
    },
    Between(RangeSearch),
    Nearest {
        places: Box<NearestPlaces>,
        bypass_cache: bool,
    },
    /// The places of near vectors that an earlier read found.
    Found(FoundPlaces),
}

/// Some places, in order.
pub(crate) struct Places {
    pub(crate) places: Vec<Vec<u8>>,
    /// True if no other places follow.
    pub(crate) is_last: bool,
}

/// The outcome of a search for the next places.
pub(crate) enum Found {
    Places(Places),
    /// A scan of the read's target costs less than the rest of the search.
    Scan {
        /// True if the scan costs less for any number of rows; false if only for this read's
        /// number.
        of_any_rows: bool,
    },
}

/// The position of a term after a seek to a place.
enum Met {
    /// The term has the place, or may have it.
    Here,
    /// The term lacks the place, and has moved to its next place.
    Behind,
    /// The term has no further places.
    AtEnd,
}

impl Candidates {
    /// Opens the sources of a term. Returns `None` if the table lacks the index, if a source has no
    /// entries of the index, or if the search is for too many values.
    pub(crate) fn open(view: &TableView, command: &ReadCommand, term: &IndexTerm) -> Option<Self> {
        let (table, bypass_cache) = (&*command.table, command.bypass_cache);
        let index = table.index(&term.index)?;
        let listed = Listed::of(index.column_of(table)?.kind);
        let signature = index.signature(table);
        let sources =
            |value: &[u8]| open(view, (&term.index, &signature), value.into(), bypass_cache);
        let kind = match &term.values {
            IndexValues::OneOf(forms) => {
                let mut streams = Vec::new();
                for form in forms {
                    if streams.len() > MAX_SEARCH_STREAMS {
                        return None;
                    }
                    let mut value = Vec::new();
                    put_entry_value(form, &mut value);
                    let value: Rc<[u8]> = value.into();
                    let stream = |source| Stream::new(source, value.clone());
                    streams.extend(sources(&value)?.into_iter().map(stream));
                }
                Kind::OneOf { union: Union::new(streams), most: FIRST_PLACES }
            }
            IndexValues::Between { lower, upper } => {
                let (lower, upper) = (lower.as_ref(), upper.as_ref());
                Kind::Between(RangeSearch::new(sources(&[])?, lower, upper, view.rows()))
            }
            IndexValues::Nearest { found: Some(found), .. } if command.resume.is_some() => {
                Kind::Found(found.clone())
            }
            IndexValues::Nearest { vector, count, limits, .. } => {
                let (names, wanted) = ((&*term.index, &*signature), (vector, *count));
                let properties = (index.vector_options(table)?, listed);
                let places =
                    NearestPlaces::open(view, &command.table, names, properties, wanted, *limits)?;
                Kind::Nearest { places: Box::new(places), bypass_cache }
            }
        };
        Some(Self { term: term.clone(), listed, kind })
    }

    /// Returns whether the places are rows or partitions.
    pub(crate) fn listed(&self) -> Listed {
        self.listed
    }

    /// Returns the next places from `from` to `end` that the `others` may have, too, for a read
    /// that wants `rows` more rows.
    pub(crate) async fn next(
        &mut self,
        others: &mut [Candidates],
        from: &[u8],
        end: Option<&[u8]>,
        rows: usize,
    ) -> Result<Found, StorageError> {
        let listed = self.listed;
        let found = match &mut self.kind {
            Kind::OneOf { union, most } => {
                let most = std::mem::replace(most, PLACES_AT_ONCE);
                let common = common_places((union, listed), others, (from, end), most);
                return common.await.map(Found::Places);
            }
            Kind::Between(range) => range.next(from, end, rows).await?,
            Kind::Nearest { places, bypass_cache } => {
                Found::Places(places.next(from, end, *bypass_cache).await?)
            }
            Kind::Found(found) => {
                // The earlier read has checked these places against the other terms.
                let behind = found.partition_point(|place| place.as_slice() < from);
                let is_before_end = |place: &&Vec<u8>| end.is_none_or(|end| place.as_slice() < end);
                let rest = found.iter().skip(behind).take_while(is_before_end);
                return Ok(Found::Places(Places {
                    places: rest.cloned().collect(),
                    is_last: true,
                }));
            }
        };
        let Found::Places(Places { places, is_last }) = found else { return Ok(found) };
        let mut common = Vec::with_capacity(places.len());
        'places: for place in places {
            for other in &mut *others {
                if !matches!(other.meet(listed, &place).await?, Met::Here) {
                    continue 'places;
                }
            }
            common.push(place);
        }
        Ok(Found::Places(Places { places: common, is_last }))
    }

    /// Seeks to the first place of this term from `place` on. `listed` is the kind of `place`. Each
    /// call has a greater place than the call before.
    async fn meet(&mut self, listed: Listed, place: &[u8]) -> Result<Met, StorageError> {
        let Kind::OneOf { union, .. } = &mut self.kind else { return Ok(Met::Here) };
        let wanted = match (self.listed, listed) {
            (Listed::Rows, Listed::Rows) => place,
            (Listed::Partitions, _) => entry::split_place(place)?.0,
            // An index of rows says nothing about a whole partition.
            (Listed::Rows, Listed::Partitions) => return Ok(Met::Here),
        };
        union.seek(wanted).await?;
        Ok(match union.place() {
            Some(found) if found == wanted => Met::Here,
            Some(_) => Met::Behind,
            None => Met::AtEnd,
        })
    }

    /// Returns the present place of a search for single values.
    fn place(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::OneOf { union, .. } => union.place(),
            _ => None,
        }
    }

    /// Returns whether the search is for a range of values.
    pub(crate) fn is_of_range(&self) -> bool {
        matches!(self.kind, Kind::Between(_))
    }

    /// Returns whether the search is for near vectors.
    pub(crate) fn is_of_vectors(&self) -> bool {
        matches!(self.kind, Kind::Nearest { .. } | Kind::Found(_))
    }

    /// Returns the bound of the rows that a search for near vectors has left out.
    pub(crate) fn nearest_bound(&self) -> Option<NearestBound> {
        match &self.kind {
            Kind::Nearest { places, .. } => places.bound(),
            _ => None,
        }
    }

    /// Returns whether the search is for single values.
    pub(crate) fn is_of_values(&self) -> bool {
        matches!(self.kind, Kind::OneOf { .. })
    }

    pub(crate) fn term(&self) -> &IndexTerm {
        &self.term
    }

    /// Returns the number of entries that a search for a range has read, or of vectors in memtables
    /// that a search for near vectors has compared.
    pub(crate) fn passed_entries(&self) -> u64 {
        match &self.kind {
            Kind::OneOf { .. } | Kind::Found(_) => 0,
            Kind::Between(range) => range.passed_entries(),
            Kind::Nearest { places, .. } => places.compared(),
        }
    }

    /// Returns the number of streams of entries.
    pub(crate) fn streams(&self) -> usize {
        match &self.kind {
            Kind::OneOf { union, .. } => union.stream_count(),
            Kind::Between(range) => range.stream_count(),
            Kind::Nearest { .. } | Kind::Found(_) => 0,
        }
    }

    /// Returns the SSTables that the search reads.
    fn files(&mut self) -> Box<dyn Iterator<Item = &mut IndexFile> + '_> {
        match &mut self.kind {
            Kind::OneOf { union, .. } => Box::new(union.files()),
            Kind::Between(range) => Box::new(range.files()),
            Kind::Nearest { places, .. } => Box::new(places.files()),
            Kind::Found(_) => Box::new(std::iter::empty()),
        }
    }

    /// Records which SSTables have malformed entries, after the read has met a malformed place. The
    /// place does not name its SSTable, because the search merges the entries of all sources. So
    /// this function reads the entries of the term in each SSTable again, up to the first malformed
    /// one. It moves the cursors, so the caller must end the search.
    pub(crate) async fn find_malformed(&mut self, comparator: &ClusteringComparator) {
        let listed = self.listed;
        let check = |found: &[u8]| entry::check(comparator, listed, found);
        match &mut self.kind {
            Kind::OneOf { union, .. } => union.find_malformed(check).await,
            Kind::Between(range) => range.find_malformed(check).await,
            // The search for near vectors has checked each place of an SSTable.
            Kind::Nearest { .. } | Kind::Found(_) => {}
        }
    }

    /// Leaves damaged components out of later reads. Returns whether there are any.
    pub(crate) fn forget_damaged(&mut self) -> bool {
        let index = self.term.index.clone();
        self.files().filter(|file| file.forget_damaged(&index)).count() > 0
    }
}

/// Returns up to `most` places of the first term that the others may have, too. `listed` is the
/// kind of these places.
async fn common_places(
    (first, listed): (&mut Union, Listed),
    others: &mut [Candidates],
    (from, end): (&[u8], Option<&[u8]>),
    most: usize,
) -> Result<Places, StorageError> {
    first.seek(from).await?;
    let (mut places, mut bytes, mut place) = (Vec::new(), 0, Vec::new());
    'places: while places.len() < most && bytes < MAX_PLACES_BYTES {
        maybe_yield().await;
        let Some(least) = first.place().filter(|place| end.is_none_or(|end| *place < end)) else {
            return Ok(Places { places, is_last: true });
        };
        place.clear();
        place.extend_from_slice(least);
        for other in &mut *others {
            match other.meet(listed, &place).await? {
                Met::Here => {}
                Met::Behind => {
                    let Some(next) = other.place() else { continue };
                    first.seek(next).await?;
                    continue 'places;
                }
                Met::AtEnd => return Ok(Places { places, is_last: true }),
            }
        }
        first.next(&place).await?;
        bytes += place.len();
        places.push(place.clone());
    }
    Ok(Places { places, is_last: false })
}
