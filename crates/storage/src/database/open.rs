//! Opens the database: the schema first, then the tables' SSTables, then the commit log.
//!
//! Shard 0 leads. The other shards register themselves and wait until shard 0 reports that the node
//! can serve, or why it cannot.
//!
//! 1. Find segments and the directories of tables; remove incomplete files.
//! 2. Open the schema tables, replay their log, read the schema from them.
//! 3. All shards install the schema and open their SSTables.
//! 4. All shards replay the segments of their number. If the number of shards has changed: flush
//!    everything, remove segments.
//! 5. All shards open their logs. Unfinished logged batches are finished.

use std::{
    cell::{Cell, OnceCell, RefCell},
    path::PathBuf,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use espalier_cache::RowCache;
use espalier_commitlog::{
    CommitLog, CommitLogConfiguration, CommitLogSync, DiscardedIntervals, DiscardedIntervalsFile,
    FoundSegment, LogKind, find_segments,
};
use espalier_compaction::Throughput;
use espalier_memtable::{MemtableBudget, MemtableFactory};
use espalier_mutation::{
    KeyRange,
    schema::{Schema, TableId},
};
use espalier_runtime::{
    ShardContext,
    file::FileSystem,
    spawn_local,
    sync::{Event, Notify, Semaphore},
    time,
};
use espalier_sstable::{Descriptor, PageCache, SSTableId, versions::Version};
use futures_util::{
    future::LocalBoxFuture,
    stream::{self, StreamExt, TryStreamExt},
};
use uuid::Uuid;

use super::{Database, Inner, registry, turn_calls::MAX_TURN_CALLS, views::ViewWork};
use crate::{
    SharedDatabase, StorageConfiguration, StorageError,
    read::{ReadCommand, ReadTarget},
    recovery::{
        Recovered, SchemaContents, TableRecoveries, TableRecovery, arrange, load_or_make_host_id,
        schema_of,
    },
    system::{self, SCHEMA_KEYSPACE},
    table::{TableDirectory, TruncationRecord, find_sstables, find_tables},
    turns::Turns,
};

/// The SSTables of each table, as shard 0 found them.
pub(super) type FoundTables = Arc<Vec<FoundTable>>;

/// The directory of one table, with its SSTables.
#[derive(Clone, Debug)]
pub(super) struct FoundTable {
    pub(super) directory: TableDirectory,
    pub(super) sstables: Vec<Descriptor>,
    /// SSTables without TOC.txt.
    pub(super) incomplete: Vec<Descriptor>,
}

/// Maximum number of tables' directories that are listed at once.
const FOUND_AT_ONCE: usize = 32;

/// Segment size of the schema's log, in bytes. Schemas are small, and a first start preallocates a
/// segment.
const SCHEMA_SEGMENT_BYTES: u32 = 4 << 20;

impl Database {
    /// Opens the database on this shard. Each shard calls this once on its thread, with the same
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
        shared: Arc<SharedDatabase>,
    ) -> LocalBoxFuture<'static, Result<Database, StorageError>> {
        Box::pin(async move {
            let database = Self::unopened(context, file_system, configuration, shared)?;
            registry::register(&database);
            if context.index > 0 {
                database.inner.opened.wait().await;
                let outcome = database.inner.open_outcome.borrow().clone();
                return outcome.map(|()| database);
            }
            let outcome = database.lead_open().await;
            for shard in 1..context.count {
                let outcome = outcome.clone();
                let report = move |database: Database| async move {
                    *database.inner.open_outcome.borrow_mut() = outcome;
                    database.inner.opened.set();
                };
                database.on_shard(shard, report).await;
            }
            outcome.map(|()| database)
        })
    }

    fn unopened(
        context: ShardContext,
        file_system: FileSystem,
        configuration: Arc<StorageConfiguration>,
        shared: Arc<SharedDatabase>,
    ) -> Result<Database, StorageError> {
        let sstable_features = Version::named(&configuration.sstable_format)
            .ok_or(StorageError::NotSupported("the configured sstable_format"))?;
        let limit = (configuration.memtable_bytes / context.count.max(1)).max(1);
        let threshold = configuration.memtable_cleanup_threshold.clamp(0.01, 1.0);
        let flush = (limit as f64 * threshold) as usize;
        let cache_bytes = configuration.page_cache_bytes / context.count.max(1);
        let page_cache = PageCache::new(cache_bytes);
        page_cache.keep_index_pages(configuration.enable_index_cache);
        let budget =
            MemtableBudget::new(limit, flush).with_trie_bytes(configuration.memtable_trie_bytes);
        let row_cache_bytes = configuration.row_cache_bytes / context.count.max(1);
        let row_cache = RowCache::new(
            row_cache_bytes.min(cache_bytes),
            page_cache.clone(),
            cache_bytes,
            budget.clone(),
        );
        let inner = Inner {
            context,
            file_system,
            log: OnceCell::new(),
            schema_log: OnceCell::new(),
            replaying: RefCell::default(),
            schema: RefCell::new(shared.schema()),
            tables: RefCell::default(),
            budget: budget.clone(),
            flushing: Default::default(),
            awaiting_flush: Default::default(),
            flush_estimate: Default::default(),
            write_pace: Default::default(),
            memtables: MemtableFactory::new(context, configuration.memtables.clone(), budget),
            row_cache,
            page_cache,
            default_sstable_features: sstable_features,
            encoder: RefCell::default(),
            lookup_path: RefCell::default(),
            point_scratch: RefCell::default(),
            look_ahead: RefCell::default(),
            next_mapping: Cell::new(0),
            flush_wanted: Notify::new(),
            index_wanted: Notify::new(),
            view_build_wanted: Notify::new(),
            views: ViewWork::default(),
            empty_ranges_queued: Notify::new(),
            compaction_throughput: Throughput::new(configuration.compaction_bytes_per_second),
            compaction_wanted: Notify::new(),
            opened: Event::new(),
            open_outcome: RefCell::new(Ok(())),
            is_closing: Cell::new(false),
            flushes: Cell::new(false),
            compacts: Cell::new(false),
            schema_lock: Semaphore::new(1),
            discarded_lock: Semaphore::new(1),
            turns: Turns::default(),
            turn_calls: Semaphore::new(MAX_TURN_CALLS),
            unfinished_batch_bytes: Cell::default(),
            counters: super::Counters::default(),
            clients: OnceCell::new(),
            configuration,
            shared,
        };
        Ok(Database { inner: Rc::new(inner) })
    }

    async fn lead_open(&self) -> Result<(), StorageError> {
        let configuration = self.inner.configuration.clone();
        let file_system = self.inner.file_system.clone();
        for directory in [&configuration.data_directory, &configuration.commitlog_directory] {
            file_system.create_dir_all(directory).await?;
        }
        let host_id = load_or_make_host_id(&file_system, &configuration.data_directory).await?;
        self.inner.shared.set_host_id(host_id);
        let log_directory = &configuration.commitlog_directory;
        let policy = configuration.commit_failure_policy;
        let schema_segments =
            find_segments(&file_system, log_directory, LogKind::Schema, policy).await?;
        let segments = find_segments(&file_system, log_directory, LogKind::Data, policy).await?;
        // As in Cassandra, ids start from the clock, so that they grow even if the log's directory
        // was emptied.
        let clock = u64::try_from(time::now_millis()).unwrap_or(0);
        let greatest = segments.greatest_id.max(schema_segments.greatest_id);
        self.inner.shared.segment_ids.store(clock.max(greatest + 1), Ordering::Relaxed);
        let discarded = self.load_discarded().await?;
        let found = self.find_tables().await?;
        self.open_schema(&found, &discarded, schema_segments.segments).await?;
        for path in segments.unused.iter().chain(&schema_segments.unused) {
            file_system.remove_file(path).await?;
        }
        let schema = self.inner.shared.schema();
        self.report_unreadable(&schema);
        self.warn_of_unknown(&schema, &found);
        let recovered = self.install_everywhere(&schema, &found, &discarded).await?;
        let is_unclean = !segments.segments.is_empty();
        self.replay_everywhere(segments.segments, &schema, &recovered).await?;
        self.finish_truncations(&found).await?;
        self.finish_logged_batches().await?;
        if is_unclean {
            self.mark_unsynced_views_stale().await?;
        }
        // Compactions start only now, because they must see the replayed writes of the log: a purge
        // depends on the memtables.
        self.on_all_shards(|database| async move {
            if database.configuration().autocompaction {
                database.inner.compacts.set(true);
                spawn_local(crate::compaction::run_scheduler(database.clone())).detach();
            }
            spawn_local(crate::index::run_builder(database.clone())).detach();
            database.index_wanted().notify_one();
        })
        .await;
        spawn_local(super::views::run(self.clone())).detach();
        self.build_views();
        Ok(())
    }

    /// Loads the discarded intervals: the parts of the commit log with mutations that compactions
    /// purged.
    async fn load_discarded(&self) -> Result<DiscardedIntervals, StorageError> {
        let directory = &self.inner.configuration.commitlog_directory;
        let (host, policy) = (self.host_id(), self.inner.configuration.commit_failure_policy);
        let discarded =
            DiscardedIntervalsFile::load_all(&self.inner.file_system, directory, host, policy)
                .await?;
        let ends = discarded.values().flatten().map(|(_, end)| end.segment);
        // As below: these positions must not be used again.
        let next = ends.max().unwrap_or(0).saturating_add(1);
        self.inner.shared.segment_ids.fetch_max(next, Ordering::Relaxed);
        Ok(discarded)
    }

    async fn find_tables(&self) -> Result<FoundTables, StorageError> {
        let data_directory = &self.inner.configuration.data_directory;
        let directories = find_tables(&self.inner.file_system, data_directory).await?;
        let found = directories.into_iter().map(|directory| self.find_table(directory));
        Ok(Arc::new(stream::iter(found).buffered(FOUND_AT_ONCE).try_collect().await?))
    }

    async fn find_table(&self, directory: TableDirectory) -> Result<FoundTable, StorageError> {
        let inner = &self.inner;
        espalier_compaction::recover(&inner.file_system, &directory.path).await?;
        let files = find_sstables(&inner.file_system, &directory.path).await?;
        let (mut sstables, incomplete) = (files.sealed, files.incomplete);
        for descriptor in &sstables {
            if let SSTableId::Generation(generation) = descriptor.id {
                inner.shared.record_generation(directory.id, generation.get());
            }
        }
        self.remove_truncated(&directory, &mut sstables).await?;
        Ok(FoundTable { directory, sstables, incomplete })
    }

    /// Opens the schema: the SSTables of `system_schema`, then the writes that only their log has.
    async fn open_schema(
        &self,
        found: &FoundTables,
        discarded: &DiscardedIntervals,
        segments: Vec<FoundSegment>,
    ) -> Result<(), StorageError> {
        let keyspaces = system::keyspaces().into_iter();
        let keyspaces = keyspaces.map(|keyspace| (keyspace.name.clone(), Arc::new(keyspace)));
        let built_in = Arc::new(Schema::new(keyspaces.collect(), Uuid::nil()));
        self.inner.shared.set_schema(built_in.clone());
        self.install_schema(&built_in, found).await?;
        let recovered = self.recover_tables(found, |table| {
            built_in.table_by_id(table).is_some_and(|table| table.keyspace == SCHEMA_KEYSPACE)
        });
        let mut recovered = recovered.await?;
        arrange(&mut recovered, discarded);
        let recovered = Arc::new(recovered);
        let summary = self.replay_here(segments, &built_in, &recovered, false).await?;
        let log = self.open_log(LogKind::Schema, summary.segments);
        let _ = self.inner.schema_log.set(log);
        let schema = self.read_schema(&built_in).await?;
        self.inner.shared.set_schema(Arc::new(schema));
        Ok(())
    }

    /// Reads the schema from the schema tables.
    async fn read_schema(&self, built_in: &Schema) -> Result<Schema, StorageError> {
        schema_of(self.schema_contents(built_in).await?)
    }

    /// Reads all rows of the schema tables. Runs on the first shard.
    pub(super) async fn schema_contents<'a>(
        &self,
        built_in: &'a Schema,
    ) -> Result<SchemaContents<'a>, StorageError> {
        let tables = built_in.keyspace(SCHEMA_KEYSPACE);
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        let mut contents = Vec::new();
        for table in tables.iter().flat_map(|keyspace| keyspace.tables.values()) {
            let all = ReadTarget::Range(KeyRange::full());
            let command = ReadCommand::of_all(table.clone(), all, now_s);
            contents.push((table.name.as_str(), self.read_here(&command).await?.partitions));
        }
        Ok(contents)
    }

    /// Installs the schema and opens the SSTables on all shards. Returns the intervals of the
    /// commit log that the SSTables name, and the truncations.
    async fn install_everywhere(
        &self,
        schema: &Arc<Schema>,
        found: &FoundTables,
        discarded: &DiscardedIntervals,
    ) -> Result<Recovered, StorageError> {
        let (schema, found) = (schema.clone(), found.clone());
        let outcomes = self.on_all_shards(move |database| {
            let (schema, found) = (schema.clone(), found.clone());
            async move {
                database.install_schema(&schema, &found).await?;
                database.inner.flushes.set(true);
                spawn_local(crate::flush::run_scheduler(database.clone())).detach();
                spawn_local(crate::flush::run_write_pace(database.clone())).detach();
                spawn_local(crate::empty_ranges::run_follower(database.clone())).detach();
                spawn_local(database.clone().keep_cache_memory_split()).detach();
                database.recover_tables(&found, |_| true).await
            }
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

    async fn recover_tables(
        &self,
        found: &FoundTables,
        wanted: impl Fn(TableId) -> bool,
    ) -> Result<TableRecoveries, StorageError> {
        let mut all = TableRecoveries::default();
        for FoundTable { directory, .. } in found.iter() {
            let Ok(table) = self.table(directory.id) else { continue };
            if !wanted(directory.id) || table.directory != directory.path {
                continue;
            }
            let truncation =
                TruncationRecord::load(&self.inner.file_system, &directory.path).await?;
            let host = self.host_id();
            let view = table.view();
            let flushed = view
                .sstables
                .iter()
                .flat_map(|sstable| sstable.commit_log_intervals(host))
                .collect();
            let recovery = TableRecovery { flushed, truncation };
            // The clock may have gone back since, and a discarded position must not be used again.
            if let Some(greatest) = recovery.greatest_segment() {
                self.inner
                    .shared
                    .segment_ids
                    .fetch_max(greatest.saturating_add(1), Ordering::Relaxed);
            }
            all.insert(directory.id, recovery);
        }
        Ok(all)
    }

    async fn replay_everywhere(
        &self,
        segments: Vec<FoundSegment>,
        schema: &Arc<Schema>,
        recovered: &Recovered,
    ) -> Result<(), StorageError> {
        let count = self.inner.context.count;
        let is_resharded = segments.iter().any(|segment| segment.shard_count as usize != count);
        let mut shares: Vec<Vec<FoundSegment>> = vec![Vec::new(); count];
        for segment in &segments {
            shares[segment.shard as usize % count].push(segment.clone());
        }
        let shares = Arc::new(shares);
        let (schema, recovered) = (schema.clone(), recovered.clone());
        let outcomes = self.on_all_shards(move |database| {
            let (schema, recovered, shares) = (schema.clone(), recovered.clone(), shares.clone());
            async move {
                let share = shares[database.inner.context.index].clone();
                let replay = database.replay_here(share, &schema, &recovered, is_resharded);
                replay.await.map(|summary| summary.segments)
            }
        });
        let replayed: Vec<_> = outcomes.await.into_iter().collect::<Result<_, _>>()?;
        if is_resharded {
            let flushed = self.on_all_shards(|database| async move { database.flush_here().await });
            flushed.await.into_iter().collect::<Result<Vec<()>, _>>()?;
            for segment in &segments {
                self.inner.file_system.remove_file(&segment.path).await?;
            }
            self.inner.file_system.sync_dir(&self.inner.configuration.commitlog_directory).await?;
        }
        let replayed = Arc::new(replayed);
        let opened = self.on_all_shards(move |database| {
            let replayed = replayed.clone();
            async move {
                let adopted = if is_resharded {
                    Vec::new()
                } else {
                    replayed[database.inner.context.index].clone()
                };
                let log = database.open_log(LogKind::Data, adopted);
                let _ = database.inner.log.set(log);
                database.reclaim_log();
            }
        });
        opened.await;
        Ok(())
    }

    fn open_log(&self, kind: LogKind, adopted: Vec<(u64, PathBuf, u32)>) -> CommitLog {
        let inner = &self.inner;
        let configuration = &inner.configuration;
        let (segment_bytes, total_bytes) = match kind {
            LogKind::Data => (
                configuration.commitlog_segment_bytes,
                configuration.commitlog_total_bytes / inner.context.count as u64,
            ),
            LogKind::Schema => (SCHEMA_SEGMENT_BYTES, 4 * u64::from(SCHEMA_SEGMENT_BYTES)),
        };
        let log = CommitLog::open(
            CommitLogConfiguration {
                directory: configuration.commitlog_directory.clone(),
                kind,
                shard: inner.context.index as u32,
                // The schema's log belongs to shard 0, however many others there are.
                shard_count: match kind {
                    LogKind::Data => inner.context.count as u32,
                    LogKind::Schema => 1,
                },
                sync: match kind {
                    LogKind::Data => configuration.commitlog_sync,
                    // A schema change is durable when it is acknowledged, whatever the setting for
                    // data.
                    LogKind::Schema => CommitLogSync::Batch,
                },
                segment_bytes,
                total_bytes,
            },
            inner.file_system.clone(),
            inner.shared.segment_ids.clone(),
            adopted,
        );
        let (watched, flush_wanted) = (log.clone(), inner.flush_wanted.clone());
        spawn_local(async move {
            while !watched.is_closing() {
                watched.wait_for_pressure().await;
                flush_wanted.notify_one();
            }
        })
        .detach();
        log
    }
}
