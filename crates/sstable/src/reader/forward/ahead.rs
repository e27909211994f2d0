//! What lies ahead, for those who copy rows as they lie.

use espalier_mutation::DecoratedKey;

use super::ForwardRows;
use crate::{
    data::decode::RowView,
    error::Result,
    reader::{
        RowSource,
        plain::{Ahead, PlainRow},
    },
};

impl ForwardRows {
    /// What comes next, for those who copy rows as they lie; see [`RowSource::look`]. The slices must be everything.
    #[inline]
    pub(in crate::reader) async fn look(&mut self, view: &mut RowView) -> Result<(Ahead, usize)> {
        if !self.is_free() {
            return Ok((Ahead::Other, 0));
        }
        self.source.look(view).await
    }

    /// The row that was looked at.
    #[inline]
    pub(in crate::reader) fn plain<'a>(&'a self, view: &'a RowView) -> PlainRow<'a> {
        self.source.plain(view)
    }

    /// Steps over the row that was looked at, up to this offset.
    #[inline]
    pub(in crate::reader) fn pass(&mut self, end: usize) {
        let length = end.saturating_sub(self.source.stream.offset());
        self.source.stream.skip(length as u64);
    }

    /// The key of a partition that begins behind this one, which must be at its end, and the offset behind its head: if that is in
    /// memory, and there is nothing in it but the key.
    pub(in crate::reader) fn next_partition_at_hand(&self) -> Option<(DecoratedKey, usize)> {
        if !self.is_free() {
            return None;
        }
        self.source.next_head_at_hand().map(|(key, end)| (DecoratedKey::new(key), end))
    }

    /// Whether the end of the partition comes next, and is in memory.
    pub(in crate::reader) fn is_at_end(&self) -> bool {
        self.is_free() && self.source.is_end_at_hand()
    }

    /// At the beginning of another partition.
    pub(in crate::reader) fn restart(&mut self) {
        self.slice = 0;
        self.is_inside = false;
        self.index = None;
        self.is_index_sought = false;
    }

    /// Whether what comes next can be looked at and copied without regard to anything else.
    pub(in crate::reader) fn is_free(&self) -> bool {
        self.open.is_live() && self.skip.is_none() && !self.is_finished
    }

    /// Brings more of what comes into memory.
    pub(in crate::reader) async fn lengthen(&mut self) -> Result<()> {
        self.source.stream.lengthen().await
    }

    #[inline]
    pub(in crate::reader) fn source(&self) -> &RowSource {
        &self.source
    }
}
