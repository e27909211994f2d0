//! One row by its full key, where everything that it takes is in memory: a plain function that waits for nothing, allocates
//! nothing and parses no node, entry or cell into an object.
//!
//! Whatever is not at hand or not common (static rows, collections, an index without checksums that says something unusual, bytes
//! that are wrong) has no answer here and is for [`SSTableReader::read_partition`], which waits, and tells what is wrong.
//!
//! What keeps it from an answer is often one page. [`PendingRow`] knows which, gets it, and holds it, so that the same
//! function goes on from there: a row that lies on the disk costs a wait for each page that is missing, and no stream.
//!
//! Page touches: two to four of the partition index (or one page of Index.db in its flat form), some of Rows.db if the
//! partition is wide, one of Data.db. One copy: the row, into the form that memtables have. Memory: [`PointScratch`], used
//! again, bounded by [`window::MAXIMUM_JOINED_BYTES`] and a row.

mod index;
mod look_ahead;
mod pending;
mod rows;
mod window;

use espalier_mutation::{DecoratedKeyRef, DeletionTime};

pub use self::pending::PendingRow;
use self::{pending::Step, window::Window};
use super::sstable_reader::SSTableReader;
use crate::{
    data::decode::view::{RowView, Span},
    page_cache::PagesAtHand,
};

/// What a look-up came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAtHand {
    /// It cannot be told without waiting, or not here.
    Unknown,
    /// The SSTable has nothing of the partition.
    NoPartition,
    /// It has the partition.
    Partition(PointRow),
}

/// What an SSTable says of a row, not yet reconciled with the deletions over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointRow {
    /// Deletion of the partition.
    pub partition_deletion: DeletionTime,
    /// The range deletion in force at the row.
    pub range_deletion: DeletionTime,
    /// Whether there is a row; then [`PointScratch::row`] has it.
    pub has_row: bool,
}

/// Memory that look-ups use one after the other.
#[derive(Debug, Default)]
pub struct PointScratch {
    path: Vec<u8>,
    joined: Vec<u8>,
    spans: Vec<Option<Span>>,
    view: RowView,
    row: Vec<u8>,
}

impl PointScratch {
    /// The row of the last look-up that found one, as [`pack_row`](espalier_mutation::pack_row) makes it.
    #[inline]
    pub fn row(&self) -> &[u8] {
        &self.row
    }
}

impl SSTableReader {
    /// Looks a row up in what is in memory, and what `pending` holds. `hash` is the Murmur3 hash of the key, which lies in the
    /// key range ([`SSTableReader::spans`]); `clustering` has a value for each clustering column. Where a page is missing,
    /// `pending` knows which.
    #[inline]
    pub fn row_at_hand<V: AsRef<[u8]>>(
        &self,
        key: DecoratedKeyRef<'_>,
        hash: (u64, u64),
        clustering: &[Option<V>],
        pending: &mut PendingRow,
        scratch: &mut PointScratch,
    ) -> RowAtHand {
        let mut step = pending.step_of(self);
        let pages = self.0.data.pages_at_hand(pending.pages());
        let found = self.try_row(&pages, (key, hash), clustering, &mut step, scratch);
        if let Some(found) = found {
            return found;
        }
        if let Some(missing) = pages.missing() {
            drop(pages);
            pending.stop(self, step, missing);
        }
        RowAtHand::Unknown
    }

    #[inline]
    fn try_row<V: AsRef<[u8]>>(
        &self,
        pages: &PagesAtHand<'_>,
        (key, hash): (DecoratedKeyRef<'_>, (u64, u64)),
        clustering: &[Option<V>],
        step: &mut Step,
        scratch: &mut PointScratch,
    ) -> Option<RowAtHand> {
        let layout = self.0.layout.borrow();
        if layout.is_static_compact
            || !layout.statics.is_empty()
            || layout.clustering.len() != clustering.len()
        {
            return None;
        }
        let place =
            self.place_at_hand(pages, &layout, (key, hash.1 as u8), clustering, step, scratch)?;
        let Some(place) = place else { return Some(RowAtHand::NoPartition) };
        *step = Step::Data(place);
        let window = Window::new(pages, &self.0.data, place.position, &mut scratch.joined)?;
        let (spans, view, row) = (&mut scratch.spans, &mut scratch.view, &mut scratch.row);
        let walk = rows::Walk { layout: &layout, window, spans, view, row };
        walk.find(key, place, clustering)
    }
}
