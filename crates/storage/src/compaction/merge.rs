//! The partitions of several SSTables in order. Memory: of each file a piece of Data.db of 1 MiB and a row.

use std::{cmp::Reverse, collections::BinaryHeap, rc::Rc, sync::Arc};

use espalier_mutation::{ClusteringSlices, DecoratedKey, KeyRange};
use espalier_sstable::{ColumnSelection, Scan};

use crate::{StorageError, read::Source, table::SSTable};

/// Scans that walk side by side, around the page cache.
pub(crate) struct MergedScans {
    scans: Vec<Scan>,
    heads: BinaryHeap<Reverse<(DecoratedKey, usize)>>,
    /// Scans that stand at the partition given last.
    current: Vec<usize>,
}

impl MergedScans {
    pub(crate) async fn new(
        inputs: &[Rc<SSTable>],
        range: &KeyRange,
    ) -> Result<Self, StorageError> {
        let all = Arc::new(ClusteringSlices::all());
        let mut merged = Self { scans: Vec::new(), heads: BinaryHeap::new(), current: Vec::new() };
        for input in inputs {
            let reader = input.reader();
            let mut scan = reader.scan(range.clone(), all.clone(), &ColumnSelection::All).await?;
            scan.expect_all();
            merged.current.push(merged.scans.len());
            merged.scans.push(scan);
        }
        Ok(merged)
    }

    /// Goes to the next partition.
    pub(crate) async fn next_partition(&mut self) -> Result<Option<DecoratedKey>, StorageError> {
        let standing = self.current.len();
        for at in 0..standing {
            let index = self.current[at];
            let scan = &mut self.scans[index];
            if !scan.next_at_hand() && scan.next_partition().await?.is_none() {
                continue;
            }
            let Some(header) = scan.header() else { continue };
            let comes_first = |next: &Reverse<(DecoratedKey, usize)>| header.key < next.0.0;
            // Where one file has several partitions before those of the others.
            if standing == 1 && self.heads.peek().is_none_or(comes_first) {
                return Ok(Some(header.key.clone()));
            }
            self.heads.push(Reverse((header.key.clone(), index)));
        }
        self.current.clear();
        let Some(Reverse((key, first))) = self.heads.pop() else { return Ok(None) };
        self.current.push(first);
        while let Some(Reverse((next, _))) = self.heads.peek()
            && *next == key
            && let Some(Reverse((_, index))) = self.heads.pop()
        {
            self.current.push(index);
        }
        self.current.sort_unstable();
        Ok(Some(key))
    }

    /// Goes to the partition that begins at `position` of Data.db, behind the one given last, where there is only one file.
    pub(super) async fn go_to(
        &mut self,
        position: u64,
    ) -> Result<Option<DecoratedKey>, StorageError> {
        if let [scan] = self.scans.as_mut_slice() {
            scan.go_to(position);
        }
        self.next_partition().await
    }

    /// The scans that stand at the partition.
    pub(super) fn standing(&mut self) -> impl Iterator<Item = &mut Scan> {
        let Self { scans, current, .. } = self;
        let scans = scans.iter_mut().enumerate();
        scans.filter(|(index, _)| current.binary_search(index).is_ok()).map(|(_, scan)| scan)
    }

    /// The streams of the partition.
    pub(crate) fn sources(&mut self) -> Vec<Source<'_>> {
        self.standing().filter_map(|scan| scan.partition().map(Source::Scanned)).collect()
    }

    /// Bytes of Data.db before compression that are behind.
    pub(crate) fn position(&self) -> u64 {
        self.scans.iter().map(Scan::position).sum()
    }
}
