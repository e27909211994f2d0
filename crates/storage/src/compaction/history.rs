//! This module writes `system.compaction_history`: a row for each compaction, which expires after a
//! week as in Cassandra.

use bytes::Bytes;
use espalier_compaction::CompactionOutcome;
use espalier_mutation::{DecoratedKey, Mutation};
use espalier_runtime::time;

use crate::system::{RowWriter, SYSTEM_KEYSPACE, table};

/// Time to live of a row in seconds.
const TTL_S: u32 = 7 * 24 * 3600;
const TABLE: &str = "compaction_history";

/// Returns the mutation that adds a row; `None` for compactions of the history table itself.
pub(crate) fn history_update(outcome: &CompactionOutcome) -> Option<Mutation> {
    if (outcome.keyspace.as_str(), outcome.table.as_str()) == (SYSTEM_KEYSPACE, TABLE) {
        return None;
    }
    let table = table(SYSTEM_KEYSPACE, TABLE);
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let properties = [("compaction_type", outcome.kind.name().as_bytes())];
    let merged = outcome.partitions_merged.iter().map(|(files, partitions)| {
        let files = Bytes::copy_from_slice(&files.to_be_bytes());
        (files, Bytes::copy_from_slice(&partitions.to_be_bytes()))
    });
    let key = DecoratedKey::new(Bytes::copy_from_slice(outcome.id.as_bytes()));
    let update = RowWriter::new(&table, &[], time::next_timestamp_micros())
        .expiring(TTL_S, now_s)
        .bigint("bytes_in", outcome.bytes_in)
        .bigint("bytes_out", outcome.bytes_out)
        .text("columnfamily_name", &outcome.table)
        .timestamp("compacted_at", time::now_millis())
        .map("compaction_properties", properties)
        .text("keyspace_name", &outcome.keyspace)
        .map_cells("rows_merged", merged)
        .update(key);
    Some(Mutation { updates: vec![update] })
}
