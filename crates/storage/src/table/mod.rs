//! A `Table` is one table on one shard: the memtable that takes writes, the memtables being
//! flushed, and the SSTables.

mod costly_ranges;
mod directory;
#[cfg(test)]
mod droppable_tests;
mod flush_clock;
mod flushes;
mod home;
mod index_failures;
mod indexes;
mod pending_import;
mod truncation;
mod truncation_state;
mod view;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
};

use espalier_cache::{CacheAccess, RowCache, TableCache};
use espalier_commitlog::ColumnMapping;
use espalier_compaction::{TableCompactions, strategy::CompactionStrategy};
use espalier_memtable::{Memtable, MemtableFactory};
use espalier_mutation::{LogPosition, purge::PurgeLimits, schema::TableMetadata};
use espalier_runtime::{sync::Semaphore, time};
use espalier_sstable::{
    SSTable,
    versions::{Version, VersionFeatures},
};
use uuid::Uuid;

pub(crate) use costly_ranges::CostlyRanges;
pub(crate) use directory::{
    BACKUPS, DROPPED_FILE_NAME, SNAPSHOTS, TableDirectory, find_sstables, find_tables,
    greatest_copied_number, remove_dropped_directory,
};
use flushes::TableFlushes;
use home::TableHome;
use indexes::TableIndexes;
use pending_import::PendingImport;
pub(crate) use truncation::TruncationRecord;
use truncation_state::TruncationState;
pub(crate) use view::TableView;

use crate::{StorageError, empty_ranges::EmptyRanges, system::SCHEMA_KEYSPACE};

/// One table on one shard.
pub(crate) struct Table {
    version: TableVersion,
    view: RefCell<Rc<TableView>>,
    memtables: MemtableFactory,
    pub(crate) home: TableHome,
    pub(crate) flushes: TableFlushes,
    pub(crate) compactions: Rc<TableCompactions>,
    compaction_strategy: RefCell<Rc<CompactionStrategy>>,
    pub(crate) exchanges: Exchanges,
    cache: Rc<TableCache>,
    empty_ranges: Rc<EmptyRanges>,
    pub(crate) indexes: TableIndexes,
    truncation_state: RefCell<TruncationState>,
    pending_import: RefCell<PendingImport>,
    is_dropped: Cell<bool>,
}

/// The current version of a table.
struct TableVersion {
    metadata: RefCell<Arc<TableMetadata>>,
    /// Features of the table's own `sstable_format`, if it has one.
    own_sstable_features: Cell<Option<&'static VersionFeatures>>,
    /// Describes the version to the commit log.
    mapping: RefCell<Rc<ColumnMapping>>,
    /// `durable_writes` of the keyspace.
    is_durable: Cell<bool>,
    /// True if the table is in `system_schema` and logged in the schema's own log.
    is_schema: bool,
}

/// The exchange of a table's SSTables.
pub(crate) struct Exchanges {
    /// Held while SSTables are exchanged on disk or linked: one at a time.
    pub(crate) lock: Semaphore,
    /// Parts of files that are being split, by the id of the compaction. They enter the view when
    /// the split is durable.
    pub(crate) staged: RefCell<BTreeMap<Uuid, Vec<Rc<SSTable>>>>,
}

impl Table {
    pub(crate) fn new(
        metadata: Arc<TableMetadata>,
        mapping: ColumnMapping,
        directory: PathBuf,
        memtables: MemtableFactory,
        row_cache: RowCache,
        empty_ranges: EmptyRanges,
    ) -> Self {
        warn_of_compression(&metadata);
        let memtable = memtables.make(&metadata);
        let is_schema = metadata.keyspace == SCHEMA_KEYSPACE;
        Self {
            cache: Rc::new(TableCache::new(row_cache, &metadata)),
            empty_ranges: Rc::new(empty_ranges),
            compactions: Rc::default(),
            exchanges: Exchanges { lock: Semaphore::new(1), staged: RefCell::default() },
            compaction_strategy: RefCell::new(Rc::new(strategy_of(&metadata))),
            version: TableVersion {
                own_sstable_features: Cell::new(own_sstable_features(&metadata)),
                metadata: RefCell::new(metadata),
                mapping: RefCell::new(Rc::new(mapping)),
                is_durable: Cell::new(true),
                is_schema,
            },
            view: RefCell::new(Rc::new(TableView::new(memtable))),
            memtables,
            home: TableHome::new(directory),
            flushes: TableFlushes::default(),
            truncation_state: RefCell::default(),
            pending_import: RefCell::default(),
            is_dropped: Cell::new(false),
            indexes: TableIndexes::default(),
        }
    }

