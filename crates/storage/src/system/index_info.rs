//! `system."IndexInfo"`: the indexes that are built.

use bytes::Bytes;
use espalier_mutation::{DecoratedKey, DeletionTime, PartitionUpdate, Row};

use super::{SYSTEM_KEYSPACE, row::RowWriter, table};

/// Returns the write that records an index as built or, with `removed_s`, as dropped in that
/// second.
pub fn index_info_update(
    keyspace: &str,
    index: &str,
    timestamp: i64,
    removed_s: Option<u32>,
) -> PartitionUpdate {
    let table = table(SYSTEM_KEYSPACE, "IndexInfo");
    let key = DecoratedKey::new(Bytes::copy_from_slice(keyspace.as_bytes()));
    let mut row = RowWriter::new(&table, &[index], timestamp).finish();
    if let Some(now_s) = removed_s {
        row = Row::empty(row.clustering);
        row.deletion = DeletionTime::new(timestamp, now_s);
    }
    PartitionUpdate { rows: vec![row], ..PartitionUpdate::new(table.id, key) }
}
