//! Defines a table: its columns by role, id and name, its options, and its dropped columns.

mod column_ids;

use std::{cmp::Ordering, collections::BTreeMap, fmt, ops::Range};

use espalier_types::CqlType;
use hashbrown::HashMap;
use uuid::Uuid;

use super::{
    ColumnConstraint, ColumnDefinition, ColumnId, ColumnKind, ColumnMask, DroppedColumn,
    IndexMetadata, TableLayout, TableOptions, ViewDefinition,
};
use crate::ClusteringComparator;

/// The id of a table, which is part of its directory's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub Uuid);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An immutable description of a table. A change makes a new one with [`TableMetadata::rebuild`].
#[derive(Clone, Debug, PartialEq)]
pub struct TableMetadata {
    /// The table's id.
    pub id: TableId,
    /// The name of the keyspace.
    pub keyspace: String,
    /// The name of the table.
    pub name: String,
    /// The table's options.
    pub options: TableOptions,
    /// The layout of its rows.
    pub layout: TableLayout,
    /// Dropped columns by name.
    pub dropped_columns: BTreeMap<String, DroppedColumn>,
    /// Secondary indexes, sorted by name.
    pub indexes: Vec<IndexMetadata>,
    /// The definition of the materialized view that this table holds; `None` for other tables.
    pub view: Option<Box<ViewDefinition>>,
    /// The names of the materialized views of this table, sorted. They are in its keyspace.
    pub views: Vec<String>,
    /// The number of changes within the process. A prepared statement is stale if its version
    /// differs.
    pub version: u64,
    /// Columns in the order partition key, clustering, static, regular; static and regular ones are
    /// sorted by the bytes of their names.
    pub(super) columns: Vec<ColumnDefinition>,
    next_column_id: u32,
    /// Ids of columns that were dropped and not added again.
    dropped_ids: BTreeMap<String, DroppedId>,
    /// The constraints of each column that has some.
    constraints: BTreeMap<ColumnId, Vec<ColumnConstraint>>,
    /// The mask of each column that has one.
    pub(super) masks: BTreeMap<ColumnId, ColumnMask>,
    /// The facts that follow from the columns and their drops.
    derived: Derived,
}

/// The facts about a table that follow from its columns and their drops.
#[derive(Clone, Debug, Default, PartialEq)]
struct Derived {
    partition_key: Range<usize>,
    clustering: Range<usize>,
    statics: Range<usize>,
    regulars: Range<usize>,
    by_name: HashMap<String, usize, foldhash::fast::FixedState>,
    by_id: Vec<Option<u32>>,
    comparator: ClusteringComparator,
    is_counter: bool,
    /// The latest drop of a column that was added again, in µs; `i64::MIN` if there is none.
    newest_former_drop_us: i64,
}

/// The id of a dropped column, for a column of the same name that is added later.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DroppedId {
    id: ColumnId,
    kind: ColumnKind,
    is_complex: bool,
}

/// Collects the parts of a table.
#[derive(Clone, Debug)]
pub struct TableBuilder {
    /// The parts so far. [`Self::build`] sorts them, and derives the rest. The table's `derived` is
    /// stale until then; call no accessor that reads it.
    pub(super) table: TableMetadata,
}

impl TableBuilder {
    /// Starts a table without columns and with default options.
    pub fn new(keyspace: impl Into<String>, name: impl Into<String>, id: TableId) -> Self {
        let table = TableMetadata {
            id,
            keyspace: keyspace.into(),
            name: name.into(),
            options: TableOptions::default(),
            layout: TableLayout::default(),
            dropped_columns: BTreeMap::new(),
            indexes: Vec::new(),
            view: None,
            views: Vec::new(),
            version: 0,
            columns: Vec::new(),
            next_column_id: 0,
            dropped_ids: BTreeMap::new(),
            constraints: BTreeMap::new(),
            masks: BTreeMap::new(),
            derived: Derived::default(),
        };
        Self { table }
    }

