//! Looks up one row by its full key, if all pages that this takes are in memory. The look-up is a
//! plain function: it waits for nothing, allocates nothing and parses no node, entry or cell into
//! an object.
//!
//! It has no answer if a page is not cached or the case is rare: static rows, collections, an index
//! without checksums that needs checking, damaged bytes. [`SSTableReader::read_partition`] then
//! waits for the pages and reports errors.
//!
//! Usually a single page is missing. [`PointLookup`] records the page, reads it and holds it. The
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

use espalier_mutation::{DecoratedKeyRef, DeletionTime};

pub use self::lookup::PointLookup;
use self::{lookup::Step, window::Window};
use super::sstable_reader::SSTableReader;
use crate::{
    data::decode::{RowRef, Span},
    page_cache::CachedPages,
};

/// The outcome of a look-up of cached pages. The contract of all cached look-ups is at
/// `espalier_storage::ShardStore::try_read_row`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedRow {
    /// The answer is not known here: a page is missing, or the case is not handled.
    Unknown,
    /// The SSTable holds nothing of the partition.
    NoPartition,
    /// The SSTable holds the partition.
    Partition(PointRow),
}

/// A row of an SSTable, not yet reconciled with the deletions over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointRow {
    /// The deletion of the partition.
    pub partition_deletion: DeletionTime,
    /// The range deletion in force at the row.
    pub range_deletion: DeletionTime,
    /// True if the SSTable has the row; [`PointScratch::row`] then returns it.
    pub has_row: bool,
}

/// Memory that consecutive look-ups reuse.
#[derive(Debug, Default)]
pub struct PointScratch {
    path: Vec<u8>,
    joined: Vec<u8>,
    spans: Vec<Option<Span>>,
    view: RowRef,
    row: Vec<u8>,
}

impl PointScratch {
    /// The row of the last look-up that found one, in the form of
    /// [`pack_row`](espalier_mutation::pack_row).
    #[inline]
    pub fn row(&self) -> &[u8] {
        &self.row
    }
}

impl SSTableReader {
    /// Looks up a row in cached pages and in those that `pending` holds. `hash` is the Murmur3 hash
    /// of the key, which must lie in the key range ([`SSTableReader::spans`]); `clustering` has a
    /// value for each clustering column. If a page is missing, `pending` records which.
    #[inline]
    pub fn cached_row<V: AsRef<[u8]>>(
        &self,
        key: DecoratedKeyRef<'_>,
        hash: (u64, u64),
        clustering: &[Option<V>],
        pending: &mut PointLookup,
        scratch: &mut PointScratch,
    ) -> CachedRow {
        let mut step = pending.step_of(self);
        let pages = self.0.data.cached_pages(pending.pages());
        let found = self.try_row(&pages, (key, hash), clustering, &mut step, scratch);
        if let Some(found) = found {
            return found;
        }
        if let Some(missing) = pages.missing() {
            drop(pages);
            pending.stop(self, step, missing);
        }
        CachedRow::Unknown
    }

    #[inline]
    fn try_row<V: AsRef<[u8]>>(
        &self,
        pages: &CachedPages<'_>,
        (key, hash): (DecoratedKeyRef<'_>, (u64, u64)),
        clustering: &[Option<V>],
        step: &mut Step,
        scratch: &mut PointScratch,
    ) -> Option<CachedRow> {
        let layout = self.0.layout.borrow();
        if layout.is_static_compact
            || !layout.statics.is_empty()
            || layout.clustering.len() != clustering.len()
        {
            return None;
        }
        let place =
            self.cached_place(pages, &layout, (key, hash.1 as u8), clustering, step, scratch)?;
        let Some(place) = place else { return Some(CachedRow::NoPartition) };
        *step = Step::Data(place);
        let window = Window::new(pages, &self.0.data, place.position, &mut scratch.joined)?;
        let (spans, view, row) = (&mut scratch.spans, &mut scratch.view, &mut scratch.row);
        let walk = rows::Walk { layout: &layout, window, spans, view, row };
        walk.find(key, place, clustering)
    }
}
