//! The partitions of several SSTables in order. Memory: of each file that lies over the place reached a piece of Data.db and a row; how large
//! the pieces may be together is said by who begins, but for 64 KiB each. Of the others nothing is open, however many there are.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::{ClusteringSlices, DecoratedKey, KeyRange, schema::TableMetadata};
use espalier_sstable::{Scan, WHOLE_READ_AHEAD_BYTES};

use super::strategy::depth;
use crate::{StorageError, read::Source, table::SSTable};

/// Bytes of Data.db that are read at once, of each file at least.
const LEAST_READ_AHEAD_BYTES: usize = 64 << 10;

/// Scans that walk side by side, around the page cache.
pub(crate) struct MergedScans {
    /// The table that rows are read as.
    table: Arc<TableMetadata>,
    range: KeyRange,
    /// Bytes of Data.db that are read at once of each file.
    at_once_bytes: usize,
    /// Files whose first partition is not reached, the last one in the order of the ring first.
    ahead: Vec<Rc<SSTable>>,
    /// Those that were reached; nothing of one that is at its end.
    scans: Vec<Option<Scan>>,
    /// Those that stand at the least partition, in order.
    current: Vec<usize>,
    /// Those that stand at others, the greatest key first. Their keys lie in the scans: a heap would have to own copies.
    behind: Vec<usize>,
    /// Bytes of Data.db before compression that are behind in all but those that stand at the least.
    passed_bytes: u64,
}

impl MergedScans {
    /// `read_ahead_bytes`: of Data.db, that are read at once of all files together.
    pub(crate) fn new(
        table: &Arc<TableMetadata>,
        inputs: &[Rc<SSTable>],
        range: &KeyRange,
        read_ahead_bytes: usize,
    ) -> Self {
        let open_at_once = depth(inputs.iter().map(|input| input.tokens())).max(1);
        let at_once_bytes =
            (read_ahead_bytes / open_at_once).clamp(LEAST_READ_AHEAD_BYTES, WHOLE_READ_AHEAD_BYTES);
        let mut ahead = inputs.to_vec();
        ahead.sort_by_key(|input| std::cmp::Reverse(input.tokens().0));
        Self {
            table: table.clone(),
            range: range.clone(),
            at_once_bytes,
            ahead,
            scans: Vec::new(),
            current: Vec::new(),
            behind: Vec::new(),
            passed_bytes: 0,
        }
    }

    /// Goes to the next partition. False behind the last one.
    pub(crate) async fn next_partition(&mut self) -> Result<bool, StorageError> {
        loop {
            // All that stand there go on, or one that was opened goes to its first partition. If one fails it is still among them.
            for index in &self.current {
                if let Some(scan) = &mut self.scans[*index]
                    && !scan.next_at_hand()
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

    /// Opens a file, which stands at its beginning then.
    async fn open(&mut self, file: &SSTable) -> Result<(), StorageError> {
        let all = Arc::new(ClusteringSlices::all());
        let scan = file.reader().scan_as(&self.table, self.range.clone(), all);
        let mut scan = scan.await?;
        scan.expect_all(self.at_once_bytes);
        self.current.push(self.scans.len());
        self.scans.push(Some(scan));
        Ok(())
    }

    /// The key of the partition.
    pub(crate) fn key(&self) -> Option<&DecoratedKey> {
        key_in(&self.scans, *self.current.first()?)
    }

    /// Goes to the partition that begins at `position` of Data.db, behind the one given last, where there is only one file.
    pub(super) async fn go_to(&mut self, position: u64) -> Result<bool, StorageError> {
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

    /// The scans that stand at the partition.
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

fn scan_in(scans: &[Option<Scan>], index: usize) -> Option<&Scan> {
    scans.get(index)?.as_ref()
}

fn key_in(scans: &[Option<Scan>], index: usize) -> Option<&DecoratedKey> {
    scan_in(scans, index)?.header().map(|header| &header.key)
}

fn position_in(scans: &[Option<Scan>], index: usize) -> u64 {
    scan_in(scans, index).map_or(0, Scan::position)
}