    fn add(mut self, name: &str, kind: ColumnKind, column_type: CqlType, reversed: bool) -> Self {
        let position = match kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => {
                self.table.columns.iter().rfind(|c| c.kind == kind).map_or(0, |c| c.position + 1)
            }
            _ => 0,
        };
        let id = self.id_of_new(name, kind, column_type.is_multi_cell());
        self.table.columns.push(ColumnDefinition {
            id,
            name: name.into(),
            kind,
            position,
            column_type,
            reversed,
        });
        self
    }

    /// Returns the id of a new column.
    ///
    /// A column that is added again with the same kind gets its former id, so that memtables show
    /// the cells that were written after the drop. Files show these cells too, because they
    /// identify columns by name.
    fn id_of_new(&mut self, name: &str, kind: ColumnKind, is_complex: bool) -> ColumnId {
        match self.table.dropped_ids.remove(name) {
            Some(former) if former.kind == kind && former.is_complex == is_complex => former.id,
            _ => {
                let id = ColumnId(self.table.next_column_id);
                self.table.next_column_id += 1;
                id
            }
        }
    }

    /// Adds the next partition key column. The caller freezes the type.
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

    /// Removes a static or regular column, if it exists, and records the drop. The record has
    /// tuples in place of user types, because a later statement may drop the types.
    pub fn drop_column(mut self, name: &str, dropped_time_us: i64) -> Self {
        if let Some(index) = self.table.columns.iter().position(|column| column.name == name) {
            let column = self.table.columns.remove(index);
            self.table.constraints.remove(&column.id);
            self.table.masks.remove(&column.id);
            let (id, kind, is_complex) = (column.id, column.kind, column.is_complex());
            self.table.dropped_ids.insert(name.into(), DroppedId { id, kind, is_complex });
            let dropped = DroppedColumn {
                name: column.name,
                column_type: column.column_type.without_user_types(),
                kind: column.kind,
                dropped_time_us,
            };
            self.table.dropped_columns.insert(name.into(), dropped);
        }
        self
    }

    /// Sets the constraints of a column, or removes them. Does nothing if there is no such column.
    pub fn constrain(mut self, name: &str, constraints: Vec<ColumnConstraint>) -> Self {
        if let Some(column) = self.table.columns.iter().find(|column| column.name == name) {
            if constraints.is_empty() {
                self.table.constraints.remove(&column.id);
            } else {
                self.table.constraints.insert(column.id, constraints);
            }
        }
        self
    }

    /// Records an earlier drop, which was read from the schema tables.
    pub fn dropped(mut self, dropped: DroppedColumn) -> Self {
        self.table.dropped_columns.insert(dropped.name.clone(), dropped);
        self
    }

    /// Changes columns in place (a rename, an altered UDT).
    pub fn update_columns(mut self, change: impl FnMut(&mut ColumnDefinition)) -> Self {
        self.table.columns.iter_mut().for_each(change);
        self
    }

    /// Sets the options.
    pub fn options(mut self, options: TableOptions) -> Self {
        self.table.options = options;
        self
    }

    /// Returns whether there is a column of that name.
    pub fn has_column(&self, name: &str) -> bool {
        self.table.columns.iter().any(|column| column.name == name)
    }

    /// Sets the layout of the rows.
    pub fn layout(mut self, layout: TableLayout) -> Self {
        self.table.layout = layout;
        self
    }

    /// Sets the secondary indexes.
    pub fn indexes(mut self, indexes: Vec<IndexMetadata>) -> Self {
        self.table.indexes = indexes;
        self
    }

    /// Makes the table that of a materialized view.
    pub fn view(mut self, view: ViewDefinition) -> Self {
        self.table.view = Some(Box::new(view));
        self
    }

    /// Sets the names of the table's materialized views.
    pub fn views(mut self, mut views: Vec<String>) -> Self {
        views.sort_unstable();
        self.table.views = views;
        self
    }

    /// Sorts the columns, and derives the facts that follow from them.
    pub fn build(self) -> TableMetadata {
        let Self { mut table } = self;
        table.indexes.sort_by(|left, right| left.name.cmp(&right.name));
        table.columns.sort_by(|a, b| {
            (a.kind, a.position).cmp(&(b.kind, b.position)).then_with(|| a.name.cmp(&b.name))
        });
        for dropped in table.dropped_columns.values() {
            let name = &dropped.name;
            let is_there = table.columns.iter().any(|column| column.name == *name);
            if is_there {
                table.dropped_ids.remove(name);
            } else if !table.dropped_ids.contains_key(name) {
                let id = ColumnId(table.next_column_id);
                table.next_column_id += 1;
                let (kind, is_complex) = (dropped.kind, dropped.column_type.is_multi_cell());
                table.dropped_ids.insert(name.clone(), DroppedId { id, kind, is_complex });
            }
        }
        table.derived = Derived::of(&table);
        table
    }
}

