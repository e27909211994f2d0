//! The places that the entries of an index name, in the order of the table.
//!
//! A place is the part of an entry behind its value: the path of a partition, and of a row if the
//! index lists rows. The entries of one value are in this order, so that a search for values is a
//! union of cursors, each at one value of one source. A search for a range of values
//! ([`RangeSearch`]) or for near vectors ([`NearestPlaces`]) has to sort the places.

use std::rc::Rc;

use espalier_mutation::{IndexedColumn, Listed, schema::TableMetadata};
use espalier_runtime::maybe_yield;

use super::{
    entry,
    nearest::{NearestPlaces, SearchedFile},
    range::RangeSearch,
    search::{IndexTerm, IndexValues},
    source::{EntrySource, open},
};
use crate::{StorageError, table::TableView};

/// Sources of a search, each at one value, up to which the search is worth it (arbitrary). A search
/// for more reads the whole target, because each of its places costs a comparison with all sources.
const MAX_STREAMS: usize = 1024;

/// Places that are taken at a time.
const PLACES_AT_ONCE: usize = 256;

/// Places that are taken at first: a page of few rows needs no more.
pub(super) const FIRST_PLACES: usize = 32;

/// The places of one term.
pub(super) struct Candidates {
    term: IndexTerm,
    listed: Listed,
    kind: Kind,
}

enum Kind {
    /// A source at each value.
    OneOf {
        streams: Vec<Stream>,
        /// The number of places that are taken next.
        most: usize,
    },
    Between(RangeSearch),
    Nearest {
        places: Box<NearestPlaces>,
        bypass_cache: bool,
    },
}

/// Some places, in order.
pub(super) struct Places {
    pub(super) places: Vec<Vec<u8>>,
    /// Whether there are no others behind them.
    pub(super) is_last: bool,
}

/// The outcome of a search for the next places.
pub(super) enum Found {
    Places(Places),
    /// A scan of the read's target costs less than the rest of the search.
    Scan {
        /// Whether it does for reads of any number of rows, not of this read's number alone.
        of_any_rows: bool,
    },
}

/// The entries of one value in one source.
struct Stream {
    source: EntrySource,
    /// The value, as entries have it.
    value: Rc<[u8]>,
}

impl Stream {
    /// Returns the present place; `None` behind the last entry of the value.
    fn place(&self) -> Option<&[u8]> {
        self.source.entry()?.strip_prefix(&*self.value)
    }

    async fn seek(&mut self, place: &[u8]) -> Result<(), StorageError> {
        let from = [&*self.value, place].concat();
        self.source.seek(&from).await
    }
}

impl Candidates {
    /// Opens the sources of a term. Returns `None` if a source has no entries of the index, or if
    /// the search is for too many values.
    pub(super) fn open(
        view: &TableView,
        table: &TableMetadata,
        term: &IndexTerm,
        bypass_cache: bool,
    ) -> Option<Self> {
        let index = table.index(&term.index)?;
        let listed = IndexedColumn::new(table, index)?.listed();
        let signature = index.signature(table);
        let sources = || open(view, &term.index, &signature, bypass_cache);
        let kind = match &term.values {
            IndexValues::OneOf(forms) => {
                let mut streams = Vec::new();
                for form in forms {
                    if streams.len() > MAX_STREAMS {
                        return None;
                    }
                    let mut value = Vec::new();
                    entry::put_value(form, &mut value);
                    let value: Rc<[u8]> = value.into();
                    let stream = |source| Stream { source, value: value.clone() };
                    streams.extend(sources()?.into_iter().map(stream));
                }
                Kind::OneOf { streams, most: FIRST_PLACES }
            }
            IndexValues::Between { lower, upper } => {
                let (lower, upper) = (lower.as_ref(), upper.as_ref());
                Kind::Between(RangeSearch::new(sources()?, lower, upper, view.rows()))
            }
            IndexValues::Nearest { vector, count, limits } => {
                let (names, options) = ((&*term.index, &*signature), index.vector_options(table)?);
                let places = NearestPlaces::open(view, names, options, (vector, *count), *limits)?;
                Kind::Nearest { places: Box::new(places), bypass_cache }
            }
        };
        Some(Self { term: term.clone(), listed, kind })
    }

    /// Returns whether the places are rows or partitions.
    pub(super) fn listed(&self) -> Listed {
        self.listed
    }

