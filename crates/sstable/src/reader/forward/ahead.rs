//! Looks ahead in a partition for callers that take raw rows: a writer that copies them, and a scan
//! that reads in place.

use espalier_mutation::DecoratedKey;

use super::ForwardRows;
use crate::{data::decode::RowRef, error::Result, reader::raw_row::Ahead};

impl ForwardRows {
    /// Looks at the next item for a caller that takes raw rows; see
    /// [`RowSource::look`](crate::reader::RowSource::look). The slices must cover the rest of the
    /// partition.
    #[inline]
    pub(in crate::reader) async fn look(&mut self, view: &mut RowRef) -> Result<(Ahead, usize)> {
        if !self.is_free() {
            return Ok((Ahead::Other, 0));
        }
        self.source.look(view).await
    }

    /// Steps forward to this offset of the window.
    #[inline]
    pub(in crate::reader) fn pass(&mut self, end: usize) {
        let length = end.saturating_sub(self.source.stream.offset());
        self.source.stream.skip(length as u64);
    }

    /// Returns the key of the next partition, the key's Murmur3 hash and the offset after the head,
    /// if the reader is at the end of this partition and the next head is in memory and holds only
    /// the key.
    pub(in crate::reader) fn next_cached_partition(
        &self,
    ) -> Option<(DecoratedKey, (u64, u64), usize)> {
        if !self.is_free() {
            return None;
        }
        let (key, end) = self.source.next_cached_head()?;
        let (key, hash) = DecoratedKey::with_hash(key);
        Some((key, hash, end))
    }

    /// Returns whether the end of the partition comes next and is in memory.
    pub(in crate::reader) fn is_at_end(&self) -> bool {
        self.is_free() && self.source.is_end_cached()
    }

    /// Starts over at the beginning of another partition.
    pub(in crate::reader) fn restart(&mut self) {
        self.slice = 0;
        self.is_inside = false;
        self.index = None;
        self.is_index_sought = false;
    }

    /// Returns whether the state of the reader lets the next item be copied as it is: no range
    /// deletion is open, no skip is under way, and the walk has not finished.
    pub(in crate::reader) fn is_free(&self) -> bool {
        self.open.is_live() && self.skip.is_none() && !self.is_finished
    }
}
