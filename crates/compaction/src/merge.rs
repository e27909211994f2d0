//! Merges the partitions of several SSTables in order.
//!
//! Memory: each file that spans the current position takes a piece of Data.db and a row. The caller
//! limits the size of all pieces together; each piece has at least 64 KiB. Other files are not
//! open, however many there are.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::{
    ClusteringBound, ClusteringSlices, DecoratedKey, KeyRange, PartitionHeader, Unfiltered,
    UnfilteredStream, schema::TableMetadata,
};
use espalier_runtime::maybe_yield;
use espalier_sstable::{SSTable, SSTableError, Scan, ScannedPartition, WHOLE_READ_AHEAD_BYTES};

use super::strategy::depth;
use crate::CompactionError;

/// Minimum number of bytes of Data.db that are read at once from each file.
const MIN_READ_AHEAD_BYTES: usize = 64 << 10;

/// Scans of several files that advance together, bypassing the page cache.
pub(crate) struct MergedScans {
    /// The version of the table in which rows are read.
    table: Arc<TableMetadata>,
    /// Bytes of Data.db that are read at once from each file.
    at_once_bytes: usize,
    /// Files that the merge has not reached yet, in descending order of the ring.
    ahead: Vec<Rc<SSTable>>,
    /// Scans of the files that were reached; `None` for a file at its end.
    scans: Vec<Option<Scan>>,
    /// Indices of the scans at the least partition, in order.
    current: Vec<usize>,
    /// Indices of the scans at later partitions, greatest key first. The keys stay in the scans; a
    /// heap would have to own copies.
    behind: Vec<usize>,
    /// Bytes of Data.db before compression that were passed in all files, without those of
    /// `current`.
    passed_bytes: u64,
}

impl MergedScans {
    /// Creates the merge. `read_ahead_bytes` is the number of bytes of Data.db that are read at
    /// once from all files together.
    pub(crate) fn new(
        table: &Arc<TableMetadata>,
        inputs: &[Rc<SSTable>],
        read_ahead_bytes: usize,
    ) -> Self {
        let open_at_once = depth(inputs.iter().map(|input| input.tokens())).max(1);
        let at_once_bytes =
            (read_ahead_bytes / open_at_once).clamp(MIN_READ_AHEAD_BYTES, WHOLE_READ_AHEAD_BYTES);
        let mut ahead = inputs.to_vec();
        ahead.sort_by_key(|input| std::cmp::Reverse(input.tokens().0));
        Self {
            table: table.clone(),
            at_once_bytes,
            ahead,
            scans: Vec::new(),
            current: Vec::new(),
            behind: Vec::new(),
            passed_bytes: 0,
        }
    }

    /// Advances to the next partition. Returns false behind the last one.
    pub(crate) async fn next_partition(&mut self) -> Result<bool, CompactionError> {
        loop {
            // Advance the scans at the current partition, or a newly opened scan to its first one.
            // A scan that fails stays in the list.
            for index in &self.current {
                if let Some(scan) = &mut self.scans[*index]
                    && !scan.next_cached()
                {
                    scan.next_partition().await?;
                }
            }
            for index in self.current.drain(..) {
                self.passed_bytes += position_in(&self.scans, index);
                match key_in(&self.scans, index) {
                    Some(key) => {
                        let is_greater = |other: &usize| key_in(&self.scans, *other) > Some(key);
                        let place = self.behind.partition_point(is_greater);
                        self.behind.insert(place, index);
                    }
                    None => self.scans[index] = None,
                }
            }
            let least = self.behind.last().and_then(|index| key_in(&self.scans, *index));
            let is_reached =
                |file: &mut Rc<SSTable>| least.is_none_or(|least| file.tokens().0 <= least.token.0);
            let Some(file) = self.ahead.pop_if(is_reached) else { break };
            self.open(&file).await?;
        }
        let Self { scans, current, behind, passed_bytes, .. } = self;
        let least = behind.last().and_then(|index| key_in(scans, *index));
        while let Some(index) = behind.pop_if(|index| key_in(scans, *index) == least) {
            *passed_bytes -= position_in(scans, index);
            current.push(index);
        }
        current.sort_unstable();
        Ok(!current.is_empty())
    }

    /// Opens a file; the new scan is in front of the file's first partition.
    async fn open(&mut self, file: &SSTable) -> Result<(), CompactionError> {
        let all = Arc::new(ClusteringSlices::all());
        let scan = file.reader().scan_as(&self.table, KeyRange::full(), all);
        let mut scan = scan.await?;
        scan.expect_all(self.at_once_bytes);
        self.current.push(self.scans.len());
        self.scans.push(Some(scan));
        Ok(())
    }

    /// Returns the key of the current partition.
    pub(crate) fn key(&self) -> Option<&DecoratedKey> {
        key_in(&self.scans, *self.current.first()?)
    }

    /// Moves to the partition that begins at `position` of Data.db, behind the current one. The
    /// merge must have only one file. Returns false if the file has no partition there.
    pub(super) async fn go_to(&mut self, position: u64) -> Result<bool, CompactionError> {
        if self.scans.is_empty()
            && let Some(file) = self.ahead.pop()
        {
            self.open(&file).await?;
        }
        if let [Some(scan)] = self.scans.as_mut_slice() {
            scan.go_to(position);
        }
        self.next_partition().await
    }

    /// Returns the scans at the current partition.
    pub(super) fn standing(&mut self) -> impl Iterator<Item = &mut Scan> {
        let mut rest = self.scans.as_mut_slice();
        let mut first = 0;
        self.current.iter().filter_map(move |index| {
            let (before, behind) =
                std::mem::take(&mut rest).split_at_mut_checked(index + 1 - first)?;
            (rest, first) = (behind, index + 1);
            before.last_mut()?.as_mut()
        })
    }

    /// Returns the streams of the current partition.
    pub(crate) fn sources(&mut self) -> Vec<InputPartition<'_>> {
        self.standing().filter_map(|scan| scan.partition().map(InputPartition)).collect()
    }

    /// Returns the bytes of Data.db before compression that were passed.
    pub(crate) fn position(&self) -> u64 {
        let current = self.current.iter().map(|index| position_in(&self.scans, *index));
        self.passed_bytes + current.sum::<u64>()
    }
}

fn scan_in(scans: &[Option<Scan>], index: usize) -> Option<&Scan> {
    scans.get(index)?.as_ref()
}

fn key_in(scans: &[Option<Scan>], index: usize) -> Option<&DecoratedKey> {
    scan_in(scans, index)?.header().map(|header| &header.key)
}

fn position_in(scans: &[Option<Scan>], index: usize) -> u64 {
    scan_in(scans, index).map_or(0, Scan::position)
}

/// The current partition of one input.
pub(crate) struct InputPartition<'scan>(ScannedPartition<'scan>);

impl UnfilteredStream for InputPartition<'_> {
    type Error = SSTableError;

    fn header(&self) -> &PartitionHeader {
        self.0.header()
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        // The yield is here, not behind the merge, because the merge may drop many fragments before
        // it returns one.
        maybe_yield().await;
        self.0.next().await
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), SSTableError> {
        self.0.skip_to(position).await
    }

    fn empty_until(&self) -> Option<ClusteringBound> {
        self.0.empty_until()
    }

    fn maximum_timestamp(&self) -> i64 {
        self.0.maximum_timestamp()
    }
}