    /// Returns the next places that are not below `from` and below `end`, for a read that wants
    /// `rows` more rows.
    pub(super) async fn next(
        &mut self,
        from: &[u8],
        end: Option<&[u8]>,
        rows: usize,
    ) -> Result<Found, StorageError> {
        match &mut self.kind {
            Kind::OneOf { streams, most } => {
                let most = std::mem::replace(most, PLACES_AT_ONCE);
                union(streams, from, end, most).await.map(Found::Places)
            }
            Kind::Between(range) => range.next(from, end, rows).await,
            Kind::Nearest { places, bypass_cache } => {
                places.next(from, end, *bypass_cache).await.map(Some)
            }
        }
    }

    /// Returns whether the search is for a range of values.
    pub(super) fn is_of_range(&self) -> bool {
        matches!(self.kind, Kind::Between(_))
    }

    /// Returns whether the search is for near vectors.
    pub(super) fn is_of_vectors(&self) -> bool {
        matches!(self.kind, Kind::Nearest { .. })
    }

    /// Returns the greatest similarity of rows that a search for near vectors has left out.
    pub(super) fn nearest_bound(&self) -> Option<f32> {
        match &self.kind {
            Kind::Nearest { places, .. } => places.bound(),
            _ => None,
        }
    }

    /// Returns whether the search is for single values, so that [`Self::has`] is quick.
    pub(super) fn is_of_values(&self) -> bool {
        matches!(self.kind, Kind::OneOf { .. })
    }

    /// Returns the term.
    pub(super) fn term(&self) -> &IndexTerm {
        &self.term
    }

    /// Returns the number of entries that the search has passed.
    pub(super) fn passed_entries(&self) -> u64 {
        match &self.kind {
            Kind::OneOf { .. } => 0,
            Kind::Between(range) => range.passed_entries(),
            Kind::Nearest { places, .. } => places.compared(),
        }
    }

    /// Returns whether an entry names the place: the row, or its partition if the index lists
    /// partitions. A search for a range always says yes.
    pub(super) async fn has(&mut self, place: &[u8]) -> Result<bool, StorageError> {
        let Kind::OneOf { streams, .. } = &mut self.kind else { return Ok(true) };
        let wanted = match self.listed {
            Listed::Rows => place,
            Listed::Partitions => entry::split_place(place)?.0,
        };
        for stream in streams {
            // The places that are asked for ascend, so that a source often is there already.
            if stream.place().is_none_or(|place| place != wanted) {
                stream.seek(wanted).await?;
            }
            if stream.place() == Some(wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn sources(&mut self) -> Box<dyn Iterator<Item = &mut EntrySource> + '_> {
        match &mut self.kind {
            Kind::OneOf { streams, .. } => {
                Box::new(streams.iter_mut().map(|stream| &mut stream.source))
            }
            Kind::Between(range) => Box::new(range.sources()),
            Kind::Nearest { .. } => Box::new(std::iter::empty()),
        }
    }

    fn files(&mut self) -> impl Iterator<Item = &mut SearchedFile> {
        let places = match &mut self.kind {
            Kind::Nearest { places, .. } => Some(places),
            _ => None,
        };
        places.into_iter().flat_map(|places| places.files())
    }

    /// Records that a source may have given a malformed place.
    pub(super) fn suspect(&mut self, error: &StorageError) {
        self.sources().for_each(|source| source.suspect(error));
        self.files().for_each(|file| file.suspect(error));
    }

    /// Leaves damaged components out of later reads. Returns whether there are any.
    pub(super) fn forget_damaged(&mut self) -> bool {
        let index = self.term.index.clone();
        let forgotten = self.sources().filter(|source| source.forget_damaged(&index)).count();
        let files = self.files().filter(|file| file.forget_damaged(&index)).count();
        forgotten + files > 0
    }
}

/// Merges the streams from `from` on.
async fn union(
    streams: &mut [Stream],
    from: &[u8],
    end: Option<&[u8]>,
    most: usize,
) -> Result<Places, StorageError> {
    for stream in streams.iter_mut() {
        stream.seek(from).await?;
    }
    let mut places: Vec<Vec<u8>> = Vec::new();
    while places.len() < most {
        let least = streams.iter().filter_map(Stream::place).min();
        let Some(least) = least.filter(|least| end.is_none_or(|end| *least < end)) else {
            return Ok(Places { places, is_last: true });
        };
        let least = least.to_vec();
        for stream in streams.iter_mut() {
            if stream.place() == Some(&least) {
                stream.source.next().await?;
            }
        }
        places.push(least);
        maybe_yield().await;
    }
    Ok(Places { places, is_last: false })
}
