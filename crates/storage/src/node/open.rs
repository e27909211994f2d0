//! Opens the node: the schema first, then the tables' SSTables, then the commit log.
//!
//! Shard 0 leads. The other shards register themselves and wait until shard 0 reports that the node
//! can serve, or why it cannot.
//!
//! 1. Find segments and the directories of tables; finish what a crash interrupted.
//! 2. Open the schema tables, replay their log, and read the schema from the tables.
//! 3. All shards install the schema and open their SSTables.
//! 4. All shards replay the segments of their number. If the number of shards has changed: flush
//!    everything, remove segments.
//! 5. All shards open their logs. Unfinished logged batches are finished. Then compactions and
//!    builds of views start.

use std::sync::Arc;

use espalier_commitlog::{DiscardedIntervals, FoundSegment, LogKind, find_segments};
use espalier_mutation::{KeyRange, schema::Schema};
use espalier_runtime::{SchedulingGroup, ShardContext, file::FileSystem, time};
use futures_util::future::LocalBoxFuture;
use uuid::Uuid;

use super::{
    Node,
    drop_table::{report_unreadable, warn_of_unknown},
    record_times::find_newest_record,
    registry,
    replay::replay_here,
    truncate::finish_truncations,
};
use crate::{
    ReadCommand, ReadTarget, ShardStore, SharedStorage, StorageConfiguration, StorageError,
    engine::{
        begin_segment_ids, find_all_tables, load_discarded, prepare_directories, start_compactions,
        start_flushes,
    },
    recovery::{
        Recovered, SchemaContents, TableRecoveries, are_views_unsynced, arrange,
        mark_unsynced_views, schema_of, unmark_unsynced_views,
    },
    shard::{FoundTables, open_log, recover_tables},
    system::{self, SCHEMA_KEYSPACE},
};

impl Node {
    /// Opens the node on this shard. Each shard calls this once on its thread, with the same
    /// `shared`. All calls return when the node can serve, or with the reason why it cannot. The
    /// caller keeps the handle for as long as other shards work, because their calls wait for it.
    ///
    /// # Errors
    ///
    /// Fails if the settings are not supported, if the schema, an SSTable or the commit log cannot
    /// be read, or with the failure of shard 0.
    pub fn open(
        context: ShardContext,
        file_system: FileSystem,
        configuration: Arc<StorageConfiguration>,
        shared: Arc<SharedStorage>,
    ) -> LocalBoxFuture<'static, Result<Node, StorageError>> {
        Box::pin(async move {
            let store = ShardStore::unopened(context, file_system, configuration, shared)?;
            let node = Self::of_store(store);
            registry::register(&node);
            if context.index > 0 {
                node.inner.opened.wait().await;
                let outcome = node.inner.open_outcome.borrow().clone();
                return outcome.map(|()| node);
            }
            let outcome = lead_start(&node).await;
            for shard in 1..context.count {
                let outcome = outcome.clone();
                let report = move |node: Node| async move {
                    *node.inner.open_outcome.borrow_mut() = outcome;
                    node.inner.opened.set();
                };
                node.on_shard(shard, report).await;
            }
            outcome.map(|()| node)
        })
    }
}

/// Leads the start of all shards. Runs on shard 0.
async fn lead_start(node: &Node) -> Result<(), StorageError> {
    let store = node.store();
    let (configuration, file_system) = (&store.configuration, &store.file_system);
    prepare_directories(store).await?;
    let log_directory = &configuration.commit_log.directory;
    let policy = configuration.commit_log.failure_policy;
    let schema_segments =
        find_segments(file_system, log_directory, LogKind::Schema, policy).await?;
    let segments = find_segments(file_system, log_directory, LogKind::Data, policy).await?;
    begin_segment_ids(store, segments.greatest_id.max(schema_segments.greatest_id));
    let discarded = load_discarded(store).await?;
    let found = find_all_tables(store).await?;
    open_schema(node, &found, &discarded, schema_segments.segments).await?;
    for path in segments.unused.iter().chain(&schema_segments.unused) {
        file_system.remove_file(path).await?;
    }
    let schema = store.shared.schema();
    report_unreadable(&schema);
    warn_of_unknown(node, &schema, &found);
    let recovered = install_everywhere(node, &schema, &found, &discarded).await?;
    let is_unclean = !segments.segments.is_empty();
    let are_marked = are_views_unsynced(file_system, &configuration.data_directory).await?;
    let is_periodic = configuration.commit_log.sync.period().is_some();
    // The mark stays for all of this run, because the next start may have another setting.
    if is_periodic && !are_marked {
        mark_unsynced_views(file_system, &configuration.data_directory).await?;
    }
    replay_everywhere(node, segments.segments, &schema, &recovered).await?;
    finish_truncations(node, &found).await?;
    node.batches().finish_logged_batches().await?;
    find_newest_record(node).await;
    if is_unclean {
        // Earlier versions of Espalier left no mark under periodic sync.
        let may_differ = are_marked || is_periodic;
        node.view_builds().mark_unsynced_views_stale(may_differ).await?;
    }
    if are_marked && !is_periodic {
        unmark_unsynced_views(file_system, &configuration.data_directory).await?;
    }
    node.on_all_shards(|node| async move { start_compactions(node.store()) }).await;
    SchedulingGroup::Maintenance.spawn(super::views::run(node.clone())).detach();
    node.view_builds().build_views();
    Ok(())
}

