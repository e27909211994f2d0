//! This module writes `system.compaction_history`: a row for each compaction, which expires after a
//! week as in Cassandra.

use bytes::{BufMut, Bytes, BytesMut};
use espalier_compaction::CompactionOutcome;
use espalier_mutation::{ColumnData, DecoratedKey, Mutation, PartitionUpdate};
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
    let bigint = |value: u64| i64::try_from(value).unwrap_or(i64::MAX).to_be_bytes().to_vec();
    let properties = [("compaction_type", outcome.kind.name().as_bytes())];
    let row = RowWriter::new(&table, &[], time::next_timestamp_micros())
        .bytes("bytes_in", bigint(outcome.bytes_in))
        .bytes("bytes_out", bigint(outcome.bytes_out))
        .text("columnfamily_name", &outcome.table)
        .bytes("compacted_at", time::now_millis().to_be_bytes().to_vec())
        .map("compaction_properties", properties)
        .text("keyspace_name", &outcome.keyspace);
    let mut row = row.finish();
    let expires_s = u32::try_from(time::now_seconds()).unwrap_or(0).saturating_add(TTL_S);
    let timestamp = row.liveness.timestamp;
    row.liveness.ttl = TTL_S;
    row.liveness.local_expiration = expires_s;
    let mut update = PartitionUpdate::new(
        table.id,
        DecoratedKey::new(Bytes::copy_from_slice(outcome.id.as_bytes())),
    );
    if let Some(column) = table.column("rows_merged") {
        use espalier_mutation::{Cell, ComplexColumn};
        let cell = |(files, partitions): (&i32, &i64)| {
            let value = Bytes::copy_from_slice(&partitions.to_be_bytes());
            let mut path = BytesMut::new();
            path.put_i32(*files);
            (path.freeze(), Cell::live(timestamp, value))
        };
        let cells = outcome.partitions_merged.iter().map(cell).collect();
        let cells = ComplexColumn { cells, ..ComplexColumn::default() };
        if !cells.cells.is_empty() {
            *row.column_or_insert(column.id, || ColumnData::Complex(ComplexColumn::default())) =
                ColumnData::Complex(cells);
        }
    }
    for (_, data) in &mut row.columns {
        let cells = match data {
            ColumnData::Simple(cell) => std::slice::from_mut(cell).iter_mut().collect::<Vec<_>>(),
            ColumnData::Complex(column) => column.cells.iter_mut().map(|(_, cell)| cell).collect(),
        };
        for cell in cells {
            (cell.ttl, cell.local_deletion_time) = (TTL_S, expires_s);
        }
    }
    update.rows.push(row);
    Some(Mutation { updates: vec![update] })
}
