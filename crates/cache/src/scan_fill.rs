//! Adds to the cache the partitions that a scan of the files reads, and marks the range between two
//! of them as continuous (rule 15 of docs/cache.md).
//!
//! Only scans of small tables add partitions. A scan of a large table would evict entries that are
//! read more often (rule 16).

use std::{cell::Cell, rc::Rc, sync::Arc};

use espalier_mutation::{
    ClusteringBound, DecoratedKey, DeletionTime, Direction, KeyRange, PartitionHeader, Row,
    Unfiltered, UnfilteredStream, path, reconcile::MergedPartition, schema::TableMetadata,
};

use espalier_sstable::SSTable;

use crate::{
    CacheAccess, TableCache,
    partitions::is_empty,
    place::{FIRST, LAST},
    populate::Filler,
    single_row::only_row_of,
};

/// Scans keep only tables whose files hold at most 1/16 of the memory that rows may take
/// (arbitrary).
const SCANNED_PART: usize = 16;
/// Scans may keep at least this many bytes in a cache of any size, which saves reading four pages.
const MIN_SCANNED_BYTES: usize = 16 << 10;
/// Estimates of the memory that rows and partitions need besides their bytes in the files.
const ROW_BYTES: u64 = 64;
const PARTITION_BYTES: u64 = 128;

/// Adds the partitions that a scan reads.
pub struct ScanFill {
    access: CacheAccess,
    range: KeyRange,
    /// The path, without the table's number, of the entry up to which the partitions of the scan
    /// are continuous.
    reached: Option<Vec<u8>>,
    /// Bytes that the scan may still add.
    left_bytes: Rc<Cell<usize>>,
}

impl TableCache {
    /// Returns whether scans may add the partitions that they read from these files.
    pub fn may_keep_scanned(&self, sstables: &[Rc<SSTable>]) -> bool {
        let bytes = sstables.iter().map(|sstable| {
            let reader = sstable.reader();
            reader.data_length()
                + reader.statistics().stats.total_rows * ROW_BYTES
                + reader.partition_count() * PARTITION_BYTES
        });
        bytes.sum::<u64>() <= self.scanned_bytes() as u64
    }

    fn scanned_bytes(&self) -> usize {
        (self.cache.0.borrow().memory.limit_bytes / SCANNED_PART).max(MIN_SCANNED_BYTES)
    }
}

impl ScanFill {
    /// Prepares a scan of whole partitions of a range, in ascending order. Returns `None` if the
    /// scan adds nothing. Callers do not call it for scans of parts of partitions, which would add
    /// little.
    pub fn new(access: &CacheAccess, range: &KeyRange) -> Option<Self> {
        if !access.may_add() || is_empty(range) {
            return None;
        }
        let left_bytes = Rc::new(Cell::new(access.cache.scanned_bytes()));
        let reached = access.cache.reach(access.ticket.number, &range.start);
        Some(Self { access: access.clone(), range: range.clone(), reached, left_bytes })
    }

    /// Merges the streams that the files have of the next partition into one stream, which adds to
    /// the cache the fragments that it returns. If the scan adds nothing any more, returns the
    /// streams as they are.
    ///
    /// # Errors
    ///
    /// Returns the errors of the streams.
    pub async fn fill<S: UnfilteredStream>(
        &mut self,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        scanned: Vec<S>,
    ) -> Result<ScannedSources<S>, S::Error> {
        if !self.access.may_add() || self.left_bytes.get() == 0 {
            self.reached = None;
            return Ok(ScannedSources::Unmerged(scanned));
        }
        let cache = self.access.cache.clone();
        let mut prefix = Vec::new();
        cache.put_partition(self.access.ticket.number, key.borrowed(), &mut prefix);
        if cache.format().is_single_row {
            let row = only_row_of(scanned, table, Direction::Forward).await?;
            // The merge may have yielded, so the ticket may have become invalid.
            if self.access.may_add() {
                take(&self.left_bytes, cache.add_single_row(key.borrowed(), row.as_ref()));
                prefix.push(path::FIRST_ROW);
                self.link(&prefix).await;
            }
            cache.count(|metrics| {
                metrics.reads_with_misses += 1;
                metrics.row_misses += u64::from(row.is_some());
            });
            return Ok(ScannedSources::Row(row));
        }
        let merged = MergedPartition::new(table.clone(), Direction::Forward, scanned).await?;
        let Some(stream) = merged else { return Ok(ScannedSources::Unmerged(Vec::new())) };
        if self.access.may_add() {
            cache.add_header(&prefix, Some(stream.header()));
            take(&self.left_bytes, PARTITION_BYTES as usize);
            self.link(&prefix).await;
        }
        Ok(ScannedSources::Filled(Box::new(FilledPartition {
            stream,
            access: self.access.clone(),
            table: table.clone(),
            prefix,
            at: FIRST.to_vec(),
            open: DeletionTime::LIVE,
            is_learning: true,
            left_bytes: self.left_bytes.clone(),
            rows: 0,
        })))
    }

