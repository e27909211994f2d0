//! Scans the partitions of a key range in order.

use std::sync::Arc;

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, DeletionTime, KeyBound, KeyRange, PartitionHeader,
    schema::ColumnId,
};

use super::{
    forward::ForwardRows,
    only_row::OnlyRow,
    raw_row::{Ahead, RawRow},
    row_source::RowSource,
    scanned_partition::ScannedPartition,
    sstable_reader::SSTableReader,
    uniform::UniformRows,
};
use crate::{
    data::{
        column_map::FileColumn,
        decode::{RowDecoder, RowRef, may_have_uniform_rows},
        encode::RowEncoder,
        stream::DataStream,
    },
    error::Result,
    page_cache::Caching,
};

/// The maximum number of bytes that the scan steps over to leave a partition. If the rest of the
/// partition is longer, the scan looks up the next partition in the index.
const SKIP_BYTES: u64 = 256 * 1024;
/// Replaces [`SKIP_BYTES`] in short scans, for which that limit would be dozens of pages.
const SHORT_SKIP_BYTES: u64 = 4 * 1024;

/// The scan reads ahead when fewer than this many bytes are left in the window. Between two checks
/// a writer usually copies fewer bytes, so that it finds whole rows. Reading ahead moves the
/// remaining bytes in front of the next chunk. That costs little, because they are few compared
/// with a chunk.
const SHORT_BYTES: usize = 2048;

/// A scan of partitions. It reads Data.db in large pieces and bypasses the page cache. A short scan
/// reads pages through the page cache, as look-ups do.
#[derive(Debug)]
pub struct Scan {
    reader: SSTableReader,
    range: KeyRange,
    slices: Arc<ClusteringSlices>,
    caching: Caching,
    state: State,
    /// The key of the partition that was entered last.
    last_key: Option<DecoratedKey>,
    /// The position of the current partition in Data.db.
    partition_start: u64,
    /// The Murmur3 hash of the current partition's key; `None` if [`Scan::next_partition`] entered
    /// the partition.
    key_hash: Option<(u64, u64)>,
    /// True if the scan returns all rows with all columns, so that raw rows can be copied.
    is_whole: bool,
    /// True if the scan returns all rows from a bound on with all columns, so that rows can be read
    /// in place.
    is_in_place: bool,
    /// The number of the last writer that asked for uniform rows, and a flag: true if that writer
    /// can copy the uniform rows of this file.
    is_uniform: Option<(u64, bool)>,
    /// True if the scan may read ahead; false if its last attempt has failed.
    may_draw_near: bool,
    /// The row that was looked at, and the offset after it (0 if there is none).
    view: RowRef,
    view_end: usize,
    /// The number of leading columns of the file whose cells the scan reads when it reads rows in
    /// place.
    wanted_columns: usize,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one for each scan, and moved at every partition: a box would cost more"
)]
enum State {
    /// The scan stands at the start of a partition or at the end of the file.
    Between(RowSource),
    /// The scan stands in a partition.
    Inside(Box<(PartitionHeader, OnlyRow, ForwardRows)>),
    Finished,
}

/// Returns the number of bytes that the scan steps over before it reads the index.
pub(super) fn skip_bytes(caching: Caching) -> u64 {
    match caching {
        Caching::Private => SKIP_BYTES,
        Caching::Shared => SHORT_SKIP_BYTES,
    }
}

impl Scan {
    pub(super) async fn new(
        reader: SSTableReader,
        range: KeyRange,
        slices: Arc<ClusteringSlices>,
        decoder: RowDecoder,
        caching: Caching,
    ) -> Result<Self> {
        let is_in_place = matches!(&*slices.slices, [slice] if slice.end.is_unbounded())
            && decoder.wants_all()
            && !decoder.layout.is_static_compact;
        let is_whole = is_in_place && slices.is_all();
        let start = if reader.may_contain_range(&range) {
            reader.first_position(&range, caching).await?
        } else {
            None
        };
        let state = match start {
            Some(position) => {
                let data = reader.0.data.clone();
                let stream = match caching {
                    Caching::Private => DataStream::sequential(data, position),
                    Caching::Shared => DataStream::short(data, position),
                };
                State::Between(RowSource::new(stream, decoder))
            }
            None => State::Finished,
        };
        Ok(Self {
            reader,
            range,
            slices,
            caching,
            state,
            last_key: None,
            partition_start: 0,
            key_hash: None,
            is_whole,
            is_in_place,
            is_uniform: None,
            may_draw_near: true,
            view: RowRef::new(),
            view_end: 0,
            wanted_columns: usize::MAX,
        })
    }

    /// Announces, before the first partition, that the caller will read all partitions. A scan that
    /// bypasses the page cache then reads at least `at_once_bytes` bytes at a time.
    pub fn expect_all(&mut self, at_once_bytes: usize) {
        if let State::Between(source) = &mut self.state {
            source.stream.expect_all(at_once_bytes);
        }
    }

