//! `system."IndexInfo"`: the indexes that are built.

use espalier_mutation::PartitionUpdate;

use super::{
    SYSTEM_KEYSPACE,
    row::{RowWriter, text_key},
    table,
};

/// Returns the write that records an index as built or, with `removed_s`, as dropped in that
/// second.
pub fn index_info_update(
    keyspace: &str,
    index: &str,
    timestamp: i64,
    removed_s: Option<u32>,
) -> PartitionUpdate {
    let table = table(SYSTEM_KEYSPACE, "IndexInfo");
    let row = RowWriter::new(&table, &[index], timestamp);
    let row = match removed_s {
        None => row,
        Some(now_s) => row.deleting(now_s),
    };
    row.update(text_key(keyspace))
}