    /// Returns whether writes go to the commit log.
    #[inline]
    pub(crate) fn is_durable(&self) -> bool {
        self.version.is_durable.get()
    }

    pub(crate) fn set_durable(&self, is_durable: bool) {
        self.version.is_durable.set(is_durable);
    }

    /// Returns whether the table is one of the schema tables.
    #[inline]
    pub(crate) fn is_schema(&self) -> bool {
        self.version.is_schema
    }

    /// Returns the current version of the table.
    pub(crate) fn metadata(&self) -> Arc<TableMetadata> {
        self.version.metadata.borrow().clone()
    }

    /// Returns whether `metadata` is the current version.
    pub(crate) fn is_version(&self, metadata: &Arc<TableMetadata>) -> bool {
        let present = self.version.metadata.borrow();
        Arc::ptr_eq(&present, metadata) || *present == *metadata
    }

    /// Returns whether `metadata` has the current version number. Cheaper than
    /// [`Table::is_version`].
    #[inline]
    pub(crate) fn has_version_of(&self, metadata: &TableMetadata) -> bool {
        self.version.metadata.borrow().version == metadata.version
    }

    /// Returns the features of the SSTables of this table; `default` is the node's version.
    #[inline]
    pub(crate) fn sstable_features(
        &self,
        default: &'static VersionFeatures,
    ) -> &'static VersionFeatures {
        self.version.own_sstable_features.get().unwrap_or(default)
    }

    /// Borrows the current version. The caller must not yield while it holds the borrow.
    #[inline]
    pub(crate) fn borrow_metadata(&self) -> std::cell::Ref<'_, Arc<TableMetadata>> {
        self.version.metadata.borrow()
    }

    #[inline]
    pub(crate) fn borrow_mapping(&self) -> std::cell::Ref<'_, Rc<ColumnMapping>> {
        self.version.mapping.borrow()
    }

    /// Installs a new version of the table.
    pub(crate) fn alter(
        &self,
        metadata: Arc<TableMetadata>,
        mapping: ColumnMapping,
    ) -> Result<(), StorageError> {
        let view = self.view();
        for sstable in view.sstables.iter().chain(&self.truncated_sstables()) {
            sstable.reader().set_table(metadata.clone())?;
        }
        self.version.own_sstable_features.set(own_sstable_features(&metadata));
        // An operator's switch of auto-compaction survives a change of other options.
        if self.borrow_metadata().options.compaction != metadata.options.compaction {
            *self.compaction_strategy.borrow_mut() = Rc::new(strategy_of(&metadata));
        }
        if self.borrow_metadata().options.compression != metadata.options.compression {
            warn_of_compression(&metadata);
        }
        let has_same_rows = self.borrow_metadata().has_rows_of(&metadata);
        // The row cache drops tombstones that can be purged. With a longer grace time, such a
        // tombstone counts again and must cover older writes that arrive later, so the cached rows
        // cannot be kept.
        let now_s = time::now_seconds();
        let gc_before_s = |table: &TableMetadata| PurgeLimits::at(table, now_s).gc_before_s;
        let are_tombstones_younger = gc_before_s(&metadata) < gc_before_s(&self.borrow_metadata());
        self.cache.alter(&metadata, has_same_rows && !are_tombstones_younger);
        if !has_same_rows {
            self.empty_ranges.forget();
        }
        let has_same_indexes = self.borrow_metadata().has_indexes_of(&metadata);
        *self.version.metadata.borrow_mut() = metadata;
        *self.version.mapping.borrow_mut() = Rc::new(mapping);
        if !has_same_indexes {
            self.indexes.forget_recorded();
            begin_indexes(self);
        }
        Ok(())
    }

    /// Returns a snapshot. Its memtables and SSTables stay readable as long as it is held.
    #[inline]
    pub(crate) fn view(&self) -> Rc<TableView> {
        self.view.borrow().clone()
    }

    /// Borrows the snapshot. The caller must not yield while it holds the borrow.
    #[inline]
    pub(crate) fn borrow_view(&self) -> std::cell::Ref<'_, Rc<TableView>> {
        self.view.borrow()
    }

    /// Returns the row cache of the table.
    pub(crate) fn cache(&self) -> &Rc<TableCache> {
        &self.cache
    }

    /// Returns the cache of ranges in which no row is visible.
    #[inline]
    pub(crate) fn empty_ranges(&self) -> &Rc<EmptyRanges> {
        &self.empty_ranges
    }

    /// Returns the row cache with a ticket that lets a read that begins at this moment add rows;
    /// `None` if the table is not cached.
    pub(crate) fn row_cache(&self) -> Option<CacheAccess> {
        let cache = self.enabled_row_cache()?.clone();
        Some(CacheAccess { ticket: cache.ticket(), cache, scan: None })
    }

    /// Returns the row cache, if the table is cached.
    #[inline]
    pub(crate) fn enabled_row_cache(&self) -> Option<&Rc<TableCache>> {
        (self.cache.is_enabled() && !self.version.is_schema).then_some(&self.cache)
    }

    /// Gives SSTables the current version of the table, which may have been altered since they were
    /// opened. The caller must add them to the view before it yields.
    pub(crate) fn adopt(&self, sstables: &[Rc<SSTable>]) -> Result<(), StorageError> {
        for sstable in sstables {
            sstable.reader().set_table(self.metadata())?;
        }
        Ok(())
    }

    /// Adds the SSTable of a memtable that is still in the view.
    pub(crate) fn add_flushed(&self, sstable: Rc<SSTable>) {
        self.change_view(|view| view.with_sstables([sstable]));
        self.cache.begin_epoch();
    }

    /// Replaces the inputs of a compaction by its outputs, without yielding. `has_left_out` is true
    /// if the outputs lack data that reads may have cached.
    pub(crate) fn exchange(
        &self,
        inputs: &[Rc<SSTable>],
        outputs: Vec<Rc<SSTable>>,
        has_left_out: bool,
    ) -> Result<(), StorageError> {
        self.adopt(&outputs)?;
        self.change_view(|view| view.without(inputs, &[]).with_sstables(outputs));
        if has_left_out {
            self.forget_read();
        }
        Ok(())
    }

    /// Drops all that was cached of the SSTables, because their contents have changed.
    pub(crate) fn forget_read(&self) {
        self.cache.begin_epoch();
        self.cache.forget();
        self.empty_ranges.forget();
    }

    /// Returns the memtable that takes writes.
    #[inline]
    pub(crate) fn memtable(&self) -> Rc<Memtable> {
        self.view.borrow().memtable.clone()
    }

    /// Replaces the snapshot by the result of `change`.
    pub(crate) fn change_view(&self, change: impl FnOnce(&TableView) -> TableView) {
        let changed = Rc::new(change(&self.view.borrow()));
        // Drop the old view only when the view is not borrowed any more, because the drop of a
        // memtable may borrow it.
        let old = self.view.replace(changed);
        drop(old);
    }

    /// Switches the memtable if a flush must write or free something of it. Returns whether it has
    /// done so.
    ///
    /// An empty memtable may have received writes that changed nothing. These writes hold segments
    /// of the log, too. It may also have index entries of a write that failed; the flush frees
    /// their memory.
    pub(crate) fn switch_used_memtable(&self) -> bool {
        let is_used = is_used(&self.memtable());
        if is_used {
            self.switch_memtable();
        }
        is_used
    }

    /// Freezes the memtable and puts an empty one in its place. Returns the frozen one, which stays
    /// readable.
    pub(crate) fn switch_memtable(&self) -> Rc<Memtable> {
        let frozen = self.memtable();
        frozen.freeze();
        let fresh = self.memtables.make(&self.metadata());
        self.change_view(|view| view.with_frozen_memtable(fresh));
        self.empty_ranges.begin_memtable();
        frozen
    }

    /// Returns the position in the commit log of the oldest unflushed write.
    pub(crate) fn oldest_unflushed(&self) -> Option<LogPosition> {
        let view = self.view.borrow();
        let truncation_state = self.truncated_memtables();
        let memtables = view.memtables().chain(&truncation_state);
        memtables.filter_map(|memtable| memtable.positions()).map(|(first, _)| first).min()
    }

    /// Returns the greatest write timestamp in µs of the table's data on this shard.
    pub(crate) fn maximum_timestamp(&self) -> Option<i64> {
        let view = self.view();
        let memtables = view.memtables().filter(|memtable| !memtable.is_empty());
        let memtables = memtables.map(|memtable| memtable.statistics().maximum_timestamp);
        let sstables = view.sstables.iter().map(|sstable| sstable.maximum_timestamp());
        memtables.chain(sstables).max()
    }

    /// Returns the table's compaction strategy.
    pub(crate) fn compaction_strategy(&self) -> Rc<CompactionStrategy> {
        self.compaction_strategy.borrow().clone()
    }

    /// Switches auto-compaction, regardless of the table's options, until its `compaction` option
    /// is altered.
    pub(crate) fn set_compacted_by_itself(&self, is_enabled: bool) {
        let strategy = self.compaction_strategy().with_enabled(is_enabled);
        *self.compaction_strategy.borrow_mut() = Rc::new(strategy);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.get()
    }

    pub(crate) fn set_dropped(&self) {
        self.is_dropped.set(true);
    }
}

