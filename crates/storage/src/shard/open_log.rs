//! Opens the commit logs of a shard.

use std::path::PathBuf;

use espalier_commitlog::{CommitLog, CommitLogConfiguration, CommitLogSync, LogKind};
use espalier_runtime::spawn_local;

use super::ShardStore;

/// Segment size of the schema's log, in bytes. Schemas are small, and a first start preallocates a
/// segment.
pub(super) const SCHEMA_SEGMENT_BYTES: u32 = 4 << 20;

/// Opens a commit log of a store, which takes over the segments of an earlier run.
pub(crate) fn open_log(store: &ShardStore, kind: LogKind, adopted: Vec<(u64, PathBuf, u32)>) {
    let (settings, shard) = (&store.configuration.commit_log, store.shard());
    let data = CommitLogConfiguration {
        directory: settings.directory.clone(),
        kind,
        shard: shard.index as u32,
        shard_count: shard.count as u32,
        sync: settings.sync,
        segment_bytes: settings.segment_bytes,
        total_bytes: settings.total_bytes / shard.count as u64,
    };
    let (place, configuration) = match kind {
        LogKind::Data => (&store.logs.data, data),
        LogKind::Schema => {
            let schema = CommitLogConfiguration {
                // The schema's log belongs to shard 0, however many others there are.
                shard_count: 1,
                // A schema change is durable when it is acknowledged, whatever the setting for
                // data.
                sync: CommitLogSync::Batch,
                segment_bytes: SCHEMA_SEGMENT_BYTES,
                total_bytes: 4 * u64::from(SCHEMA_SEGMENT_BYTES),
                ..data
            };
            (&store.logs.schema, schema)
        }
    };
    let log = CommitLog::open(
        configuration,
        store.file_system.clone(),
        store.shared.segment_ids.clone(),
        adopted,
    );
    let (watched, flush_wanted) = (log.clone(), store.wakers.flush.clone());
    spawn_local(async move {
        while !watched.is_closing() {
            watched.wait_for_pressure().await;
            flush_wanted.notify_one();
        }
    })
    .detach();
    let _ = place.set(log);
}
