//! This module copies uniform rows from other SSTables without waiting: see [`UniformRow`].

use std::cmp::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{index::IndexWriter, partition::OpenPartition, sstable_writer::SSTableWriter};
use crate::{
    data::{
        decode::{UniformOrder, UniformRow, UniformStep},
        encode::RowEncoder,
    },
    error::Result,
    index::big::promoted_index::BlockPosition,
    reader::{Scan, UniformRows},
    statistics::collector::UniformCounts,
};

/// Maximum length of a clustering in bytes for the fast copy. The general path handles longer
/// clusterings, because it checks whether the version can hold them.
const LONG_VALUE: usize = u16::MAX as usize;

/// Maximum number of sources. A set of sources is held in the bits of a `u64`.
const MAX_SOURCES: usize = 64;

/// The reason why a copy of rows ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniformEnd {
    /// All scans reached the end of the partition.
    Partition,
    /// The next item cannot be copied in this way, perhaps only because it is not in memory.
    Other,
    /// The requested number of rows was copied, or the chunk is full. The caller must call
    /// [`SSTableWriter::make_room`] next.
    Full,
}

/// The rows copied by one call.
struct Taken {
    /// The source of the last copied row.
    from: Option<usize>,
    counts: UniformCounts,
}

/// The rows at the minimum position.
struct Least {
    /// The source of the row that hides all others.
    winner: usize,
    /// A set of the sources with a row at this position, one bit for each.
    standing: u64,
}

impl SSTableWriter {
    /// Copies up to `most` rows of the partition at which the scans stand. At each position, one
    /// row must hide the rows of all other scans. The copy ends at the first row that is not
    /// uniform, or at the first position where no row hides all others. Adds the number of copied
    /// rows to `copied`. The scans still stand before the rows that were not copied.
    ///
    /// # Errors
    /// Returns [`SSTableError::Rejected`](crate::error::SSTableError::Rejected) if the version
    /// cannot hold the partition's head or a block.
    pub fn copy_uniform(
        &mut self,
        scans: &mut [&mut Scan],
        most: u32,
        copied: &mut u32,
    ) -> Result<UniformEnd> {
        if self.current.as_ref().is_none_or(|current| !current.open_deletion.is_live()) {
            return Ok(UniformEnd::Other);
        }
        let mut sources: SmallVec<[UniformRows<'_>; 4]> = SmallVec::new();
        for scan in scans.iter_mut() {
            match scan.uniform_rows((self.serial, &self.encoder)) {
                Some(source) => sources.push(source),
                None => return Ok(UniformEnd::Other),
            }
        }
        let mut taken = Taken { from: None, counts: UniformCounts::NONE };
        let end = match sources.as_mut_slice() {
            [] => Ok(UniformEnd::Other),
            [source] => self.copy_from_one(source, most, &mut taken),
            many if many.len() > MAX_SOURCES => Ok(UniformEnd::Other),
            sources => self.copy_from_several(sources, most, &mut taken),
        };
        *copied += taken.counts.rows();
        self.collector.add_uniform_rows(&taken.counts);
        if let Some(source) = taken.from.and_then(|from| sources.get(from))
            && let Some(current) = &mut self.current
        {
            if current.last.is_none() {
                current.last = self.spare_position.take();
            }
            let place = source.taken().place(source.bytes(), self.encoder.forms());
            BlockPosition::set_row(&mut current.last, place.shared_values());
        }
        sources.iter_mut().for_each(UniformRows::settle);
        end
    }

    /// Writes out the full buffers.
    ///
    /// # Errors
    /// Returns an I/O error if a write fails.
    #[inline]
    pub async fn make_room(&mut self) -> Result<()> {
        if self.index.is_large() {
            self.index.flush_if_large().await?;
        }
        self.data.flush_chunks().await
    }

    fn copy_from_one(
        &mut self,
        source: &mut UniformRows<'_>,
        most: u32,
        taken: &mut Taken,
    ) -> Result<UniformEnd> {
        match source.look() {
            Some(UniformStep::Row) => self.before_rows(source)?,
            Some(UniformStep::End) => return Ok(UniformEnd::Partition),
            None => return Ok(UniformEnd::Other),
        }
        let Some(mut run) = Run::new(self) else { return Ok(UniformEnd::Other) };
        for _ in 0..most {
            if run.has_full_chunk() {
                return Ok(UniformEnd::Full);
            }
            let before = taken.from.map(|_| (source.taken(), source.bytes()));
            if !run.add(source.row(), source.bytes(), before)? {
                return Ok(UniformEnd::Other);
            }
            taken.from = Some(0);
            taken.counts.add(source.row().timestamp, source.row().cells);
            source.take();
            match source.look() {
                Some(UniformStep::Row) => {}
                Some(UniformStep::End) => return Ok(UniformEnd::Partition),
                None => return Ok(UniformEnd::Other),
            }
        }
        Ok(UniformEnd::Full)
    }

    fn copy_from_several(
        &mut self,
        sources: &mut [UniformRows<'_>],
        most: u32,
        taken: &mut Taken,
    ) -> Result<UniformEnd> {
        // A set of the sources with a row, one bit for each.
        let mut ahead = 0u64;
        for (index, source) in sources.iter_mut().enumerate() {
            match source.look() {
                Some(UniformStep::Row) => ahead |= 1 << index,
                Some(UniformStep::End) => {}
                None => return Ok(UniformEnd::Other),
            }
        }
        if ahead == 0 {
            return Ok(UniformEnd::Partition);
        }
        let comparator = self.options.table.comparator();
        let mut least = least(sources, ahead, self.encoder.uniform_order(comparator));
        match least.as_ref().and_then(|least| sources.get(least.winner)) {
            Some(source) => self.before_rows(source)?,
            None => return Ok(UniformEnd::Other),
        }
        let Some(mut run) = Run::new(self) else { return Ok(UniformEnd::Other) };
        for _ in 0..most {
            if run.has_full_chunk() {
                return Ok(UniformEnd::Full);
            }
            let Some(Least { winner, mut standing }) = least else { return Ok(UniformEnd::Other) };
            let before = taken.from.and_then(|from| sources.get(from));
            let before = before.map(|before| (before.taken(), before.bytes()));
            let Some(source) = sources.get(winner) else { return Ok(UniformEnd::Other) };
            if !run.add(source.row(), source.bytes(), before)? {
                return Ok(UniformEnd::Other);
            }
            taken.from = Some(winner);
            taken.counts.add(source.row().timestamp, source.row().cells);
            let mut is_other = false;
            while standing != 0 {
                let index = standing.trailing_zeros() as usize;
                standing &= standing - 1;
                let Some(source) = sources.get_mut(index) else { continue };
                if index == winner {
                    source.take()
                } else {
                    source.pass()
                }
                match source.look() {
                    Some(UniformStep::Row) => {}
                    Some(UniformStep::End) => ahead &= !(1 << index),
                    None => is_other = true,
                }
            }
            if is_other {
                return Ok(UniformEnd::Other);
            }
            if ahead == 0 {
                return Ok(UniformEnd::Partition);
            }
            least = self::least(sources, ahead, run.order);
        }
        Ok(UniformEnd::Full)
    }

    /// Prepares for a copy of rows that begins with the current row of this source.
    #[inline]
    fn before_rows(&mut self, source: &UniformRows<'_>) -> Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        if current.last.is_none() {
            let place = source.row().place(source.bytes(), self.encoder.forms());
            self.collector.cover_first_uniform(place.values(), || place.shared_values().collect());
        }
        if current.has_head { Ok(()) } else { self.write_head() }
    }
}

/// Finds the rows at the minimum position of the sources in the set. Returns `None` if none of them
/// hides all others.
#[inline]
fn least(sources: &[UniformRows<'_>], mut set: u64, order: UniformOrder<'_>) -> Option<Least> {
    let winner = set.trailing_zeros() as usize;
    let mut least = Least { winner, standing: 1 << winner };
    let mut hides_all = true;
    set &= set - 1;
    while set != 0 {
        let index = set.trailing_zeros() as usize;
        set &= set - 1;
        let (source, so_far) = (sources.get(index)?, sources.get(least.winner)?);
        let (row, other) = (source.row(), so_far.row());
        match row.compare(source.bytes(), (other, so_far.bytes()), order) {
            Ordering::Greater => {}
            Ordering::Less => {
                least = Least { winner: index, standing: 1 << index };
                hides_all = true;
            }
            Ordering::Equal => {
                least.standing |= 1 << index;
                if row.hides(other) { least.winner = index } else { hides_all &= other.hides(row) }
            }
        }
    }
    hides_all.then_some(least)
}

/// A writer of consecutive rows, with the parts of the SSTable writer that it needs.
struct Run<'w> {
    order: UniformOrder<'w>,
    encoder: &'w RowEncoder,
    index: &'w mut IndexWriter,
    out: &'w mut Vec<u8>,
    /// Offset in the partition at which `out` begins. It wraps, because the partition may begin
    /// within `out`.
    out_start: u64,
    chunk_length: usize,
    previous_start: &'w mut u64,
    /// Position of the row or marker before the first row.
    last: Option<&'w BlockPosition>,
}

impl<'w> Run<'w> {
    fn new(writer: &'w mut SSTableWriter) -> Option<Self> {
        let SSTableWriter { options, encoder, index, data, current, .. } = writer;
        let OpenPartition { start, previous_start, last, .. } = current.as_mut()?;
        let (out_start, chunk_length, out) = data.open_chunk();
        Some(Self {
            order: encoder.uniform_order(options.table.comparator()),
            encoder,
            index,
            out,
            out_start: out_start.wrapping_sub(*start),
            chunk_length,
            previous_start,
            last: last.as_ref(),
        })
    }