impl Derived {
    /// Returns the facts about a table whose columns are sorted.
    fn of(table: &TableMetadata) -> Self {
        let columns = &table.columns;
        let range = |kind| {
            let start = columns.partition_point(|column| column.kind < kind);
            start..columns.partition_point(|column| column.kind <= kind)
        };
        let clustering = range(ColumnKind::Clustering);
        let types = columns[clustering.clone()]
            .iter()
            .map(|column| (column.column_type.clone(), column.reversed))
            .collect();
        let mut by_id = vec![None; table.next_column_id as usize];
        for (index, column) in columns.iter().enumerate() {
            if let Some(slot) = by_id.get_mut(column.id.0 as usize) {
                *slot = Some(index as u32);
            }
        }
        Self {
            partition_key: range(ColumnKind::PartitionKey),
            clustering,
            statics: range(ColumnKind::Static),
            regulars: range(ColumnKind::Regular),
            by_name: columns.iter().enumerate().map(|(i, c)| (c.name.clone(), i)).collect(),
            by_id,
            comparator: ClusteringComparator { types },
            is_counter: columns.iter().any(|c| matches!(c.column_type, CqlType::Counter)),
            newest_former_drop_us: columns
                .iter()
                .filter_map(|column| table.dropped_columns.get(&column.name))
                .map(|dropped| dropped.dropped_time_us)
                .fold(i64::MIN, i64::max),
        }
    }
}

impl TableMetadata {
    /// Starts a builder with this table's parts and the next version.
    pub fn rebuild(&self) -> TableBuilder {
        let mut table = self.clone();
        table.version += 1;
        TableBuilder { table }
    }

    /// Returns all columns: partition key and clustering by position, then static and regular ones
    /// by name.
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    /// Returns the columns that CQL shows, in the order of `SELECT *`: all, but for the hidden ones
    /// of compact tables.
    pub fn visible_columns(&self) -> impl Iterator<Item = &ColumnDefinition> {
        self.columns.iter().filter(|column| !self.layout.hides(column))
    }

    /// Returns the partition key columns in key order.
    pub fn partition_key_columns(&self) -> &[ColumnDefinition] {
        &self.columns[self.derived.partition_key.clone()]
    }

    /// Returns the clustering columns in key order.
    pub fn clustering_columns(&self) -> &[ColumnDefinition] {
        &self.columns[self.derived.clustering.clone()]
    }

    /// Returns the static columns by name.
    pub fn static_columns(&self) -> &[ColumnDefinition] {
        &self.columns[self.derived.statics.clone()]
    }

    /// Returns the regular columns by name.
    pub fn regular_columns(&self) -> &[ColumnDefinition] {
        &self.columns[self.derived.regulars.clone()]
    }

    /// Returns the column of that name.
    pub fn column(&self, name: &str) -> Option<&ColumnDefinition> {
        self.derived.by_name.get(name).and_then(|index| self.columns.get(*index))
    }

    /// Returns the column of that name, if CQL shows it.
    pub fn visible_column(&self, name: &str) -> Option<&ColumnDefinition> {
        self.column(name).filter(|column| !self.layout.hides(column))
    }