    /// Announces, before the first partition, that the scan shall use cached pages of data. A short
    /// scan then leaves all pages that it reads in the page cache, however long it becomes.
    pub fn use_cached_pages(&mut self) {
        if let State::Between(source) = &mut self.state {
            source.stream.use_cache();
        }
    }

    /// Announces, before the first partition, that the caller of [`ScannedPartition::walk_rows`]
    /// asks for the values of these columns only.
    pub fn expect_columns(&mut self, columns: &[ColumnId]) {
        if let State::Between(source) = &self.state {
            let is_wanted =
                |column: &FileColumn| column.target.is_some_and(|target| columns.contains(&target));
            let last = source.layout().regulars.iter().rposition(is_wanted);
            self.wanted_columns = last.map_or(0, |last| last + 1);
        }
    }

    /// Returns the SSTable that is scanned.
    pub fn reader(&self) -> &SSTableReader {
        &self.reader
    }

    /// Goes to the next partition if that needs no read: the current one was read to its end, and
    /// the next one's head is in memory and holds only a key. Otherwise it does nothing and returns
    /// false, and the caller calls [`Scan::next_partition`].
    #[inline]
    pub fn next_cached(&mut self) -> bool {
        let Self {
            state: State::Inside(current), range, partition_start, key_hash, view_end, ..
        } = self
        else {
            return false;
        };
        let (header, _, rows) = &mut **current;
        let Some((key, hash, end)) = rows.next_cached_partition() else { return false };
        // [`Scan::next_partition`] reports partitions that are out of order.
        if key <= header.key || range.ends_before(&key) {
            return false;
        }
        *partition_start = rows.position() + 1;
        *key_hash = Some(hash);
        *view_end = 0;
        rows.pass(end);
        rows.restart();
        *header = PartitionHeader { key, deletion: DeletionTime::LIVE, static_row: None };
        true
    }

