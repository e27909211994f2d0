//! A table: columns by part, by id and by name, options, dropped columns.

use std::{cmp::Ordering, collections::BTreeMap, fmt, ops::Range};

use espalier_types::CqlType;
use hashbrown::HashMap;
use uuid::Uuid;

use super::{ColumnDefinition, ColumnId, ColumnKind, DroppedColumn, TableOptions};
use crate::ClusteringComparator;

/// A table's id; part of its directory's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub Uuid);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An immutable description of a table. A change makes a new one ([`TableMetadata::rebuild`]).
#[derive(Debug, PartialEq)]
pub struct TableMetadata {
    /// Id.
    pub id: TableId,
    /// Keyspace name.
    pub keyspace: String,
    /// Table name.
    pub name: String,
    /// Options.
    pub options: TableOptions,
    /// Dropped columns by name.
    pub dropped_columns: BTreeMap<String, DroppedColumn>,
    /// Counts the changes within the process: a prepared statement is stale if its table's differs.
    pub version: u64,
    /// Partition key, clustering, static, regular; statics and regulars in order of name bytes.
    columns: Vec<ColumnDefinition>,
    partition_key: Range<usize>,
    clustering: Range<usize>,
    statics: Range<usize>,
    regulars: Range<usize>,
    by_name: HashMap<String, usize, foldhash::fast::FixedState>,
    by_id: Vec<Option<u32>>,
    comparator: ClusteringComparator,
    next_column_id: u32,
    is_counter: bool,
    /// Ids of the columns that are dropped and were not added again.
    dropped_ids: BTreeMap<String, DroppedId>,
    /// The latest drop of a column that was added again, in µs; `i64::MIN` if there is none.
    newest_former_drop_us: i64,
}

/// The id that a dropped column had, for a column of the same name that is added later.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DroppedId {
    id: ColumnId,
    kind: ColumnKind,
    is_complex: bool,
}

/// Collects what a table is made of.
#[derive(Clone, Debug)]
pub struct TableBuilder {
    id: TableId,
    keyspace: String,
    name: String,
    options: TableOptions,
    dropped_columns: BTreeMap<String, DroppedColumn>,
    version: u64,
    columns: Vec<ColumnDefinition>,
    next_column_id: u32,
    dropped_ids: BTreeMap<String, DroppedId>,
}

impl TableBuilder {
    /// A table without columns and with default options.
    pub fn new(keyspace: impl Into<String>, name: impl Into<String>, id: TableId) -> Self {
        Self {
            id,
            keyspace: keyspace.into(),
            name: name.into(),
            options: TableOptions::default(),
            dropped_columns: BTreeMap::new(),
            version: 0,
            columns: Vec::new(),
            next_column_id: 0,
            dropped_ids: BTreeMap::new(),
        }
    }

