//! The places that the entries of an index name, in the order of the table.
//!
//! A place is the part of an entry behind its value: the path of a partition, and of a row if the
//! index lists rows. The entries of one value are in this order, so that a search for values is a
//! union of cursors, each at one value of one source. A search for a range of values meets many
//! values; it passes all entries of the range and keeps the first places. Each portion of such a
//! search passes the range again, which bounds the memory.

use std::{collections::BTreeSet, rc::Rc};

use espalier_mutation::{IndexedColumn, Listed, schema::TableMetadata};
use espalier_runtime::maybe_yield;

use super::{
    entry::{self, BEHIND},
    search::{FormBound, IndexTerm, IndexValues},
    source::{EntrySource, open},
};
use crate::{StorageError, table::TableView};

/// Sources of a search, each at one value, up to which the search is worth it (arbitrary). A search
/// for more reads the whole target, because each of its places costs a comparison with all sources.
const MAX_STREAMS: usize = 1024;

/// The places of one term.
pub(super) struct Candidates {
    listed: Listed,
    kind: Kind,
}

enum Kind {
    /// A source at each value.
    OneOf(Vec<Stream>),
    Between {
        sources: Vec<EntrySource>,
        lower: Vec<u8>,
        upper: Option<Vec<u8>>,
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
                Kind::OneOf(streams)
            }
            IndexValues::Between { lower, upper } => Kind::Between {
                sources: sources()?,
                lower: lower.as_ref().map_or_else(Vec::new, |bound| near(bound, false)),
                upper: upper.as_ref().map(|bound| near(bound, true)),
            },
        };
        Some(Self { listed, kind })
    }

    /// Returns whether the places are rows or partitions.
    pub(super) fn listed(&self) -> Listed {
        self.listed
    }

    /// Returns up to `most` places that are not below `from` and below `end`, in order. If there
    /// may be more, there are `most`.
    pub(super) async fn next(
        &mut self,
        from: &[u8],
        end: Option<&[u8]>,
        most: usize,
    ) -> Result<Vec<Vec<u8>>, StorageError> {
        match &mut self.kind {
            Kind::OneOf(streams) => union(streams, from, end, most).await,
            Kind::Between { sources, lower, upper } => {
                least(sources, (lower, upper.as_deref()), (from, end), most).await
            }
        }
    }

    /// Returns whether the search is for single values, so that [`Self::has`] is quick.
    pub(super) fn is_of_values(&self) -> bool {
        matches!(self.kind, Kind::OneOf(_))
    }

    /// Returns whether an entry names the place: the row, or its partition if the index lists
    /// partitions. A search for a range always says yes.
    pub(super) async fn has(&mut self, place: &[u8]) -> Result<bool, StorageError> {
        let Kind::OneOf(streams) = &mut self.kind else { return Ok(true) };
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
}

/// Returns the entry at a bound: no entry before the bound is above it, none behind is below.
fn near(bound: &FormBound, is_upper: bool) -> Vec<u8> {
    let mut value = Vec::new();
    entry::put_value(&bound.form, &mut value);
    if bound.inclusive == is_upper {
        value.push(BEHIND);
    }
    value
}

/// Merges the streams from `from` on.
async fn union(
    streams: &mut [Stream],
    from: &[u8],
    end: Option<&[u8]>,
    most: usize,
) -> Result<Vec<Vec<u8>>, StorageError> {
    for stream in streams.iter_mut() {
        stream.seek(from).await?;
    }
    let mut places: Vec<Vec<u8>> = Vec::new();
    while places.len() < most {
        let Some(least) = streams.iter().filter_map(Stream::place).min() else { break };
        if end.is_some_and(|end| least >= end) {
            break;
        }
        let least = least.to_vec();
        for stream in streams.iter_mut() {
            if stream.place() == Some(&least) {
                stream.source.next().await?;
            }
        }
        places.push(least);
        maybe_yield().await;
    }
    Ok(places)
}

/// Passes all entries of a range of values, and keeps the least places.
async fn least(
    sources: &mut [EntrySource],
    (lower, upper): (&[u8], Option<&[u8]>),
    (from, end): (&[u8], Option<&[u8]>),
    most: usize,
) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut places: BTreeSet<Vec<u8>> = BTreeSet::new();
    for source in sources {
        source.seek(lower).await?;
        while let Some(found) = source.entry() {
            if upper.is_some_and(|upper| found >= upper) {
                break;
            }
            let place = found.get(entry::value_length(found)?..).unwrap_or_default();
            let is_wanted = place >= from && end.is_none_or(|end| place < end);
            let is_near =
                places.len() < most || places.last().is_some_and(|last| place < last.as_slice());
            if is_wanted && is_near && places.insert(place.to_vec()) && places.len() > most {
                places.pop_last();
            }
            source.next().await?;
            maybe_yield().await;
        }
    }
    Ok(places.into_iter().collect())
}
