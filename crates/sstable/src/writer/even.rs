//! Even rows, copied from other SSTables without waiting: see [`EvenRow`].

use std::cmp::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;

use super::sstable_writer::SSTableWriter;
use crate::{
    data::decode::EvenRow,
    error::Result,
    index::big::promoted_index::BlockPosition,
    reader::{EvenAhead, EvenRows, Scan},
};

/// Longer values are looked at by those who know which versions have no room for them.
const LONG_VALUE: usize = u16::MAX as usize;

/// How far rows were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenEnd {
    /// To the end of the partition, in all scans.
    Partition,
    /// To something that cannot be copied in this way; perhaps only because it is not in memory.
    Other,
    /// As many as were asked for, or as there was room for: [`SSTableWriter::make_room`] is to follow.
    Full,
}

/// The row before, as far as it was copied here.
#[derive(Default)]
struct Before {
    row: EvenRow,
    bytes: Bytes,
    is_some: bool,
}

impl SSTableWriter {
    /// Copies rows of the partition in which the scans stand, as long as they are even ones of which nobody has to decide anything, but
    /// `most` of them at most. Adds to `copied` how many there were. What was not copied is still ahead in the scans.
    pub fn copy_even(
        &mut self,
        scans: &mut [&mut Scan],
        most: u32,
        copied: &mut u32,
    ) -> Result<EvenEnd> {
        if self.current.as_ref().is_none_or(|current| !current.open_deletion.is_live()) {
            return Ok(EvenEnd::Other);
        }
        let mut sources: SmallVec<[EvenRows<'_>; 4]> = SmallVec::new();
        for scan in scans.iter_mut() {
            match scan.even_rows((self.serial, &self.encoder)) {
                Some(source) => sources.push(source),
                None => return Ok(EvenEnd::Other),
            }
        }
        let mut before = Before::default();
        let end = match sources.as_mut_slice() {
            [] => Ok(EvenEnd::Other),
            [source] => self.copy_from_one(source, most, copied, &mut before),
            sources => self.copy_from_several(sources, most, copied, &mut before),
        };
        if before.is_some
            && let Some(current) = &mut self.current
        {
            BlockPosition::set_row(&mut current.last, before.row.shared_values(&before.bytes));
        }
        end
    }

    /// Writes out what is full.
    #[inline]
    pub async fn make_room(&mut self) -> Result<()> {
        self.index.flush_blocks().await?;
        self.data.flush_chunks().await
    }

    fn copy_from_one(
        &mut self,
        source: &mut EvenRows<'_>,
        most: u32,
        copied: &mut u32,
        before: &mut Before,
    ) -> Result<EvenEnd> {
        for _ in 0..most {
            match source.look() {
                EvenAhead::Row if self.data.has_full_chunk() => return Ok(EvenEnd::Full),
                EvenAhead::Row => {}
                EvenAhead::End => return Ok(EvenEnd::Partition),
                EvenAhead::Other => return Ok(EvenEnd::Other),
            }
            let (row, bytes) = source.row();
            if !self.add_even(row, bytes, before)? {
                return Ok(EvenEnd::Other);
            }
            if !before.is_some {
                before.bytes = bytes.clone();
                before.is_some = true;
            }
            source.pass_into(&mut before.row);
            *copied += 1;
        }
        Ok(EvenEnd::Full)
    }

    fn copy_from_several(
        &mut self,
        sources: &mut [EvenRows<'_>],
        most: u32,
        copied: &mut u32,
        before: &mut Before,
    ) -> Result<EvenEnd> {
        let mut ahead: SmallVec<[EvenAhead; 8]> = sources.iter_mut().map(EvenRows::look).collect();
        // Whose bytes the row before lies in.
        let mut before_in = usize::MAX;
        for _ in 0..most {
            if self.data.has_full_chunk() {
                return Ok(EvenEnd::Full);
            }
            if ahead.contains(&EvenAhead::Other) {
                return Ok(EvenEnd::Other);
            }
            let mut standing: SmallVec<[usize; 8]> = SmallVec::new();
            let (mut winner, mut hides_all) = (usize::MAX, true);
            for (index, source) in sources.iter().enumerate() {
                if ahead.get(index) != Some(&EvenAhead::Row) {
                    continue;
                }
                let (row, bytes) = source.row();
                let Some((least, least_bytes)) = sources.get(winner).map(EvenRows::row) else {
                    winner = index;
                    standing.push(index);
                    continue;
                };
                let comparator = self.options.table.comparator();
                match row.compare(bytes, (least, least_bytes), comparator) {
                    Ordering::Greater => continue,
                    Ordering::Less => {
                        standing.clear();
                        (winner, hides_all) = (index, true);
                    }
                    Ordering::Equal if row.hides(least) => winner = index,
                    Ordering::Equal => hides_all &= least.hides(row),
                }
                standing.push(index);
            }
            let Some(source) = sources.get_mut(winner) else { return Ok(EvenEnd::Partition) };
            let (row, bytes) = source.row();
            if !hides_all || !self.add_even(row, bytes, before)? {
                return Ok(EvenEnd::Other);
            }
            if before_in != winner {
                before.bytes = bytes.clone();
                before.is_some = true;
                before_in = winner;
            }
            source.pass_into(&mut before.row);
            for index in standing {
                let (Some(source), Some(ahead)) = (sources.get_mut(index), ahead.get_mut(index))
                else {
                    continue;
                };
                if index != winner {
                    source.pass();
                }
                *ahead = source.look();
            }
            *copied += 1;
        }
        Ok(EvenEnd::Full)
    }

    /// What [`add_plain`](SSTableWriter::add_plain) does of such a row; false if that is to be asked.
    #[inline]
    fn add_even(&mut self, row: &EvenRow, bytes: &Bytes, before: &Before) -> Result<bool> {
        let Some(current) = &self.current else { return Ok(false) };
        let comparator = self.options.table.comparator();
        let order = match (&current.last, before.is_some) {
            (_, true) => row.compare(bytes, (&before.row, &before.bytes), comparator),
            (Some(last), _) => comparator.compare_values(row.values_in(bytes), 0, last.position()),
            (None, _) => Ordering::Greater,
        };
        let is_long = row.clustering.1 - row.clustering.0 > LONG_VALUE;
        // What is out of order is refused by those who say why.
        if order.is_le() || is_long {
            return Ok(false);
        }
        let is_first = current.last.is_none() && !before.is_some;
        self.write_head()?;
        let position = self.data.position();
        let Some(current) = &mut self.current else { return Ok(false) };
        let offset = position - current.start;
        let previous = offset - current.previous_start;
        current.previous_start = offset;
        let length = self.encoder.write_even(row, bytes, previous, self.data.buffer());
        let types = self.encoder.types();
        if self.index.is_between_blocks() {
            self.index.begin_even(types, row, bytes, offset)?;
        }
        if is_first {
            let first: SmallVec<[Option<Bytes>; 4]> = row.shared_values(bytes).collect();
            self.collector.cover_first_row(&first);
        }
        self.collector.add_even_row(row.timestamp, row.cell_count());
        let end = offset + length;
        if self.index.is_block_full(end) {
            self.index.end_even(types, row, bytes, end)?;
        }
        Ok(true)
    }
}
