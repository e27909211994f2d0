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
    let configuration = &store.configuration;
    let (segment_bytes, total_bytes) = match kind {
        LogKind::Data => (
            configuration.commit_log.segment_bytes,
            configuration.commit_log.total_bytes / store.routing.context.count as u64,
        ),
        LogKind::Schema => (SCHEMA_SEGMENT_BYTES, 4 * u64::from(SCHEMA_SEGMENT_BYTES)),
    };
    let log = CommitLog::open(
        CommitLogConfiguration {
            directory: configuration.commit_log.directory.clone(),
            kind,
            shard: store.routing.context.index as u32,
            // The schema's log belongs to shard 0, however many others there are.
            shard_count: match kind {
                LogKind::Data => store.routing.context.count as u32,
                LogKind::Schema => 1,
            },
            sync: match kind {
                LogKind::Data => configuration.commit_log.sync,
                // A schema change is durable when it is acknowledged, whatever the setting for
                // data.
                LogKind::Schema => CommitLogSync::Batch,
            },
            segment_bytes,
            total_bytes,
        },
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
    let place = match kind {
        LogKind::Data => &store.logs.data,
        LogKind::Schema => &store.logs.schema,
    };
    let _ = place.set(log);
}
