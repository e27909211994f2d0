//! Cuts Data.db into batches of whole rows, which other threads can decode independently.
//!
//! The cut reads only heads, lengths and markers. It needs the markers because the decoder of a
//! batch that begins inside a partition must know which range deletion is open there. The cut takes
//! a single position from an index: the first one. If the cut cannot step over an item, it decodes
//! the item to find the error that a scan would report. It returns the error after all batches
//! before that item.
//!
//! Memory: one batch, one chunk more, and the bytes read ahead. A row that is longer than a batch
//! is held whole.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use espalier_mutation::{DecoratedKey, DeletionTime, KeyBound, KeyRange};

use super::{row_source::RowSource, sstable_reader::SSTableReader};
use crate::{
    data::{
        column_map::{ColumnSelection, FileLayout},
        decode::{RowDecoder, Step, read_partition_head, step, walk_static_head},
        file::DataFile,
        input::{DataInput, Decoded, Malformed},
        read_ahead::ReadAhead,
        stream::DataStream,
    },
    error::{Result, SSTableError},
    page_cache::Caching,
};

/// A batch of consecutive, whole items: heads of partitions, rows and markers.
#[derive(Clone, Debug)]
pub struct RowBatch {
    pub(crate) bytes: Bytes,
    /// Position of its first byte in Data.db, before compression.
    pub(crate) position: u64,
    /// Key of the last partition that begins before the batch.
    pub(crate) key: Option<Bytes>,
    /// True if the batch begins inside of that partition.
    pub(crate) is_inside: bool,
    /// The range deletion that is open where the batch begins.
    pub(crate) open: DeletionTime,
}

impl RowBatch {
    /// Returns the length of the batch before compression, in bytes.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the position after the batch in Data.db, before compression.
    pub fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }
}

/// Cuts a range of Data.db into batches.
///
/// Invariant: `buffer` begins where the next batch does, at `position`.
#[derive(Debug)]
pub struct RowBatches {
    file: DataFile,
    ahead: ReadAhead,
    decoder: RowDecoder,
    end: KeyBound,
    /// Key of the last partition of the file, if it is known.
    last_key: Option<Bytes>,
    buffer: BytesMut,
    position: u64,
    key: Option<Bytes>,
    is_inside: bool,
    open: DeletionTime,
    state: State,
}

#[derive(Debug)]
enum State {
    Cutting,
    /// Cutting has stopped; the error follows the last batch.
    Failed(SSTableError),
    Finished,
}

impl SSTableReader {
    /// Cuts the partitions of a range into row batches.
    ///
    /// # Errors
    ///
    /// Returns an error if the index or the data is damaged or cannot be read where the range
    /// begins.
    pub async fn row_batches(&self, range: &KeyRange) -> Result<RowBatches> {
        let start = if self.may_contain_range(range) {
            self.first_position(range, Caching::Private).await?
        } else {
            None
        };
        let (file, layout) = (self.0.data.clone(), self.0.layout.borrow().clone());
        let last_key = Some(self.last_key().key.clone());
        Ok(RowBatches::new(file, layout, start, range.end.clone(), last_key))
    }
}

impl RowBatches {
    /// Cuts from the partition at `start`, if there is one, to `end`.
    pub(super) fn new(
        file: DataFile,
        layout: Arc<FileLayout>,
        start: Option<u64>,
        end: KeyBound,
        last_key: Option<Bytes>,
    ) -> Self {
        Self {
            file,
            ahead: ReadAhead::default(),
            decoder: RowDecoder::new(layout, &ColumnSelection::All),
            end,
            last_key,
            buffer: BytesMut::new(),
            position: start.unwrap_or_default(),
            key: None,
            is_inside: false,
            open: DeletionTime::LIVE,
            state: if start.is_some() { State::Cutting } else { State::Finished },
        }
    }

