//! The tables of a shard.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use espalier_commitlog::ColumnMapping;
use espalier_mutation::{
    Mutation,
    schema::{Schema, TableId},
};
use espalier_runtime::log_limit::LogLimit;
use espalier_sstable::versions::{SpecialData, VersionFeatures};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    StorageError,
    system::{SCHEMA_KEYSPACE, is_virtual},
    table::Table,
};

thread_local! {
    /// Limits the log lines about late expiries to ten a minute on each shard (arbitrary).
    static LATE_EXPIRIES: LogLimit = const { LogLimit::at_most(10) };
}

/// The tables of a shard, and the schema that they have.
pub(crate) struct Tables {
    /// The schema that all shards share. It is replaced here when the tables agree with the new
    /// one.
    pub(crate) schema: RefCell<Arc<Schema>>,
    pub(crate) by_id: RefCell<HashMap<TableId, Rc<Table>, FixedState>>,
    next_mapping: Cell<u32>,
    /// Features of the configured `sstable_format`, for tables without one of their own.
    pub(crate) default_features: &'static VersionFeatures,
}

impl Tables {
    pub(super) fn new(schema: Arc<Schema>, default_features: &'static VersionFeatures) -> Self {
        Self {
            schema: RefCell::new(schema),
            by_id: RefCell::default(),
            next_mapping: Cell::new(0),
            default_features,
        }
    }

    /// Returns a table of this shard.
    pub(crate) fn get(&self, id: TableId) -> Result<Rc<Table>, StorageError> {
        self.by_id.borrow().get(&id).cloned().ok_or(StorageError::UnknownTable(id))
    }

    pub(crate) fn all(&self) -> Vec<Rc<Table>> {
        self.by_id.borrow().values().cloned().collect()
    }

    /// Returns the number of the next column mapping.
    pub(crate) fn next_mapping_number(&self) -> u32 {
        let number = self.next_mapping.get();
        self.next_mapping.set(number + 1);
        number
    }

    /// Returns the features of the table's `sstable_format`, or of the node's default.
    pub(crate) fn features_of(&self, table: &Table) -> &'static VersionFeatures {
        table.sstable_features(self.default_features)
    }

    /// Returns the features of the version in which an SSTable of a table with such data is
    /// written. The log names the version if it is not the table's because data expires late.
    pub(crate) fn features_with_room_for(
        &self,
        table: &Table,
        special: SpecialData,
    ) -> &'static VersionFeatures {
        let own = self.features_of(table);
        let features = own.with_room_for(special);
        if special == SpecialData::LateExpiries
            && features.version != own.version
            && let Some(left_out) = LATE_EXPIRIES.with(|limit| limit.due("late expiries"))
        {
            tracing::warn!(
                table = table.metadata().name,
                version = %features.version,
                left_out,
                "SSTable written in another version than the table's: rows may expire after \
                January 2038"
            );
        }
        features
    }

    /// Returns whether the whole table is on shard 0.
    pub(crate) fn is_on_first_shard(&self, id: TableId) -> bool {
        let schema = self.schema.borrow();
        schema.table_by_id(id).is_some_and(|table| table.keyspace == SCHEMA_KEYSPACE)
    }

    /// Returns whether a table that the mutation writes to has views.
    #[inline]
    pub(crate) fn has_views(&self, mutation: &Mutation) -> bool {
        let tables = self.by_id.borrow();
        mutation.updates.iter().any(|update| {
            tables.get(&update.table).is_some_and(|table| table.borrow_metadata().has_views())
        })
    }

    /// Returns the error of a table whose last flush failed; `None` if there is no such table.
    pub(crate) fn flush_failure(&self) -> Option<String> {
        let tables = self.by_id.borrow();
        tables.values().find_map(|table| table.flushes.failure())
    }

    /// Returns the ids of the tables of a keyspace, or of one of them. Virtual tables are unknown
    /// here, because they have no files.
    pub(crate) fn named(
        &self,
        keyspace: &str,
        table: Option<&str>,
    ) -> Result<Vec<TableId>, StorageError> {
        if is_virtual(keyspace) {
            return Err(StorageError::UnknownKeyspace(keyspace.to_owned()));
        }
        let schema = self.schema.borrow();
        if let Some(name) = table {
            let unknown = || StorageError::UnknownTableName {
                keyspace: keyspace.to_owned(),
                table: name.to_owned(),
            };
            return Ok(vec![schema.table(keyspace, name).ok_or_else(unknown)?.id]);
        }
        let unknown = || StorageError::UnknownKeyspace(keyspace.to_owned());
        let keyspace = schema.keyspace(keyspace).ok_or_else(unknown)?;
        Ok(keyspace.tables.values().map(|table| table.id).collect())
    }

    /// Returns the ids of some tables of a keyspace, or of all of them if `tables` is empty.
    pub(crate) fn listed(
        &self,
        keyspace: &str,
        tables: &[&str],
    ) -> Result<Vec<TableId>, StorageError> {
        if tables.is_empty() {
            return self.named(keyspace, None);
        }
        let mut ids = Vec::new();
        for table in tables {
            ids.extend(self.named(keyspace, Some(table))?);
        }
        Ok(ids)
    }
}

/// The column mapping of each update of a mutation.
pub(super) struct Mappings(SmallVec<[Rc<ColumnMapping>; 2]>);

impl Mappings {
    /// Returns the mappings of updates of these tables.
    pub(super) fn of(tables: &[Rc<Table>]) -> Self {
        Self(tables.iter().map(|table| table.borrow_mapping().clone()).collect())
    }

    /// Returns the number of the mapping of an update.
    pub(super) fn number(&self, update: usize) -> u32 {
        self.0.get(update).map_or(0, |mapping| mapping.number)
    }

    /// Returns each mapping once, because a batch may have many updates of one table.
    pub(super) fn distinct(&self) -> SmallVec<[&ColumnMapping; 2]> {
        let mut distinct: SmallVec<[&ColumnMapping; 2]> =
            self.0.iter().map(|mapping| &**mapping).collect();
        distinct.sort_unstable_by_key(|mapping| mapping.number);
        distinct.dedup_by_key(|mapping| mapping.number);
        distinct
    }
}
