//! What of a file is old enough to go, by its statistics alone.
//!
//! The statistics have one histogram for the times of everything that is deleted or expires, cells or not, and one for the cells of
//! partitions. What the first has beyond the second are deletions of more than a cell, and some other things, which are taken off as
//! far as they can be known: a deletion that is counted twice has whole files written again for nothing.

use espalier_sstable::Statistics;

/// What of a file is old enough at some second to go, estimated.
#[derive(Debug, PartialEq)]
pub(crate) struct Droppable {
    /// All cells and deletions.
    pub(crate) cells: u64,
    /// The share of them.
    pub(crate) ratio: f64,
    /// How many are deletions of rows, at least. One of a range counts as one of a row: how many rows it covers is not known.
    pub(crate) row_deletions: u64,
    /// How many are deletions of partitions.
    pub(crate) partition_deletions: u64,
}

impl Droppable {
    /// What is older than a second.
    pub(crate) fn of(statistics: &Statistics, before_s: u32) -> Self {
        let stats = &statistics.stats;
        let bins = &stats.drop_times.bins;
        let old = bins.iter().take_while(|(second, _)| *second < u64::from(before_s));
        let old: u64 = old.map(|(_, count)| u64::from(*count)).sum();
        let cells = cells(statistics);
        let all = cells.max(old);
        let ratio = if all == 0 { 0.0 } else { old as f64 / all as f64 };
        let beyond = old.saturating_sub(cells).saturating_sub(others(statistics));
        let of_rows = beyond.min(stats.total_rows);
        let (row_deletions, partition_deletions) = match stats.has_partition_deletions {
            // Which of them are of ranges is not known. No partition has two.
            true => (of_rows, (beyond - of_rows).min(stats.cell_counts.total())),
            // Both ends of a range are counted.
            false => (of_rows + (beyond - of_rows) / 2, 0),
        };
        Self { cells: all, ratio, row_deletions, partition_deletions }
    }
}

/// An estimate: the histogram has one entry for each partition.
fn cells(statistics: &Statistics) -> u64 {
    let stats = &statistics.stats;
    let counts = stats.cell_counts.offsets.iter().zip(&stats.cell_counts.counts);
    // The first bucket is for partitions of one cell, and for those of none, such as are deleted.
    let first =
        stats.cell_counts.counts.first().map_or(0, |count| *count.min(&stats.total_columns));
    let rest = counts.skip(1).map(|(cells, partitions)| cells.saturating_mul(*partitions));
    rest.fold(first, u64::saturating_add)
}

/// How many of the times may be of neither a cell nor a deletion of more than one: that of a row expires beside its cells, and a
/// collection is deleted before it is written anew.
fn others(statistics: &Statistics) -> u64 {
    let header = &statistics.header;
    let columns = header.static_columns.iter().chain(&header.regular_columns);
    let collections = columns.filter(|column| column.column_type.is_multi_cell()).count() as u64;
    let of_a_row = u64::from(statistics.stats.max_ttl > 0) + collections;
    statistics.stats.total_rows.saturating_mul(of_a_row)
}

#[cfg(test)]
mod tests;
