//! Reading one partition: merge its sources, keep what is live, stop at the limits.

use std::sync::Arc;

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, Unfiltered, UnfilteredStream, reconcile::MergedPartition,
};

use super::{PartitionRows, ReadCommand, ReadPosition, source::Source};
use crate::{
    StorageError,
    purge::{keep_live, row_bytes},
};

/// What may still be returned.
#[derive(Clone, Copy)]
pub(crate) struct Remaining {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Remaining {
    pub(crate) fn is_used_up(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }
}

/// Where in the partition an earlier read stopped.
#[derive(Clone, Copy, Default)]
pub(crate) struct Resumed {
    /// Rows were returned before: a static row alone does not count again.
    pub(crate) has_rows: bool,
    pub(crate) rows_of_partition: usize,
}

/// Reads one partition from `sources` (streams over `slices`), and takes what it returns from `remaining`. The position
/// says where to go on if a limit over all partitions was reached.
pub(crate) async fn read_partition(
    command: &ReadCommand,
    key: &DecoratedKey,
    slices: &Arc<ClusteringSlices>,
    sources: Vec<Source<'_>>,
    resumed: Resumed,
    remaining: &mut Remaining,
) -> Result<(Option<PartitionRows>, Option<ReadPosition>), StorageError> {
    let table = &command.table;
    let merged =
        MergedPartition::of_visible_rows(table.clone(), command.direction, sources).await?;
    let Some(mut merged) = merged else { return Ok((None, None)) };
    let mut static_row = merged.header().static_row.clone();
    if let Some(row) = &mut static_row
        && !keep_live(row, table, &command.columns, command.now_s)
    {
        static_row = None;
    }
    let mut rows_of_partition = resumed.rows_of_partition;
    let mut rows = Vec::new();
    let mut stopped = None;
    while rows_of_partition < command.limits.rows_per_partition {
        let Some(fragment) = merged.next().await? else { break };
        let Unfiltered::Row(mut row) = fragment else { continue };
        if !keep_live(&mut row, table, &command.columns, command.now_s) {
            continue;
        }
        rows_of_partition += 1;
        remaining.rows -= 1;
        remaining.bytes = remaining.bytes.saturating_sub(row_bytes(&row));
        let clustering = row.clustering.clone();
        rows.push(row);
        if remaining.is_used_up() {
            stopped = Some(ReadPosition {
                key: key.clone(),
                clustering: Some(clustering),
                rows_of_partition,
            });
            break;
        }
    }
    if rows.is_empty() {
        // A partition with static content only counts as a row, if the whole partition was asked for.
        if static_row.is_none() || resumed.has_rows || !slices.is_all() {
            return Ok((None, None));
        }
        remaining.rows -= 1;
        let size = static_row.as_ref().map_or(0, row_bytes);
        remaining.bytes = remaining.bytes.saturating_sub(size);
        if remaining.is_used_up() {
            stopped =
                Some(ReadPosition { key: key.clone(), clustering: None, rows_of_partition: 1 });
        }
    }
    Ok((Some(PartitionRows { key: key.clone(), static_row, rows }), stopped))
}
