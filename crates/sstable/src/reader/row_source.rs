//! Reads heads, rows and markers of Data.db one after another.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_mutation::{
    ClusteringComparator, DecoratedKey, PartitionHeader, PositionRef, RangeTombstoneMarker, Row,
    Unfiltered,
};

use crate::{
    data::{
        column_map::FileLayout,
        decode::{
            Head, HeadKind, RowDecoder, RowRef, UnfilteredHead, UniformRow, UniformStep, read_head,
            read_marker, read_partition_head, walk_static_head,
        },
        input::{DataInput, Malformed},
        layout::END_OF_PARTITION,
        stream::DataStream,
    },
    error::{Result, SSTableError},
    reader::raw_row::{Ahead, RawRow},
};

/// A position in Data.db: the start of a partition, row or marker, or the end of a partition.
#[derive(Debug)]
pub(crate) struct RowSource {
    pub(crate) stream: DataStream,
    decoder: RowDecoder,
}

impl RowSource {
    pub(crate) fn new(stream: DataStream, decoder: RowDecoder) -> Self {
        Self { stream, decoder }
    }

    pub(crate) fn comparator(&self) -> &ClusteringComparator {
        self.decoder.layout.table.comparator()
    }

    pub(crate) fn has_static_columns(&self) -> bool {
        !self.decoder.layout.statics.is_empty()
    }

    pub(crate) fn is_static_compact(&self) -> bool {
        self.decoder.layout.is_static_compact
    }

    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> SSTableError {
        self.stream.corrupt(reason)
    }

    /// Reads key, deletion and static row, and steps over them. Also returns their length in bytes.
    pub(crate) async fn read_header(&mut self) -> Result<(PartitionHeader, u64)> {
        let head = loop {
            match read_partition_head(&mut self.stream.input(), &self.decoder.layout) {
                Ok(head) => break head,
                Err(Malformed::Ended) => self.stream.fill_more().await?,
                Err(Malformed::Wrong(reason)) => return Err(self.corrupt(reason)),
            }
        };
        let (from, to) = head.key;
        let key = DecoratedKey::new(self.stream.window().slice(from..to));
        let mut length = (head.end - self.stream.offset()) as u64;
        self.stream.skip(length);
        let mut static_row = None;
        if self.has_static_columns() {
            let (row, row_length) = self.read_static_row().await?;
            length += row_length;
            static_row = (!row.is_empty()).then_some(row);
        }
        Ok((PartitionHeader { key, deletion: head.deletion, static_row }, length))
    }

    /// Returns the key of the next partition and the offset after its head, if the source is at the
    /// end of a partition and the next head is in memory and holds only the key.
    pub(crate) fn next_cached_head(&self) -> Option<(Bytes, usize)> {
        let (window, start) = (self.stream.window(), self.stream.offset());
        if self.has_static_columns() || window.get(start) != Some(&END_OF_PARTITION) {
            return None;
        }
        let mut input = DataInput::new(window, start + 1);
        let head = read_partition_head(&mut input, &self.decoder.layout).ok()?;
        head.deletion.is_live().then(|| (window.slice(head.key.0..head.key.1), head.end))
    }

    /// Returns whether the byte that ends a partition comes next and is in memory.
    pub(crate) fn is_end_cached(&self) -> bool {
        self.stream.window().get(self.stream.offset()) == Some(&END_OF_PARTITION)
    }

    async fn read_static_row(&mut self) -> Result<(Row, u64)> {
        let mut head = self.static_head().await?;
        let length = head.end - self.stream.offset();
        if self.stream.available() < length {
            self.stream.fill(length).await?;
            head = self.static_head().await?;
        }
        let row = self.decoder.read_static_row(self.stream.window(), &head);
        let row = row.map_err(|wrong| self.corrupt(wrong.reason()))?;
        self.stream.skip(length as u64);
        Ok((row, length as u64))
    }

    async fn static_head(&mut self) -> Result<Head> {
        loop {
            match walk_static_head(&mut self.stream.input()) {
                Ok(head) => return Ok(head),
                Err(Malformed::Ended) => self.stream.fill_more().await?,
                Err(Malformed::Wrong(reason)) => return Err(self.corrupt(reason)),
            }
        }
    }

    /// Reads the head of the row or marker here; `None` at the end of the partition. Does not move.
    pub(crate) async fn head(&mut self) -> Result<Option<UnfilteredHead>> {
        loop {
            match read_head(&mut self.stream.input(), &self.decoder.layout) {
                Ok(head) => return Ok(head),
                Err(Malformed::Ended) => self.stream.fill_more().await?,
                Err(Malformed::Wrong(reason)) => return Err(self.corrupt(reason)),
            }
        }
    }