/// Opens the schema: the SSTables of `system_schema`, then the writes that only their log has.
async fn open_schema(
    node: &Node,
    found: &FoundTables,
    discarded: &DiscardedIntervals,
    segments: Vec<FoundSegment>,
) -> Result<(), StorageError> {
    let keyspaces = system::keyspaces().into_iter();
    let keyspaces = keyspaces.map(|keyspace| (keyspace.name.clone(), Arc::new(keyspace)));
    let built_in = Arc::new(Schema::new(keyspaces.collect(), Uuid::nil()));
    node.store().shared.set_schema(built_in.clone());
    node.install_schema(&built_in, found).await?;
    let recovered = recover_tables(node.store(), found, |table| {
        built_in.table_by_id(table).is_some_and(|table| table.keyspace == SCHEMA_KEYSPACE)
    });
    let mut recovered = recovered.await?;
    arrange(&mut recovered, discarded);
    let recovered = Arc::new(recovered);
    let summary = replay_here(node, segments, &built_in, &recovered, false).await?;
    open_log(node.store(), LogKind::Schema, summary.segments);
    let schema = read_schema(node, &built_in).await?;
    node.store().shared.set_schema(Arc::new(schema));
    Ok(())
}

/// Reads the schema from the schema tables. Runs on the first shard.
pub(super) async fn read_schema(node: &Node, built_in: &Schema) -> Result<Schema, StorageError> {
    schema_of(schema_contents(node, built_in).await?)
}

/// Reads all rows of the schema tables. Runs on the first shard.
pub(super) async fn schema_contents<'a>(
    node: &Node,
    built_in: &'a Schema,
) -> Result<SchemaContents<'a>, StorageError> {
    let tables = built_in.keyspace(SCHEMA_KEYSPACE);
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let mut contents = Vec::new();
    for table in tables.iter().flat_map(|keyspace| keyspace.tables.values()) {
        let all = ReadTarget::Range(KeyRange::full());
        let command = ReadCommand::of_all(table.clone(), all, now_s);
        contents.push((table.name.as_str(), node.store().read(&command).await?.partitions));
    }
    Ok(contents)
}

/// Installs the schema and opens the SSTables on all shards. Returns the intervals of the
/// commit log that the SSTables name, and the truncations.
async fn install_everywhere(
    node: &Node,
    schema: &Arc<Schema>,
    found: &FoundTables,
    discarded: &DiscardedIntervals,
) -> Result<Recovered, StorageError> {
    let (schema, found) = (schema.clone(), found.clone());
    let outcomes = node.on_all_shards(move |node| async move {
        node.install_schema(&schema, &found).await?;
        start_flushes(node.store());
        recover_tables(node.store(), &found, |_| true).await
    });
    let mut all = TableRecoveries::default();
    for outcome in outcomes.await {
        for (table, recovery) in outcome?.iter() {
            let joined = all.entry(*table).or_default();
            joined.flushed.extend(&recovery.flushed);
            joined.truncation.clone_from(&recovery.truncation);
        }
    }
    arrange(&mut all, discarded);
    Ok(Arc::new(all))
}

async fn replay_everywhere(
    node: &Node,
    segments: Vec<FoundSegment>,
    schema: &Arc<Schema>,
    recovered: &Recovered,
) -> Result<(), StorageError> {
    let count = node.store().shard().count;
    let is_resharded = segments.iter().any(|segment| segment.shard_count as usize != count);
    let mut shares: Vec<Vec<FoundSegment>> = vec![Vec::new(); count];
    for segment in &segments {
        shares[segment.shard as usize % count].push(segment.clone());
    }
    let shares = Arc::new(shares);
    let (schema, recovered) = (schema.clone(), recovered.clone());
    let outcomes = node.on_all_shards(move |node| async move {
        let share = shares[node.store().shard().index].clone();
        let replay = replay_here(&node, share, &schema, &recovered, is_resharded);
        replay.await.map(|summary| summary.segments)
    });
    let replayed: Vec<_> = outcomes.await.into_iter().collect::<Result<_, _>>()?;
    if is_resharded {
        let flushed = node.on_all_shards(|node| async move { node.store().flush().await });
        flushed.await.into_iter().collect::<Result<Vec<()>, _>>()?;
        for segment in &segments {
            node.store().file_system.remove_file(&segment.path).await?;
        }
        node.store().file_system.sync_dir(&node.store().configuration.commit_log.directory).await?;
    }
    let replayed = Arc::new(replayed);
    let opened = node.on_all_shards(move |node| async move {
        let adopted =
            if is_resharded { Vec::new() } else { replayed[node.store().shard().index].clone() };
        open_log(node.store(), LogKind::Data, adopted);
        node.store().logs.reclaim(&node.store().tables);
    });
    opened.await;
    Ok(())
}
