//! The background task that writes missing entries of SSTables: of SSTables that are older than the
//! index, that were imported, or whose entries are damaged.
//!
//! The task flushes the memtables that were frozen when the index was created. It rewrites each
//! SSTable without entries by a compaction of this one file, which writes the entries of its rows.
//! Until then, a query by the index reads all rows of its target.

use std::{rc::Rc, time::Duration};

use espalier_memtable::Memtable;
use espalier_mutation::schema::TableMetadata;
use espalier_runtime::time;
use espalier_sstable::SSTable;

use crate::{Database, table::Table};

/// The interval at which the task looks for SSTables without entries. Arbitrary; CREATE INDEX wakes
/// the task.
const INTERVAL: Duration = Duration::from_secs(30);

/// The pause after a failure that concerns a whole table.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The minimum pause before the task tries an SSTable again. It gives other tasks time.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// Builds missing entries until the database closes.
pub(crate) async fn run(database: Database) {
    let mut pause = INTERVAL;
    loop {
        let _ = time::timeout(pause, database.index_wanted().notified()).await;
        pause = INTERVAL;
        for table in database.tables_here() {
            if database.is_closing() {
                return;
            }
            let built = match database.build_indexes(&table).await {
                Ok(()) => database.record_built_indexes(&table).await,
                Err(error) => Err(error),
            };
            if let Err(error) = built {
                let metadata = table.metadata();
                tracing::warn!(
                    %error,
                    keyspace = metadata.keyspace,
                    table = metadata.name,
                    "building secondary indexes failed, retrying after a pause; queries by the \
                     indexes read all rows until then"
                );
                pause = pause.min(RETRY_PAUSE);
            }
            let until_retry = table.index_failures.until_retry(time::Instant::now());
            pause = until_retry.map_or(pause, |left| pause.min(left.max(MIN_PAUSE)));
        }
        if database.is_closing() {
            return;
        }
    }
}

/// Returns whether a memtable has the entries of exactly the indexes of `table`.
pub(super) fn has_entries(memtable: &Memtable, table: &TableMetadata) -> bool {
    let wanted: Vec<(String, String)> =
        table.indexes.iter().map(|index| (index.name.clone(), index.signature(table))).collect();
    memtable.index_names() == wanted
}

/// Returns whether an SSTable has the entries of all indexes of `table`.
pub(super) fn is_indexed(sstable: &SSTable, table: &TableMetadata) -> bool {
    table.indexes.iter().all(|index| {
        let found = sstable.reader().secondary_index(&index.name);
        found.is_some_and(|found| found.signature() == index.signature(table))
    })
}

impl Table {
    /// Returns the SSTables that lack entries of an index.
    pub(crate) fn unindexed(&self) -> Vec<Rc<SSTable>> {
        let (view, metadata) = (self.view(), self.metadata());
        let is_missing = |sstable: &&Rc<SSTable>| !is_indexed(sstable, &metadata);
        view.sstables.iter().filter(is_missing).cloned().collect()
    }

    /// Returns whether all data of the table on this shard has the entries of the indexes of
    /// `wanted`, a version of the table.
    pub(crate) fn has_entries_of(&self, wanted: &TableMetadata) -> bool {
        self.borrow_metadata().has_indexes_of(wanted)
            && self.unindexed().is_empty()
            && !self.has_frozen_without_entries()
    }

    /// Returns whether a frozen memtable has other entries than the indexes of the table need.
    pub(crate) fn has_frozen_without_entries(&self) -> bool {
        let (view, metadata) = (self.view(), self.metadata());
        view.flushing.iter().any(|memtable| !has_entries(memtable, &metadata))
    }
}
