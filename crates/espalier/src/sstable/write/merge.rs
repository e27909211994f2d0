//! Merges entries into the order of an SSTable. The entries come from memory, or from sorted runs.
//! A heap finds the run with the least entry.
//!
//! Memory bound of a merge: a row and the next piece of Data.db for each run.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use espalier_mutation::reconcile::merge_rows_into;
use espalier_mutation::schema::TableMetadata;
use espalier_mutation::{
    ClusteringComparator, ColumnData, DecoratedKey, DeletionTime, Liveness, PartitionHeader, Row,
    Unfiltered, UnfilteredStream,
};
use espalier_sstable::{SSTableWriter, Scan};

use crate::sstable::{ToolError, interrupt::Interrupt};

/// A row or static row with its partition key.
pub struct Entry {
    pub key: DecoratedKey,
    pub is_static: bool,
    pub row: Row,
}

/// The order of entries: by key; for one key, the static row first, then the rows by clustering.
#[derive(Clone, Copy)]
pub struct EntryOrder<'a>(pub &'a ClusteringComparator);

impl EntryOrder<'_> {
    /// Compares two entries. Equal entries belong to the same row.
    pub fn compare(self, left: &Entry, right: &Entry) -> Ordering {
        let places = || (left.row.clustering.position(), right.row.clustering.position());
        left.key.cmp(&right.key).then_with(|| right.is_static.cmp(&left.is_static)).then_with(
            || {
                let (left, right) = places();
                self.0.compare(left, right)
            },
        )
    }
}

/// A stream of entries in order. Entries of the same row are adjacent.
pub trait SortedEntries {
    async fn next(&mut self) -> Result<Option<Entry>, ToolError>;
}

impl SortedEntries for std::vec::IntoIter<Entry> {
    async fn next(&mut self) -> Result<Option<Entry>, ToolError> {
        Ok(Iterator::next(self))
    }
}

/// Merges the entries of all runs.
pub struct RunMerge<'a> {
    runs: Vec<Scan>,
    heads: BinaryHeap<Head<'a>>,
}

struct Head<'a> {
    order: EntryOrder<'a>,
    entry: Entry,
    run: usize,
}

impl<'a> RunMerge<'a> {
    /// Reads the first entry of each run.
    ///
    /// # Errors
    /// Fails if a run cannot be read.
    pub async fn new(order: EntryOrder<'a>, mut runs: Vec<Scan>) -> Result<Self, ToolError> {
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (run, scan) in runs.iter_mut().enumerate() {
            if let Some(entry) = next_of_run(scan).await? {
                heads.push(Head { order, entry, run });
            }
        }
        Ok(Self { runs, heads })
    }
}

impl SortedEntries for RunMerge<'_> {
    async fn next(&mut self) -> Result<Option<Entry>, ToolError> {
        let Some(mut least) = self.heads.peek_mut() else { return Ok(None) };
        let Some(scan) = self.runs.get_mut(least.run) else { return Ok(None) };
        match next_of_run(scan).await? {
            Some(following) => Ok(Some(std::mem::replace(&mut least.entry, following))),
            None => Ok(Some(PeekMut::pop(least).entry)),
        }
    }
}

async fn next_of_run(scan: &mut Scan) -> Result<Option<Entry>, ToolError> {
    loop {
        if let Some(mut partition) = scan.partition() {
            match partition.next().await? {
                Some(Unfiltered::Row(row)) => {
                    let key = partition.header().key.clone();
                    return Ok(Some(Entry { key, is_static: false, row }));
                }
                // Input rows never delete ranges.
                Some(Unfiltered::Marker(_)) => continue,
                None => {}
            }
        }
        let Some(partition) = scan.next_partition().await? else { return Ok(None) };
        let header = partition.header();
        if let Some(row) = header.static_row.as_ref().filter(|row| !row.is_empty()) {
            let (key, row) = (header.key.clone(), row.clone());
            return Ok(Some(Entry { key, is_static: true, row }));
        }
    }
}

// The heap pops its greatest element, so the least entry is the greatest head.
impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(&other.entry, &self.entry).then(other.run.cmp(&self.run))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}

/// Numbers of rows by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows with clustering values, or rows of tables without clustering columns.
    pub plain: u64,
    /// Static rows, at most one for each partition.
    pub statics: u64,
}

impl RowCounts {
    /// Counts one row.
    pub fn add(&mut self, is_static: bool) {
        if is_static { self.statics += 1 } else { self.plain += 1 }
    }

    /// Returns the number of all rows.
    pub fn total(&self) -> u64 {
        self.plain + self.statics
    }
}

/// Removes the data of `row` that `later`, a later row of the input, replaces. All rows without a
/// timestamp in the input get the timestamp `undated`, in µs, and the later of them wins, as the
/// later of two INSERTs does. If one of the two rows has a timestamp in the input, nothing is
/// removed, because CQL's reconciliation decides between such rows.
fn remove_replaced(row: &mut Row, later: &Row, undated: i64) {
    if later.liveness.timestamp == undated && row.liveness.timestamp == undated {
        row.liveness = Liveness::NONE;
    }
    row.columns.retain_mut(|(id, data)| match (data, later.column(*id)) {
        (ColumnData::Simple(cell), Some(ColumnData::Simple(later))) => {
            cell.timestamp != undated || later.timestamp != undated
        }
        (ColumnData::Complex(column), Some(ColumnData::Complex(later))) => {
            if later.deletion.marked_for_delete_at == undated.saturating_sub(1) {
                column.cells.retain(|(_, cell)| cell.timestamp != undated);
            }
            true
        }
        _ => true,
    });
}

/// Writes all entries, and merges entries of the same row. Returns the number of written rows.
/// [`remove_replaced`] explains `undated`, which is `None` if the command line has a timestamp for
/// rows without one.
///
/// # Errors
/// Fails if an entry cannot be read or written, or after a signal.
pub async fn write_entries(
    writer: &mut SSTableWriter,
    table: &TableMetadata,
    undated: Option<i64>,
    mut entries: impl SortedEntries,
    interrupt: &Interrupt,
    mut watch: impl FnMut(&SSTableWriter),
) -> Result<RowCounts, ToolError> {
    let mut counts = RowCounts::default();
    let order = EntryOrder(table.comparator());
    let mut current: Option<DecoratedKey> = None;
    let mut waiting = entries.next().await?;
    while let Some(mut entry) = waiting {
        waiting = entries.next().await?;
        while let Some(same) = waiting.take_if(|next| order.compare(&entry, next).is_eq()) {
            if let Some(undated) = undated {
                remove_replaced(&mut entry.row, &same.row, undated);
            }
            merge_rows_into(table, &mut entry.row, same.row);
            waiting = entries.next().await?;
        }
        interrupt.check()?;
        watch(writer);
        let Entry { key, is_static, row } = entry;
        counts.add(is_static);
        let is_first = current.as_ref() != Some(&key);
        if is_first {
            if current.is_some() {
                writer.end_partition().await?;
            }
            let static_row = is_static.then(|| row.clone());
            let deletion = DeletionTime::LIVE;
            writer.start_partition(PartitionHeader { key: key.clone(), deletion, static_row })?;
            current = Some(key);
        }
        if !is_static {
            writer.add(Unfiltered::Row(row)).await?;
        }
    }
    if current.is_some() {
        writer.end_partition().await?;
    }
    Ok(counts)
}