    #[inline]
    fn has_full_chunk(&self) -> bool {
        self.out.len() >= self.chunk_length
    }

    /// Writes a row as [`add_raw`](SSTableWriter::add_raw) does, without its statistics and its
    /// position. Returns false if the caller must use `add_raw` instead. `before` is the previous
    /// row, if this run has written it.
    #[inline]
    fn add(
        &mut self,
        row: &UniformRow,
        bytes: &Bytes,
        before: Option<(&UniformRow, &Bytes)>,
    ) -> Result<bool> {
        let place = row.place(bytes, self.order.forms);
        let order = match (before, self.last) {
            (Some(before), _) => row.compare(bytes, before, self.order),
            (None, Some(last)) => {
                self.order.comparator.compare_values(place.values(), 0, last.position())
            }
            (None, None) => Ordering::Greater,
        };
        // The general path rejects a row that is out of order, with a reason.
        if order.is_le() || place.length() > LONG_VALUE {
            return Ok(false);
        }
        let offset = self.out_start.wrapping_add(self.out.len() as u64);
        let previous = offset - *self.previous_start;
        *self.previous_start = offset;
        let end = offset + self.encoder.write_uniform(row, bytes, previous, self.out);
        let types = self.encoder.types();
        if self.index.is_between_blocks() {
            self.index.begin_uniform(types, &place, offset)?;
        }
        if self.index.is_block_full(end) {
            self.index.end_uniform(types, &place, end)?;
        }
        Ok(true)
    }
}
