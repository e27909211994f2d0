//! Looks up one row by its full key, if all pages that this takes are in memory. The look-up is a
//! plain function: it waits for nothing, allocates nothing once its scratch memory has grown, and
//! parses no node, entry or cell into an object.
//!
//! It returns no answer if a page is not cached or the case is rare, such as static rows,
//! collections, an index without checksums that needs checking, and damaged bytes.
//! [`SSTableReader::read_partition`] then waits for the pages and reports errors.
//!
//! Usually a single page is missing. [`PointLookup`] records the page, reads it and keeps it. The
//! look-up then continues at that page. A row on disk therefore costs one wait for each missing
//! page, and needs no stream.
//!
//! Page touches: two to four of the partition index (or one page of Index.db in its flat form),
//! some of Rows.db if the partition is wide, and one of Data.db. One copy: the row, into the
//! memtables' form. Memory: a reused [`PointScratch`], bounded by [`window::MAX_JOINED_BYTES`]
//! and a row.

mod index;
mod look_ahead;
mod lookup;
mod rows;
mod window;

use espalier_mutation::{DecoratedKeyRef, DeletionTime, FoundRow, Lookup, PackedRow};
use espalier_runtime::trace;

pub use self::lookup::PointLookup;
use self::{lookup::Step, window::Window};
use super::sstable_reader::SSTableReader;
use crate::{
    data::decode::{RowRef, Span},
    page_cache::CachedPages,
};

/// A row of an SSTable, not yet reconciled with the deletions over it.
#[derive(Clone, Copy, Debug, Default)]
struct PointRow {
    partition_deletion: DeletionTime,
    range_deletion: DeletionTime,
    has_row: bool,
}

/// Memory that consecutive look-ups reuse.
#[derive(Debug, Default)]
pub struct PointScratch {
    path: Vec<u8>,
    joined: Vec<u8>,
    spans: Vec<Option<Span>>,
    view: RowRef,
    found: PointRow,
    row: Vec<u8>,
}

impl PointScratch {
    /// Returns the row and the deletions that the last look-up with an outcome of [`Lookup::Row`]
    /// found. `None` if the copy of the row is malformed.
    #[inline]
    pub fn found(&self) -> Option<FoundRow<'_>> {
        let PointRow { partition_deletion, range_deletion, has_row } = self.found;
        let row = if has_row { Some(PackedRow::new(&self.row).ok()?) } else { None };
        Some(FoundRow { partition_deletion, range_deletion, row })
    }
}

impl SSTableReader {
    /// Looks up a row in cached pages and in those that `lookup` holds. If the outcome is
    /// [`Lookup::Row`], [`PointScratch::found`] returns the row and the deletions over it. If a
    /// page is missing, `lookup` records the page. The key must lie in the key range
    /// ([`SSTableReader::spans`]); `clustering` has a value for each clustering column.
    #[inline]
    pub fn look_up<V: AsRef<[u8]>>(
        &self,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        lookup: &mut PointLookup,
        scratch: &mut PointScratch,
    ) -> Lookup<()> {
        let hash = lookup.hash_of(key);
        let mut step = lookup.step_of(self);
        let pages = self.0.data.cached_pages(lookup.pages());
        let outcome = match self.try_row(&pages, (key, hash), clustering, &mut step, scratch) {
            Some(Some(found)) => {
                scratch.found = found;
                Lookup::Row(())
            }
            Some(None) => Lookup::Absent,
            None => {
                let Some(missing) = pages.missing() else { return Lookup::Unknown };
                drop(pages);
                lookup.stop(self, step, missing);
                return Lookup::MissingPage;
            }
        };
        if trace::is_on() {
            let place = match step {
                Step::Data(place) if outcome != Lookup::Absent => Some(place),
                _ => None,
            };
            self.trace_found(place.map(|place| (place.position, place.block.is_some())));
        }
        outcome
    }

    /// Returns `Some(None)` if the SSTable lacks the partition, and `None` if a page is missing or
    /// only the general read can answer.
    #[inline]
    fn try_row<V: AsRef<[u8]>>(
        &self,
        pages: &CachedPages<'_>,
        (key, hash): (DecoratedKeyRef<'_>, (u64, u64)),
        clustering: &[Option<V>],
        step: &mut Step,
        scratch: &mut PointScratch,
    ) -> Option<Option<PointRow>> {
        let layout = self.0.layout.borrow();
        if layout.is_static_compact
            || !layout.statics.is_empty()
            || layout.clustering.len() != clustering.len()
        {
            return None;
        }
        let place =
            self.cached_place(pages, &layout, (key, hash.1 as u8), clustering, step, scratch)?;
        let Some(place) = place else { return Some(None) };
        *step = Step::Data(place);
        let window = Window::new(pages, &self.0.data, place.position, &mut scratch.joined)?;
        let (spans, view, row) = (&mut scratch.spans, &mut scratch.view, &mut scratch.row);
        let walk = rows::Walk { layout: &layout, window, spans, view, row };
        walk.find(key, place, clustering)
    }
}