    /// Looks at the item here. For a raw row it returns the offset after the row, and `view` then
    /// refers to the window.
    #[inline]
    pub(crate) async fn look(&mut self, view: &mut RowRef) -> Result<(Ahead, usize)> {
        match self.view_columns(view, usize::MAX) {
            Some(end) => Ok((Ahead::Raw, end)),
            // Boxed, because this case is rare and the future of all other steps then stays small.
            None => Box::pin(self.look_closely(view)).await,
        }
    }

    async fn look_closely(&mut self, view: &mut RowRef) -> Result<(Ahead, usize)> {
        let Some(head) = self.head().await? else { return Ok((Ahead::End, 0)) };
        if head.head.kind != HeadKind::Row {
            return Ok((Ahead::Other, 0));
        }
        self.with_body(head).await?;
        let end = self.view_columns(view, usize::MAX);
        Ok(end.map_or((Ahead::Other, 0), |end| (Ahead::Raw, end)))
    }

    /// Reads the raw row here, if it is in memory; see [`RowRef::read_columns`].
    #[inline]
    pub(crate) fn view_columns(&self, view: &mut RowRef, wanted: usize) -> Option<usize> {
        let layout = &self.decoder.layout;
        view.read_columns(self.stream.window(), self.stream.offset(), layout, wanted)
    }

    /// Looks at the item at an offset of the window; `None` if it is not in memory or is neither a
    /// uniform row nor the end. The layout must allow uniform rows.
    #[inline]
    pub(crate) fn look_uniform(&self, at: usize, row: &mut UniformRow) -> Option<UniformStep> {
        row.read(self.stream.window(), at, &self.decoder.layout)
    }

    /// Returns the layout by which rows of this file are decoded.
    pub(crate) fn layout(&self) -> &FileLayout {
        &self.decoder.layout
    }

    /// Returns the row that `view` describes.
    pub(crate) fn plain<'a>(&'a self, view: &'a RowRef) -> RawRow<'a> {
        RawRow::new(view, self.stream.window(), &self.decoder.layout)
    }

    /// Compares the position of `head`, which was read here, with another one.
    pub(crate) fn compare(&self, head: &UnfilteredHead, other: PositionRef<'_>) -> Ordering {
        head.compare(self.stream.window(), self.comparator(), other)
    }

    /// Reads the row or marker of `head`, which was read here, and steps over it. A row may be
    /// empty.
    pub(crate) async fn take(&mut self, head: UnfilteredHead) -> Result<Unfiltered> {
        let head = self.with_body(head).await?;
        let window = self.stream.window();
        let unfiltered = match head.head.kind {
            HeadKind::Row if self.is_static_compact() => {
                return Err(self.corrupt("a compact table has rows besides the static row"));
            }
            HeadKind::Row => self.decoder.read_row(window, &head).map(Unfiltered::Row),
            HeadKind::Marker(kind) => {
                read_marker(window, &head, kind, &self.decoder.layout).map(Unfiltered::Marker)
            }
        };
        let unfiltered = unfiltered.map_err(|wrong| self.corrupt(wrong.reason()))?;
        self.skip(&head);
        Ok(unfiltered)
    }

    /// Reads the marker of `head`; an error if it is a row.
    pub(crate) async fn take_marker(
        &mut self,
        head: UnfilteredHead,
    ) -> Result<RangeTombstoneMarker> {
        match self.take(head).await? {
            Unfiltered::Marker(marker) => Ok(marker),
            Unfiltered::Row(_) => Err(self.corrupt("a row where a marker was")),
        }
    }

    /// Steps over the row or marker of `head`, which was read here.
    pub(crate) fn skip(&mut self, head: &UnfilteredHead) {
        self.stream.skip(head.length() as u64);
    }

    /// Reads the body of `head` into the window, and returns the head with valid spans.
    async fn with_body(&mut self, head: UnfilteredHead) -> Result<UnfilteredHead> {
        if self.stream.available() >= head.length() {
            return Ok(head);
        }
        self.stream.fill(head.length()).await?;
        // Spans refer to the window, and `fill` has replaced it.
        match self.head().await? {
            Some(head) => Ok(head),
            None => Err(self.corrupt("a row that was read before is missing")),
        }
    }
}