    /// Returns the column with that id; `None` once it is dropped.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&ColumnDefinition> {
        let index = (*self.derived.by_id.get(id.0 as usize)?)?;
        self.columns.get(index as usize)
    }

    /// Returns whether a column of this version of the table, or of a version before it, has the
    /// id. If not, the id is of a newer version.
    #[inline]
    pub fn has_known_id(&self, id: ColumnId) -> bool {
        id.0 < self.next_column_id
    }

    /// Returns the time of the latest drop of a column that was added again, in µs; `i64::MIN` if
    /// there is none.
    ///
    /// Every later cell of the table's columns is valid.
    #[inline]
    pub fn newest_former_drop_us(&self) -> i64 {
        self.derived.newest_former_drop_us
    }

    /// Returns the table with the dropped columns that `keep` selects, as if they had been added
    /// again; `None` if it selects none.
    ///
    /// A writer with this table keeps the cells of these columns from after the drop, because a
    /// column may be added again. Counters cannot be added again.
    pub fn with_dropped(&self, keep: impl Fn(ColumnId, &DroppedColumn) -> bool) -> Option<Self> {
        if self.dropped_ids.is_empty() || self.derived.is_counter {
            return None;
        }
        let mut builder = self.rebuild();
        builder.table.version = self.version;
        let mut has_some = false;
        for (name, former) in &self.dropped_ids {
            let Some(dropped) = self.dropped_columns.get(name) else { continue };
            if !keep(former.id, dropped) {
                continue;
            }
            has_some = true;
            let column_type = dropped.column_type.clone();
            builder = builder.add(name, dropped.kind, column_type, false);
        }
        has_some.then(|| builder.build())
    }

    /// Returns the last drop of a column that was added again; `None` if it was never dropped.
    pub fn former_drop(&self, column: &ColumnDefinition) -> Option<&DroppedColumn> {
        self.dropped_columns.get(&column.name)
    }

    /// Returns the constraints of a column.
    pub fn constraints_of(&self, column: &ColumnDefinition) -> &[ColumnConstraint] {
        self.constraints.get(&column.id).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a column of the table has a constraint.
    pub fn has_constraints(&self) -> bool {
        !self.constraints.is_empty()
    }

    /// Returns the comparator with the order and types of the clustering columns.
    pub fn comparator(&self) -> &ClusteringComparator {
        &self.derived.comparator
    }

    /// Returns whether rows of `other` are valid rows of this table: columns and drops are the
    /// same. Options and names of the tables may differ.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        self.columns == other.columns
            && self.dropped_columns == other.dropped_columns
            && self.next_column_id == other.next_column_id
    }

    /// Returns the secondary index of that name.
    pub fn index(&self, name: &str) -> Option<&IndexMetadata> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// Returns whether the entries of all secondary indexes of `other` are those of this table.
    pub fn has_indexes_of(&self, other: &Self) -> bool {
        let signatures = |table: &Self| -> Vec<(String, String)> {
            let of = |index: &IndexMetadata| (index.name.clone(), index.signature(table));
            table.indexes.iter().map(of).collect()
        };
        (self.indexes.is_empty() && other.indexes.is_empty())
            || signatures(self) == signatures(other)
    }

    /// Returns whether the table's columns are counters.
    pub fn is_counter(&self) -> bool {
        self.derived.is_counter
    }

    /// Returns whether the table has static columns.
    pub fn has_static_columns(&self) -> bool {
        !self.derived.statics.is_empty()
    }

    /// Compares two cell paths of a complex column: of a list by timeuuid, of a set or map by
    /// element or key, of a UDT by field.
    pub fn compare_paths(&self, id: ColumnId, left: &[u8], right: &[u8]) -> Ordering {
        match self.column_by_id(id).map(|column| &column.column_type) {
            Some(CqlType::Set { element, .. }) => element.compare(left, right),
            Some(CqlType::Map { key, .. }) => key.compare(left, right),
            Some(CqlType::List { .. }) => CqlType::Timeuuid.compare(left, right),
            _ => left.cmp(right),
        }
    }

    /// Returns the name of the directory below the keyspace's: `name-<id without dashes>`.
    pub fn directory_name(&self) -> String {
        format!("{}-{}", self.name, self.id.0.simple())
    }
}
