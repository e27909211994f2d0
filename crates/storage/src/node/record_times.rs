//! Timestamps of the records of builds of materialized views and secondary indexes.
//!
//! Only shard 0 writes records, so that later records have later timestamps. At a start it finds
//! the newest timestamp of the records, because the clock may have been set back.

use espalier_runtime::time;

use super::Node;
use crate::system::table;

/// The tables of the records.
const RECORD_TABLES: [(&str, &str); 4] = [
    ("system", "built_views"),
    ("system", "view_builds_in_progress"),
    ("system_distributed", "view_build_status"),
    ("system", "IndexInfo"),
];

/// Maximum time in µs by which the timestamp of an earlier record may be ahead of the clock.
/// Arbitrary: ten years.
const MAX_AHEAD_US: i64 = 10 * 365 * 86_400 * 1_000_000;

/// Finds the newest timestamp of the records, so that later records win over them. Runs on shard
/// 0, once, before this start writes the first record.
pub(super) async fn find_newest_record(node: &Node) {
    // A client may write to `view_build_status` with any timestamp. A timestamp far ahead does not
    // count: otherwise all later records would have the greatest timestamp, and none would win.
    let latest_us = time::now_micros().saturating_add(MAX_AHEAD_US);
    let found = node.on_all_shards(move |node| async move {
        let tables = &node.store().tables;
        let records = RECORD_TABLES.map(|(keyspace, name)| {
            let records = tables.get(table(keyspace, name).id);
            records.ok().and_then(|records| records.maximum_timestamp())
        });
        records.into_iter().flatten().filter(|newest| *newest <= latest_us).max()
    });
    let newest = found.await.into_iter().flatten().max();
    node.inner.newest_record_us.set(newest.unwrap_or(i64::MIN));
}

/// Returns a timestamp for a record: later than all earlier records, and at least `earliest_us`.
/// Runs on shard 0.
pub(super) fn next_record_timestamp_us(node: &Node, earliest_us: i64) -> i64 {
    let newest = &node.inner.newest_record_us;
    let later = newest.get().saturating_add(1).max(earliest_us);
    newest.set(time::next_timestamp_micros().max(later));
    newest.get()
}
