//! The partitions of several SSTables in order. Memory: of each file a piece of Data.db and a row; how large the pieces may be together is
//! said by who begins, but for 64 KiB each.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::{ClusteringSlices, DecoratedKey, KeyRange};
use espalier_sstable::{ColumnSelection, Scan, WHOLE_READ_AHEAD_BYTES};

use crate::{StorageError, read::Source, table::SSTable};

/// Bytes of Data.db that are read at once, of each file at least.
const LEAST_READ_AHEAD_BYTES: usize = 64 << 10;

/// Scans that walk side by side, around the page cache.
pub(crate) struct MergedScans {
    scans: Vec<Scan>,
    /// Those that stand at the least partition, in order; before the first one, all.
    current: Vec<usize>,
    /// Those that stand at others, the greatest key first. Their keys lie in the scans: a heap would have to own copies.
    behind: Vec<usize>,
    /// Bytes of Data.db before compression that are behind in all but those that stand at the least.
    passed_bytes: u64,
}

impl MergedScans {
    /// `read_ahead_bytes`: of Data.db, that are read at once of all files together.
    pub(crate) async fn new(
        inputs: &[Rc<SSTable>],
        range: &KeyRange,
        read_ahead_bytes: usize,
    ) -> Result<Self, StorageError> {
        let all = Arc::new(ClusteringSlices::all());
        let (scans, current, behind) = (Vec::new(), Vec::new(), Vec::new());
        let mut merged = Self { scans, current, behind, passed_bytes: 0 };
        let at_once = (read_ahead_bytes / inputs.len().max(1))
            .clamp(LEAST_READ_AHEAD_BYTES, WHOLE_READ_AHEAD_BYTES);
        for input in inputs {
            let reader = input.reader();
            let mut scan = reader.scan(range.clone(), all.clone(), &ColumnSelection::All).await?;
            scan.expect_all(at_once);
            merged.current.push(merged.scans.len());
            merged.scans.push(scan);
        }
        Ok(merged)
    }

    /// Goes to the next partition. False behind the last one.
    pub(crate) async fn next_partition(&mut self) -> Result<bool, StorageError> {
        for index in &self.current {
            let scan = &mut self.scans[*index];
            if !scan.next_at_hand() {
                scan.next_partition().await?;
            }
        }
        let Self { scans, current, behind, passed_bytes } = self;
        let key = |index: usize| scans.get(index)?.header().map(|header| &header.key);
        for index in current.drain(..) {
            *passed_bytes += position_in(scans, index);
            if let Some(its) = key(index) {
                let place = behind.partition_point(|other| key(*other) > Some(its));
                behind.insert(place, index);
            }
        }
        let least = behind.last().and_then(|index| key(*index));
        while let Some(index) = behind.pop_if(|index| key(*index) == least) {
            *passed_bytes -= position_in(scans, index);
            current.push(index);
        }
        current.sort_unstable();
        Ok(!current.is_empty())
    }

    /// The key of the partition.
    pub(crate) fn key(&self) -> Option<&DecoratedKey> {
        let scan = self.scans.get(*self.current.first()?)?;
        scan.header().map(|header| &header.key)
    }

    /// Goes to the partition that begins at `position` of Data.db, behind the one given last, where there is only one file.
    pub(super) async fn go_to(&mut self, position: u64) -> Result<bool, StorageError> {
        if let [scan] = self.scans.as_mut_slice() {
            scan.go_to(position);
        }
        self.next_partition().await
    }

    /// The scans that stand at the partition.
    pub(super) fn standing(&mut self) -> impl Iterator<Item = &mut Scan> {
        let mut rest = self.scans.as_mut_slice();
        let mut first = 0;
        self.current.iter().filter_map(move |index| {
            let (before, behind) =
                std::mem::take(&mut rest).split_at_mut_checked(index + 1 - first)?;
            (rest, first) = (behind, index + 1);
            before.last_mut()
        })
    }

    /// The streams of the partition.
    pub(crate) fn sources(&mut self) -> Vec<Source<'_>> {
        self.standing().filter_map(|scan| scan.partition().map(Source::Scanned)).collect()
    }

    /// Bytes of Data.db before compression that are behind.
    pub(crate) fn position(&self) -> u64 {
        let current = self.current.iter().map(|index| position_in(&self.scans, *index));
        self.passed_bytes + current.sum::<u64>()
    }
}

fn position_in(scans: &[Scan], index: usize) -> u64 {
    scans.get(index).map_or(0, Scan::position)
}
