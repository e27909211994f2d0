//! Estimates the part of an SSTable's data that can be purged, from its statistics.
//!
//! The statistics have a histogram of the times at which cells, rows and ranges are deleted or
//! expire, and a histogram of the number of cells in a partition. If the first one counts more
//! times than there are cells, the excess consists of deletions of more than a cell, and of some
//! other times. The estimate subtracts the other times as far as the statistics show their number,
//! because too high an estimate causes useless rewrites of whole files.

use crate::Statistics;

/// An estimate of the data of a file that is old enough at some second to be purged.
#[derive(Debug, PartialEq)]
pub struct Droppable {
    /// Number of all cells and deletions.
    pub cells: u64,
    /// Share of these cells and deletions that is old enough.
    pub ratio: f64,
    /// Minimum number of row deletions. A range deletion counts as one, because the number of rows
    /// that it covers is unknown.
    pub row_deletions: u64,
    /// Number of partition deletions.
    pub partition_deletions: u64,
}

impl Droppable {
    /// Estimates the data older than the second `before_s`.
    pub fn of(statistics: &Statistics, before_s: u32) -> Self {
        let stats = &statistics.stats;
        let bins = &stats.drop_times.bins;
        let old = bins.iter().take_while(|(second, _)| *second < u64::from(before_s));
        let old: u64 = old.map(|(_, count)| u64::from(*count)).sum();
        let cells = cells(statistics);
        let all = cells.max(old);
        let ratio = if all == 0 { 0.0 } else { old as f64 / all as f64 };
        let beyond = old.saturating_sub(cells).saturating_sub(others(statistics));
        let of_rows = beyond.min(stats.total_rows);
        let (row_deletions, partition_deletions) = if stats.has_partition_deletions {
            // The number of range deletions among these deletions is unknown. No partition has two
            // partition deletions.
            (of_rows, (beyond - of_rows).min(stats.cell_counts.total()))
        } else {
            // A range deletion is counted at both ends.
            (of_rows + (beyond - of_rows) / 2, 0)
        };
        Self { cells: all, ratio, row_deletions, partition_deletions }
    }
}

/// Estimates the number of cells. The histogram has one entry for each partition.
fn cells(statistics: &Statistics) -> u64 {
    let stats = &statistics.stats;
    let counts = stats.cell_counts.offsets.iter().zip(&stats.cell_counts.counts);
    // The first bucket holds partitions of one cell and partitions without cells, such as deleted
    // ones.
    let first =
        stats.cell_counts.counts.first().map_or(0, |count| *count.min(&stats.total_columns));
    let rest = counts.skip(1).map(|(cells, partitions)| cells.saturating_mul(*partitions));
    rest.fold(first, u64::saturating_add)
}

/// Returns the maximum number of times that belong to neither a cell nor a deletion of several
/// cells. There are such times because a row itself expires like its cells, and a statement that
/// writes a whole collection first deletes it.
fn others(statistics: &Statistics) -> u64 {
    let header = &statistics.header;
    let columns = header.static_columns.iter().chain(&header.regular_columns);
    let collections = columns.filter(|column| column.column_type.is_multi_cell()).count() as u64;
    let of_a_row = u64::from(statistics.stats.max_ttl > 0) + collections;
    statistics.stats.total_rows.saturating_mul(of_a_row)
}