/// Returns whether a flush must write or free something of a memtable.
fn is_used(memtable: &Memtable) -> bool {
    let has_entries = memtable.with_indexes(|indexes| indexes.has_entries()) == Some(true);
    has_entries || !memtable.is_empty() || memtable.positions().is_some()
}

/// Replaces the memtable by one that keeps the entries of the table's present indexes.
pub(crate) fn begin_indexes(table: &Table) {
    begin_memtable(table, &table.metadata());
}

/// Replaces the memtable by one without entries of secondary indexes. The caller calls
/// [`begin_indexes`] before it yields. The task that builds indexes then flushes the memtable, and
/// adds the entries to its SSTable.
pub(crate) fn begin_without_indexes(table: &Table) {
    begin_memtable(table, &table.metadata().rebuild().indexes(Vec::new()).build());
}

/// Replaces the memtable by one that keeps the entries of the indexes of `metadata`.
fn begin_memtable(table: &Table, metadata: &TableMetadata) {
    let old = table.memtable();
    old.freeze();
    let fresh = table.memtables.make(metadata);
    table.change_view(|view| {
        if is_used(&old) {
            view.with_frozen_memtable(fresh)
        } else {
            TableView { memtable: fresh, ..view.clone() }
        }
    });
    // A read that began before does not see the rows of the fresh memtable.
    table.empty_ranges.begin_memtable();
}

/// Returns the strategy of a table's options, or that of their class alone if the options are
/// invalid, as those of another node may be.
fn strategy_of(metadata: &TableMetadata) -> CompactionStrategy {
    CompactionStrategy::parse(&metadata.options.compaction).unwrap_or_else(|reason| {
        let (keyspace, table) = (&metadata.keyspace, &metadata.name);
        tracing::warn!(
            %keyspace,
            %table,
            %reason,
            "compaction options invalid, using the class with default options; correct them with \
            ALTER TABLE"
        );
        CompactionStrategy::fallback(&metadata.options.compaction)
    })
}

/// Warns of a compression with which this node cannot write. It came from another node.
fn warn_of_compression(metadata: &TableMetadata) {
    if let Err(reason) = metadata.options.compression_options() {
        let (keyspace, table) = (&metadata.keyspace, &metadata.name);
        tracing::warn!(
            %keyspace,
            %table,
            %reason,
            "compression options invalid, writing with LZ4; correct them with ALTER TABLE"
        );
    }
}

/// Returns the features of the table's own `sstable_format`, if it has one that this node can
/// write.
fn own_sstable_features(metadata: &TableMetadata) -> Option<&'static VersionFeatures> {
    metadata.options.sstable_format().and_then(Version::named)
}