    /// Records that the files have nothing between the last partition and this entry, if the entry
    /// is there.
    async fn link(&mut self, entry: &[u8]) {
        let entry = entry.get(super::partitions::NUMBER_BYTES..).unwrap_or_default();
        if let Some(reached) = &self.reached {
            self.access.learn_partitions(reached, entry).await;
        }
        self.reached = Some(entry.to_vec());
    }

    /// Records that the files have nothing more in the range.
    pub async fn end(&mut self) {
        let number = self.access.ticket.number;
        if let Some(reached) = self.reached.take().filter(|_| self.access.may_add()) {
            let cache = &self.access.cache.cache;
            let fence = cache.0.borrow_mut().put_fence(number, &self.range.end, true);
            if let Some(fence) = fence {
                self.access.learn_partitions(&reached, &fence).await;
            }
        }
    }
}

fn take(left_bytes: &Cell<usize>, bytes: usize) {
    left_bytes.set(left_bytes.get().saturating_sub(bytes));
}

/// The sources of a partition that a scan has reached.
pub enum ScannedSources<S> {
    /// The streams of the files, if the scan adds nothing any more; none if the files have nothing
    /// of the partition.
    Unmerged(Vec<S>),
    /// The row of a partition that is one row; `None` if the files have none.
    Row(Option<Row>),
    /// The merged partition, which is added as far as it is read.
    Filled(Box<FilledPartition<S>>),
}

/// A partition merged from the scans of several files, which is added as far as it is read.
pub struct FilledPartition<S> {
    stream: MergedPartition<S>,
    access: CacheAccess,
    table: Arc<TableMetadata>,
    prefix: Vec<u8>,
    /// The position up to which all fragments were added.
    at: Vec<u8>,
    /// The deletion in force behind `at`.
    open: DeletionTime,
    is_learning: bool,
    left_bytes: Rc<Cell<usize>>,
    rows: u64,
}

impl<S> FilledPartition<S> {
    async fn learn(&mut self, fragment: Option<&Unfiltered>) {
        self.is_learning = self.access.may_add() && self.left_bytes.get() > 0;
        if !self.is_learning {
            return;
        }
        let comparator = self.table.comparator();
        let filler =
            Filler { access: &self.access, prefix: &self.prefix, direction: Direction::Forward };
        let mut place = Vec::new();
        match fragment {
            Some(Unfiltered::Row(row)) => {
                path::put_row(comparator, &row.clustering.values, &mut place);
                if place < self.at {
                    return;
                }
                let bytes = filler.add_row(&self.at, &place, self.open, row).await;
                take(&self.left_bytes, bytes + ROW_BYTES as usize);
            }
            Some(Unfiltered::Marker(marker)) => {
                path::put_bound(comparator, &marker.position, &mut place);
                let open = marker.deletion_behind(Direction::Forward);
                let open = std::mem::replace(&mut self.open, open);
                if place <= self.at {
                    return;
                }
                filler.add_range(&self.at, &place, open).await;
                take(&self.left_bytes, ROW_BYTES as usize);
            }
            None => {
                filler.add_range(&self.at, LAST, self.open).await;
                self.is_learning = false;
            }
        }
        self.at = place;
    }
}

impl<S: UnfilteredStream> UnfilteredStream for FilledPartition<S> {
    type Error = S::Error;

    fn header(&self) -> &PartitionHeader {
        self.stream.header()
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, S::Error> {
        let fragment = Box::pin(self.stream.next()).await?;
        self.rows += u64::from(matches!(fragment, Some(Unfiltered::Row(_))));
        if self.is_learning {
            self.learn(fragment.as_ref()).await;
        }
        Ok(fragment)
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), S::Error> {
        // Fragments that are skipped are not added, though the stream may still return some of
        // them.
        let mut target = Vec::new();
        path::put_bound(self.table.comparator(), position, &mut target);
        if target > self.at {
            self.at = target;
        }
        Box::pin(self.stream.skip_to(position)).await
    }
}

impl<S> Drop for FilledPartition<S> {
    fn drop(&mut self) {
        let rows = self.rows;
        self.access.cache.count(|metrics| {
            metrics.reads_with_misses += 1;
            metrics.row_misses += rows;
        });
    }
}