    /// Returns the next batch, of about `length` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the data is damaged or cannot be read, after all rows before the fault.
    pub async fn next(&mut self, length: usize) -> Result<Option<RowBatch>> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Cutting => {}
            State::Failed(error) => return Err(error),
            State::Finished => return Ok(None),
        }
        let (position, key) = (self.position, self.key.clone());
        let (is_inside, open) = (self.is_inside, self.open);
        self.buffer
            .reserve((length + self.file.chunk_length() as usize) - self.buffer.len().min(length));
        let mut at = 0;
        self.state = loop {
            if at >= length {
                break State::Cutting;
            }
            match self.advance(at) {
                Ok(Some(end)) => at = end,
                Ok(None) => break self.check_end(),
                Err(Malformed::Wrong(_)) => break State::Failed(self.report(at).await),
                Err(Malformed::Ended) => match self.fill().await {
                    Ok(true) => {}
                    Ok(false) => break State::Failed(self.report(at).await),
                    Err(error) => break State::Failed(error),
                },
            }
        };
        espalier_runtime::maybe_yield().await;
        let rest = BytesMut::from(self.buffer.get(at..).unwrap_or_default());
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        bytes.truncate(at);
        self.position += at as u64;
        if at == 0 {
            return match std::mem::replace(&mut self.state, State::Finished) {
                State::Failed(error) => Err(error),
                _ => Ok(None),
            };
        }
        Ok(Some(RowBatch { bytes: bytes.freeze(), position, key, is_inside, open }))
    }

    /// Returns the offset after the item at `at` of the buffer; `None` at the end of the range.
    fn advance(&mut self, at: usize) -> Decoded<Option<usize>> {
        if !self.is_inside {
            if self.position + at as u64 >= self.file.length() {
                return Ok(None);
            }
            return self.enter(at);
        }
        let (end, open) = match step(&self.buffer, at, &self.decoder.layout, |_| ())? {
            Step::Row(end) => (end, self.open),
            Step::Marker(end, open, _) => (end, open),
            Step::End => {
                self.is_inside = false;
                return Ok(Some(at + 1));
            }
        };
        self.check_buffered(end)?;
        self.open = open;
        Ok(Some(end))
    }

    /// Returns an error if the item that ends at this offset is not wholly in the buffer.
    fn check_buffered(&self, end: usize) -> Decoded<()> {
        if end <= self.buffer.len() {
            Ok(())
        } else if self.position + end as u64 <= self.file.length() {
            Err(Malformed::Ended)
        } else {
            Err(Malformed::Wrong("a row or marker ends after the file"))
        }
    }

    /// Steps over the head of a partition and its static row.
    fn enter(&mut self, at: usize) -> Decoded<Option<usize>> {
        let layout = &self.decoder.layout;
        let mut input = DataInput::new(&self.buffer, at);
        let head = read_partition_head(&mut input, layout)?;
        let mut behind = head.end;
        if !layout.statics.is_empty() {
            behind = walk_static_head(&mut input)?.end;
            self.check_buffered(behind)?;
        }
        let key = self.buffer.get(head.key.0..head.key.1).unwrap_or_default();
        let key = Bytes::copy_from_slice(key);
        if !matches!(self.end, KeyBound::Unbounded) {
            let range = KeyRange { start: KeyBound::Unbounded, end: self.end.clone() };
            if range.ends_before(&DecoratedKey::new(key.clone())) {
                self.key = None;
                return Ok(None);
            }
        }
        (self.key, self.is_inside, self.open) = (Some(key), true, DeletionTime::LIVE);
        Ok(Some(behind))
    }

    /// Appends the next chunk to the buffer; false if there is none.
    async fn fill(&mut self) -> Result<bool> {
        let next = self.position + self.buffer.len() as u64;
        if next >= self.file.length() {
            return Ok(false);
        }
        let chunk_length = self.file.chunk_length();
        let chunk = self.file.chunk_ahead(next / chunk_length, &mut self.ahead).await?;
        match chunk.get((next % chunk_length) as usize..) {
            Some(part) if !part.is_empty() => {
                self.buffer.extend_from_slice(part);
                Ok(true)
            }
            _ => Err(self.file.corrupt(next, "a chunk is shorter than expected")),
        }
    }

    /// Checks that the last partition of the file is the one that Statistics.db or the index names.
    fn check_end(&self) -> State {
        match (&self.key, &self.last_key) {
            (Some(key), Some(last)) if key != last => {
                let length = self.file.length();
                State::Failed(self.file.corrupt(length, "the last partition is missing"))
            }
            _ => State::Finished,
        }
    }

    /// Finds the error at `at` of the buffer, by reading the item as a scan does.
    async fn report(&self, at: usize) -> SSTableError {
        let position = self.position + at as u64;
        let stream = DataStream::sequential(self.file.clone(), position);
        let mut source = RowSource::new(stream, self.decoder.clone());
        let reported = if !self.is_inside {
            source.read_header().await.map(drop)
        } else {
            match source.head().await {
                Ok(Some(head)) => source.take(head).await.map(drop),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            }
        };
        match reported {
            Err(error) => error,
            Ok(()) => self.file.corrupt(position, "a row or marker that cannot be stepped over"),
        }
    }
}