    fn add(mut self, name: &str, kind: ColumnKind, column_type: CqlType, reversed: bool) -> Self {
        let position = match kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => {
                self.columns.iter().filter(|column| column.kind == kind).count()
            }
            _ => 0,
        };
        let id = self.id_of_new(name, kind, column_type.is_multi_cell());
        self.columns.push(ColumnDefinition {
            id,
            name: name.into(),
            kind,
            position,
            column_type,
            reversed,
        });
        self
    }

    /// The id of a new column. A column that is added again gets its former id, so that memtables
    /// show its cells after the drop, as files do, which know columns by name.
    fn id_of_new(&mut self, name: &str, kind: ColumnKind, is_complex: bool) -> ColumnId {
        match self.dropped_ids.remove(name) {
            Some(former) if former.kind == kind && former.is_complex == is_complex => former.id,
            _ => {
                let id = ColumnId(self.next_column_id);
                self.next_column_id += 1;
                id
            }
        }
    }

    /// Adds the next partition key column. Key columns' types are frozen by the caller.
    pub fn partition_key(self, name: &str, column_type: CqlType) -> Self {
        self.add(name, ColumnKind::PartitionKey, column_type, false)
    }

    /// Adds the next clustering column.
    pub fn clustering(self, name: &str, column_type: CqlType, reversed: bool) -> Self {
        self.add(name, ColumnKind::Clustering, column_type, reversed)
    }

    /// Adds a static column.
    pub fn static_column(self, name: &str, column_type: CqlType) -> Self {
        self.add(name, ColumnKind::Static, column_type, false)
    }

    /// Adds a regular column.
    pub fn regular(self, name: &str, column_type: CqlType) -> Self {
        self.add(name, ColumnKind::Regular, column_type, false)
    }

    /// Removes a static or regular column, remembering the drop.
    pub fn drop_column(mut self, name: &str, dropped_time_us: i64) -> Self {
        if let Some(index) = self.columns.iter().position(|column| column.name == name) {
            let column = self.columns.remove(index);
            let (id, kind, is_complex) = (column.id, column.kind, column.is_complex());
            self.dropped_ids.insert(name.into(), DroppedId { id, kind, is_complex });
            let dropped = DroppedColumn {
                name: column.name,
                column_type: column.column_type,
                kind: column.kind,
                dropped_time_us,
            };
            self.dropped_columns.insert(name.into(), dropped);
        }
        self
    }

    /// Remembers a drop that happened before (read from the schema tables).
    pub fn dropped(mut self, dropped: DroppedColumn) -> Self {
        self.dropped_columns.insert(dropped.name.clone(), dropped);
        self
    }

    /// Changes a column in place (rename, altered UDT).
    pub fn update_columns(mut self, change: impl FnMut(&mut ColumnDefinition)) -> Self {
        self.columns.iter_mut().for_each(change);
        self
    }

    /// Sets the options.
    pub fn options(mut self, options: TableOptions) -> Self {
        self.options = options;
        self
    }

    /// Sorts and indexes the columns.
    pub fn build(mut self) -> TableMetadata {
        self.columns.sort_by(|a, b| {
            (a.kind, a.position).cmp(&(b.kind, b.position)).then_with(|| a.name.cmp(&b.name))
        });
        for dropped in self.dropped_columns.values() {
            let name = &dropped.name;
            let is_there = self.columns.iter().any(|column| column.name == *name);
            if is_there {
                self.dropped_ids.remove(name);
            } else if !self.dropped_ids.contains_key(name) {
                let id = ColumnId(self.next_column_id);
                self.next_column_id += 1;
                let (kind, is_complex) = (dropped.kind, dropped.column_type.is_multi_cell());
                self.dropped_ids.insert(name.clone(), DroppedId { id, kind, is_complex });
            }
        }
        let columns = self.columns;
        let range = |kind| {
            let start = columns.partition_point(|column| column.kind < kind);
            start..columns.partition_point(|column| column.kind <= kind)
        };
        let clustering = range(ColumnKind::Clustering);
        let types = columns[clustering.clone()]
            .iter()
            .map(|column| (column.column_type.clone(), column.reversed))
            .collect();
        let mut by_id = vec![None; self.next_column_id as usize];
        for (index, column) in columns.iter().enumerate() {
            if let Some(slot) = by_id.get_mut(column.id.0 as usize) {
                *slot = Some(index as u32);
            }
        }
        TableMetadata {
            id: self.id,
            keyspace: self.keyspace,
            name: self.name,
            options: self.options,
            version: self.version,
            partition_key: range(ColumnKind::PartitionKey),
            statics: range(ColumnKind::Static),
            regulars: range(ColumnKind::Regular),
            by_name: columns.iter().enumerate().map(|(i, c)| (c.name.clone(), i)).collect(),
            by_id,
            comparator: ClusteringComparator { types },
            next_column_id: self.next_column_id,
            is_counter: columns.iter().any(|c| matches!(c.column_type, CqlType::Counter)),
            newest_former_drop_us: columns
                .iter()
                .filter_map(|column| self.dropped_columns.get(&column.name))
                .map(|dropped| dropped.dropped_time_us)
                .fold(i64::MIN, i64::max),
            dropped_ids: self.dropped_ids,
            dropped_columns: self.dropped_columns,
            clustering,
            columns,
        }
    }
}

