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
    statistics::collector::EvenCounts,
};

/// Longer values are looked at by those who know which versions have no room for them.
const LONG_VALUE: usize = u16::MAX as usize;

/// They are the bits of an integer.
const MOST_SOURCES: usize = 64;

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

/// Rows that were copied at a time.
struct Taken {
    /// Where the last of them was.
    from: Option<usize>,
    counts: EvenCounts,
}

/// The rows at one place.
struct Least {
    /// The one that hides all others.
    winner: usize,
    /// A bit for each source that has one.
    standing: u64,
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
        let mut taken = Taken { from: None, counts: EvenCounts::NONE };
        let end = match sources.as_mut_slice() {
            [] => Ok(EvenEnd::Other),
            [source] => self.copy_from_one(source, most, &mut taken),
            many if many.len() > MOST_SOURCES => Ok(EvenEnd::Other),
            sources => self.copy_from_several(sources, most, &mut taken),
        };
        *copied += taken.counts.rows();
        self.collector.add_even_rows(&taken.counts);
        if let Some(source) = taken.from.and_then(|from| sources.get(from))
            && let Some(current) = &mut self.current
        {
            let values = source.taken().shared_values(source.bytes());
            BlockPosition::set_row(&mut current.last, values);
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
        taken: &mut Taken,
    ) -> Result<EvenEnd> {
        for _ in 0..most {
            match source.look() {
                EvenAhead::Row if self.data.has_full_chunk() => return Ok(EvenEnd::Full),
                EvenAhead::Row => {}
                EvenAhead::End => return Ok(EvenEnd::Partition),
                EvenAhead::Other => return Ok(EvenEnd::Other),
            }
            let before = taken.from.map(|_| (source.taken(), source.bytes()));
            if !self.add_even(source.row(), source.bytes(), before)? {
                return Ok(EvenEnd::Other);
            }
            taken.from = Some(0);
            taken.counts.add(source.row().timestamp, source.row().cell_count());
            source.take();
        }
        Ok(EvenEnd::Full)
    }

    fn copy_from_several(
        &mut self,
        sources: &mut [EvenRows<'_>],
        most: u32,
        taken: &mut Taken,
    ) -> Result<EvenEnd> {
        // A bit for each source that has a row.
        let mut ahead = 0u64;
        for (index, source) in sources.iter_mut().enumerate() {
            match source.look() {
                EvenAhead::Row => ahead |= 1 << index,
                EvenAhead::End => {}
                EvenAhead::Other => return Ok(EvenEnd::Other),
            }
        }
        for _ in 0..most {
            if ahead == 0 {
                return Ok(EvenEnd::Partition);
            }
            if self.data.has_full_chunk() {
                return Ok(EvenEnd::Full);
            }
            let Some(Least { winner, mut standing }) = self.least(sources, ahead) else {
                return Ok(EvenEnd::Other);
            };
            let before = taken.from.and_then(|from| sources.get(from));
            let before = before.map(|before| (before.taken(), before.bytes()));
            let Some(source) = sources.get(winner) else { return Ok(EvenEnd::Other) };
            if !self.add_even(source.row(), source.bytes(), before)? {
                return Ok(EvenEnd::Other);
            }
            taken.from = Some(winner);
            taken.counts.add(source.row().timestamp, source.row().cell_count());
            let mut is_other = false;
            while standing != 0 {
                let index = standing.trailing_zeros() as usize;
                standing &= standing - 1;
                let Some(source) = sources.get_mut(index) else { continue };
                match index == winner {
                    true => source.take(),
                    false => source.pass(),
                }
                match source.look() {
                    EvenAhead::Row => {}
                    EvenAhead::End => ahead &= !(1 << index),
                    EvenAhead::Other => is_other = true,
                }
            }
            if is_other {
                return Ok(EvenEnd::Other);
            }
        }
        Ok(EvenEnd::Full)
    }

    /// The rows at the least place of the sources in the set; `None` if none of them hides all others.
    #[inline]
    fn least(&self, sources: &[EvenRows<'_>], mut set: u64) -> Option<Least> {
        let comparator = self.options.table.comparator();
        let winner = set.trailing_zeros() as usize;
        let mut least = Least { winner, standing: 1 << winner };
        let mut hides_all = true;
        set &= set - 1;
        while set != 0 {
            let index = set.trailing_zeros() as usize;
            set &= set - 1;
            let (source, so_far) = (sources.get(index)?, sources.get(least.winner)?);
            let (row, other) = (source.row(), so_far.row());
            match row.compare(source.bytes(), (other, so_far.bytes()), comparator) {
                Ordering::Greater => {}
                Ordering::Less => {
                    least = Least { winner: index, standing: 1 << index };
                    hides_all = true;
                }
                Ordering::Equal => {
                    least.standing |= 1 << index;
                    match row.hides(other) {
                        true => least.winner = index,
                        false => hides_all &= other.hides(row),
                    }
                }
            }
        }
        hides_all.then_some(least)
    }

    /// What [`add_plain`](SSTableWriter::add_plain) does of such a row, but for its statistics and its place; false if that is to be
    /// asked. `before` is the row before, if it was copied in the same way.
    #[inline]
    fn add_even(
        &mut self,
        row: &EvenRow,
        bytes: &Bytes,
        before: Option<(&EvenRow, &Bytes)>,
    ) -> Result<bool> {
        let Some(current) = &self.current else { return Ok(false) };
        let comparator = self.options.table.comparator();
        let order = match (before, &current.last) {
            (Some((before, its_bytes)), _) => row.compare(bytes, (before, its_bytes), comparator),
            (None, Some(last)) => {
                comparator.compare_values(row.values_in(bytes), 0, last.position())
            }
            (None, None) => Ordering::Greater,
        };
        let is_long = row.clustering.1 - row.clustering.0 > LONG_VALUE;
        // What is out of order is refused by those who say why.
        if order.is_le() || is_long {
            return Ok(false);
        }
        if before.is_none() && current.last.is_none() {
            let shared = || row.shared_values(bytes).collect();
            self.collector.cover_first_even(row.values_in(bytes), shared);
        }
        if current.header.is_some() {
            self.write_head()?;
        }
        let position = self.data.position();
        let Some(current) = &mut self.current else { return Ok(false) };
        let offset = position - current.start;
        let previous = offset - current.previous_start;
        current.previous_start = offset;
        let end = offset + self.encoder.write_even(row, bytes, previous, self.data.buffer());
        let types = self.encoder.types();
        if self.index.is_between_blocks() {
            self.index.begin_even(types, row, bytes, offset)?;
        }
        if self.index.is_block_full(end) {
            self.index.end_even(types, row, bytes, end)?;
        }
        Ok(true)
    }
}
