//! Compiles the futures of [`Database`] once, for all binaries that await them.
//!
//! The code of an `async fn` is generated where it is polled. Without this module, each binary that
//! uses a database, mostly tests, compiles all of it again, for a minute or two. Builds that share
//! generic code (up to `opt-level = 1`) find it here.

use std::{pin::Pin, sync::Arc};

use espalier_mutation::{Mutation, PartitionUpdate};
use espalier_runtime::{ShardContext, file::FileSystem};

use crate::{
    CompactionKind, Database, ReadCommand, SharedDatabase, StorageConfiguration, StorageError,
    TokenRange,
};

/// Contains all futures of [`Database`]. It is never called.
#[doc(hidden)]
pub fn compiled_here(
    context: ShardContext,
    file_system: FileSystem,
    configuration: Arc<StorageConfiguration>,
    shared: Arc<SharedDatabase>,
    command: ReadCommand,
    update: PartitionUpdate,
) -> Pin<Box<dyn Future<Output = Result<(), StorageError>>>> {
    Box::pin(async move {
        let database = Database::open(context, file_system, configuration, shared).await?;
        let table = command.table.id;
        let mutation = Mutation { updates: vec![update.clone()] };
        database.read(command).await?;
        database.apply(mutation.clone()).await?;
        database.apply_counters(update).await?;
        database.apply_logged_batch(mutation).await?;
        database.flush("", None).await?;
        database.import("", "", None).await?;
        database.compact("", None, true).await?;
        database.upgrade_sstables("", None, true).await?;
        database.compact_sstables("", "", Vec::new()).await?;
        let range = TokenRange { after: 0, through: 0 };
        database.compact_range("", None, range, true).await?;
        database.compact_data_files(Vec::new()).await?;
        database.restore("", "", "").await?;
        database.orphans().await?;
        database.remove_orphan(Default::default()).await?;
        database.snapshot_schema("", "", "").await?;
        database.stop_compactions(&CompactionKind::ALL).await;
        database.set_compaction_throughput(0).await;
        database.compaction_history().await?;
        database.compactions().await;
        database.pending_compactions().await;
        database.forget_cached_rows().await;
        database.change_schema(|_| Ok::<_, ()>(None)).await?.ok();
        database.take_snapshot(String::new(), Vec::new(), true).await?;
        database.snapshots().await?;
        database.clear_snapshots(None, &[], &[]).await?;
        database.describe_system_keyspaces().await?;
        database.truncate(table).await?;
        database.shutdown().await
    })
}