impl TableMetadata {
    /// A builder that holds this table, with the next version.
    pub fn rebuild(&self) -> TableBuilder {
        TableBuilder {
            id: self.id,
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            options: self.options.clone(),
            dropped_columns: self.dropped_columns.clone(),
            version: self.version + 1,
            columns: self.columns.clone(),
            next_column_id: self.next_column_id,
            dropped_ids: self.dropped_ids.clone(),
        }
    }

    /// All columns: partition key, clustering, then statics and regulars, each by name. This is the order of `SELECT *`.
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    /// Partition key columns in key order.
    pub fn partition_key_columns(&self) -> &[ColumnDefinition] {
        &self.columns[self.partition_key.clone()]
    }

    /// Clustering columns in key order.
    pub fn clustering_columns(&self) -> &[ColumnDefinition] {
        &self.columns[self.clustering.clone()]
    }

    /// Static columns by name.
    pub fn static_columns(&self) -> &[ColumnDefinition] {
        &self.columns[self.statics.clone()]
    }

    /// Regular columns by name.
    pub fn regular_columns(&self) -> &[ColumnDefinition] {
        &self.columns[self.regulars.clone()]
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&ColumnDefinition> {
        self.by_name.get(name).and_then(|index| self.columns.get(*index))
    }

    /// The column with that id; `None` once it is dropped.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&ColumnDefinition> {
        let index = (*self.by_id.get(id.0 as usize)?)?;
        self.columns.get(index as usize)
    }

    /// The latest drop of a column that was added again, in µs; `i64::MIN` if there is none. All
    /// later cells of the table's columns count.
    #[inline]
    pub fn newest_former_drop_us(&self) -> i64 {
        self.newest_former_drop_us
    }

    /// The table with the dropped columns that `keep` selects, as if they had been added again. A
    /// writer with this table keeps cells after the drop, because the column may be added again.
    /// `None` if `keep` selects no column. Counters cannot be added again.
    pub fn with_dropped(&self, keep: impl Fn(ColumnId, &DroppedColumn) -> bool) -> Option<Self> {
        let mut builder = self.rebuild();
        builder.version = self.version;
        let mut has_some = false;
        for (name, former) in &self.dropped_ids {
            let Some(dropped) = self.dropped_columns.get(name) else { continue };
            if self.is_counter || !keep(former.id, dropped) {
                continue;
            }
            has_some = true;
            let column_type = dropped.column_type.clone();
            builder = builder.add(name, dropped.kind, column_type, false);
        }
        has_some.then(|| builder.build())
    }

    /// The last drop of a column that was added again; `None` if it was never dropped.
    pub fn former_drop(&self, column: &ColumnDefinition) -> Option<&DroppedColumn> {
        self.dropped_columns.get(&column.name)
    }

    /// Order and types of the clustering columns.
    pub fn comparator(&self) -> &ClusteringComparator {
        &self.comparator
    }

    /// Whether rows of one are rows of the other: the columns, and what was dropped, are the same. Options and names may differ.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        self.columns == other.columns
            && self.dropped_columns == other.dropped_columns
            && self.next_column_id == other.next_column_id
    }

    /// Whether its columns are counters.
    pub fn is_counter(&self) -> bool {
        self.is_counter
    }

    /// Whether it has static columns.
    pub fn has_static_columns(&self) -> bool {
        !self.statics.is_empty()
    }

    /// Compares two cell paths of a complex column: list by timeuuid, set and map by element or key, UDT by field.
    pub fn compare_paths(&self, id: ColumnId, left: &[u8], right: &[u8]) -> Ordering {
        match self.column_by_id(id).map(|column| &column.column_type) {
            Some(CqlType::Set { element, .. }) => element.compare(left, right),
            Some(CqlType::Map { key, .. }) => key.compare(left, right),
            Some(CqlType::List { .. }) => CqlType::Timeuuid.compare(left, right),
            _ => left.cmp(right),
        }
    }

    /// Directory name below the keyspace's: `name-<id without dashes>`.
    pub fn directory_name(&self) -> String {
        format!("{}-{}", self.name, self.id.0.simple())
    }
}