    /// Goes to the next partition, no matter how much of the current one was read. Returns `None`
    /// at the end of the range.
    ///
    /// # Errors
    ///
    /// Returns an error if the data or the index is damaged or cannot be read. After an error the
    /// scan is finished.
    pub async fn next_partition(&mut self) -> Result<Option<ScannedPartition<'_>>> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Finished => {}
            State::Between(source) => self.enter(source).await?,
            State::Inside(current) => {
                let (header, _, rows) = *current;
                self.last_key = Some(header.key.clone());
                if let Some(source) = self.leave(&header, rows).await? {
                    self.enter(source).await?;
                }
            }
        }
        Ok(self.partition())
    }

    /// Continues with the partition that begins at `position`, no matter how much of the current
    /// one was read. `position` must lie after the current partition. Does nothing after an error
    /// or the end.
    pub fn go_to(&mut self, position: u64) {
        self.view_end = 0;
        let mut source = match std::mem::replace(&mut self.state, State::Finished) {
            State::Finished => return,
            State::Between(source) => source,
            State::Inside(current) => {
                let (header, _, rows) = *current;
                self.last_key = Some(header.key);
                rows.source
            }
        };
        source.stream.seek(position);
        self.state = State::Between(source);
    }

    /// Returns the position of the next byte of Data.db, before compression; after the scan has
    /// finished, the length of Data.db.
    pub fn position(&self) -> u64 {
        match &self.state {
            State::Between(source) => source.stream.position(),
            State::Inside(current) => current.2.position(),
            State::Finished => self.reader.data_length(),
        }
    }

    /// Returns the header of the current partition.
    pub fn header(&self) -> Option<&PartitionHeader> {
        match &self.state {
            State::Inside(current) => Some(&current.0),
            _ => None,
        }
    }

    /// Returns the Murmur3 hash of the current partition's key; `None` if [`Scan::next_partition`]
    /// entered the partition.
    #[inline]
    pub fn key_hash(&self) -> Option<(u64, u64)> {
        self.key_hash.filter(|_| matches!(self.state, State::Inside(_)))
    }

    /// Returns whether a partition deletion hides the rest of the current partition, as far as the
    /// bytes in memory show. Deletions with the same timestamp may remain, so only reads of visible
    /// rows may skip the rest.
    pub fn is_hidden_by(&self, deletion: DeletionTime) -> bool {
        match &self.state {
            State::Inside(current) => {
                let (header, only_row, rows) = &**current;
                // The deletion covers the partition if it covers the newest timestamp of the file.
                // Otherwise it covers the rest only if nothing is left: no static row, and no row
                // before the end.
                deletion.deletes(self.reader.maximum_timestamp())
                    || (header.static_row.is_none() && only_row.is_none() && rows.is_at_end())
            }
            _ => false,
        }
    }

    /// Returns the current partition, from the item at which it was left.
    pub fn partition(&mut self) -> Option<ScannedPartition<'_>> {
        // The stream may move on, and then the view is out of date.
        self.view_end = 0;
        match &mut self.state {
            State::Inside(current) => {
                let (header, only_row, rows) = &mut **current;
                Some(ScannedPartition {
                    header,
                    only_row,
                    rows,
                    start: self.partition_start,
                    reader: &self.reader,
                    caching: self.caching,
                    view: self.is_in_place.then_some(&mut self.view),
                    wanted_columns: self.wanted_columns,
                })
            }
            _ => None,
        }
    }

    /// Looks at the next item of the current partition. After [`Ahead::Raw`] the caller may use
    /// [`Scan::raw_row`] and [`Scan::pass`], or [`Scan::partition`], which begins with the same
    /// row.
    ///
    /// # Errors
    ///
    /// Returns an error if the data is damaged or cannot be read.
    #[inline]
    pub async fn look(&mut self) -> Result<Ahead> {
        let Self { state: State::Inside(current), view, is_whole: true, .. } = self else {
            return Ok(Ahead::Other);
        };
        let (ahead, end) = current.2.look(view).await?;
        self.view_end = end;
        Ok(ahead)
    }

    /// Returns the row that was looked at; `None` if the item was no raw row.
    #[inline]
    pub fn raw_row(&self) -> Option<RawRow<'_>> {
        match &self.state {
            State::Inside(current) if self.view_end > 0 => Some(current.2.source.plain(&self.view)),
            _ => None,
        }
    }

    /// Steps over the row that was looked at.
    #[inline]
    pub fn pass(&mut self) {
        if let State::Inside(current) = &mut self.state
            && self.view_end > 0
        {
            current.2.pass(std::mem::take(&mut self.view_end));
        }
    }

    /// Returns whether the window has so few bytes left that the caller should call
    /// [`Scan::draw_near`].
    #[inline]
    pub fn is_short(&self) -> bool {
        match &self.state {
            State::Inside(current) if self.may_draw_near => {
                current.2.source.stream.is_short(SHORT_BYTES)
            }
            _ => false,
        }
    }

    /// Reads more of Data.db into the window, so that a writer that copies rows without waiting
    /// finds whole rows. If that fails, the scan does not try again, and the read that needs the
    /// missing bytes returns the error.
    pub async fn draw_near(&mut self) {
        // The window moves, and the view is out of date.
        self.view_end = 0;
        if let State::Inside(current) = &mut self.state {
            // Boxed, because this case is rare and the future of all other steps then stays small.
            self.may_draw_near = Box::pin(current.2.source.stream.lengthen()).await.is_ok();
        }
    }

    /// Returns a view of the rest of the partition for a writer that copies uniform rows; `None` if
    /// that writer cannot copy the next row as a uniform row. `writer` is the writer's number.
    #[inline]
    pub(crate) fn uniform_rows(
        &mut self,
        (writer, encoder): (u64, &RowEncoder),
    ) -> Option<UniformRows<'_>> {
        self.view_end = 0;
        let Self { state: State::Inside(current), is_whole: true, is_uniform, .. } = self else {
            return None;
        };
        let rows = &mut current.2;
        let is_uniform = match is_uniform {
            Some((known, is_uniform)) if *known == writer => *is_uniform,
            other => {
                let layout = rows.source.layout();
                let fits = may_have_uniform_rows(layout) && encoder.has_form_of(layout);
                other.insert((writer, fits)).1
            }
        };
        (is_uniform && rows.is_free()).then(|| UniformRows::new(rows))
    }

    async fn enter(&mut self, mut source: RowSource) -> Result<()> {
        if source.stream.is_at_end() {
            return self.check_end();
        }
        self.partition_start = source.stream.position();
        self.key_hash = None;
        let (mut header, _) = source.read_header().await?;
        if self.last_key.as_ref().is_some_and(|last| *last >= header.key) {
            return Err(source.corrupt("a partition is out of key order"));
        }
        self.last_key = Some(header.key.clone());
        if !self.range.ends_before(&header.key) {
            let only_row = OnlyRow::of(&mut header, source.is_static_compact());
            let rows = ForwardRows::new(source, self.slices.clone());
            self.state = State::Inside(Box::new((header, only_row, rows)));
        }
        Ok(())
    }

    /// Checks that the last partition of the file is the one that the index names.
    fn check_end(&self) -> Result<()> {
        match &self.last_key {
            Some(last) if last != self.reader.last_key() => {
                let length = self.reader.data_length();
                Err(self.reader.0.data.corrupt(length, "the last partition is missing"))
            }
            _ => Ok(()),
        }
    }

    async fn leave(
        &self,
        header: &PartitionHeader,
        mut rows: ForwardRows,
    ) -> Result<Option<RowSource>> {
        let is_skipped = rows.skip_rest(skip_bytes(self.caching)).await?;
        let mut source = rows.source;
        if is_skipped {
            return Ok(Some(source));
        }
        let behind =
            KeyRange { start: KeyBound::AfterKey(header.key.clone()), end: KeyBound::Unbounded };
        match self.reader.first_position(&behind, self.caching).await? {
            Some(position) if position > source.stream.position() => {
                source.stream.seek(position);
                Ok(Some(source))
            }
            Some(_) => Err(source.corrupt("the index leads back to a partition that was read")),
            None => self.check_end().map(|()| None),
        }
    }
}
