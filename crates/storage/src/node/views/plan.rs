//! Makes the row of a view from a row of its base table, by a plan for each view.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, DecoratedKey, DeletionTime, Liveness, Row,
    build_composite,
    schema::{ColumnDefinition, ColumnId, ColumnKind, Schema, TableMetadata, ViewCondition},
};
use espalier_types::CqlType;

/// The longest partition key and the longest clustering, in bytes.
const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// The plan of one view of a base table.
#[derive(Debug)]
pub(crate) struct ViewPlan {
    pub(crate) base: Arc<TableMetadata>,
    pub(crate) view: Arc<TableMetadata>,
    partition_key: Vec<KeySource>,
    clustering: Vec<KeySource>,
    /// The column of the view's key that is not in the base table's key.
    extra: Option<ColumnId>,
    /// The regular columns of the view: their ids in the view, ascending, and in the base table.
    selected: Vec<(ColumnId, ColumnId)>,
    conditions: Vec<PlannedCondition>,
}

/// The place of a value of the view's key in a base row.
#[derive(Clone, Copy, Debug)]
enum KeySource {
    Partition(usize),
    Clustering(usize),
    Extra,
}

#[derive(Debug)]
struct PlannedCondition {
    condition: ViewCondition,
    sources: Vec<KeySource>,
    types: Vec<CqlType>,
}

/// A row of a view, with its live content only.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewRow {
    pub(crate) key: DecoratedKey,
    pub(crate) row: Row,
}

/// The values from which the plan makes a key of the view.
struct KeyValues<'r> {
    partition: &'r [Bytes],
    row: &'r Row,
    extra: Option<&'r Bytes>,
}

impl KeyValues<'_> {
    fn get(&self, source: KeySource) -> Option<&Bytes> {
        match source {
            KeySource::Partition(index) => self.partition.get(index),
            KeySource::Clustering(index) => self.row.clustering.values.get(index)?.as_ref(),
            KeySource::Extra => self.extra,
        }
    }
}

impl ViewPlan {
    pub(crate) fn of_base(schema: &Schema, base: &Arc<TableMetadata>) -> Vec<ViewPlan> {
        let views = base.views.iter().filter_map(|name| schema.table(&base.keyspace, name));
        views.filter_map(|view| Self::new(base, view)).collect()
    }

    /// Returns the plan of a view; `None` if the table is no view of the base table.
    pub(crate) fn new(base: &Arc<TableMetadata>, view: &Arc<TableMetadata>) -> Option<ViewPlan> {
        let definition = view.view.as_ref().filter(|definition| definition.base == base.id)?;
        let mut extra = None;
        let mut source_of = |name: &str| {
            let column = base.column(name)?;
            Some(match column.kind {
                ColumnKind::PartitionKey => KeySource::Partition(column.position),
                ColumnKind::Clustering => KeySource::Clustering(column.position),
                _ => {
                    extra = Some(column.id);
                    KeySource::Extra
                }
            })
        };
        let mut sources_of = |columns: &[ColumnDefinition]| {
            columns.iter().map(|column| source_of(&column.name)).collect::<Option<Vec<_>>>()
        };
        let partition_key = sources_of(view.partition_key_columns())?;
        let clustering = sources_of(view.clustering_columns())?;
        let conditions = definition.conditions.iter().map(|condition| {
            let columns = condition.columns.iter().map(|name| base.column(name));
            let columns = columns.collect::<Option<Vec<_>>>()?;
            let sources = condition.columns.iter().map(|name| source_of(name));
            Some(PlannedCondition {
                condition: condition.clone(),
                sources: sources.collect::<Option<_>>()?,
                types: columns.iter().map(|column| column.column_type.clone()).collect(),
            })
        });
        let conditions = conditions.collect::<Option<_>>()?;
        let selected = view.regular_columns().iter().map(|column| {
            let of_base = base.column(&column.name)?;
            Some((column.id, of_base.id))
        });
        let mut selected = selected.collect::<Option<Vec<_>>>()?;
        selected.sort_unstable();
        Some(ViewPlan {
            base: base.clone(),
            view: view.clone(),
            partition_key,
            clustering,
            extra,
            selected,
            conditions,
        })
    }

    /// Returns whether a regular column of the base table is in the view's key, so that rows of the
    /// view move.
    pub(crate) fn moves(&self) -> bool {
        self.extra.is_some()
    }

    /// Returns the view's row of a base row at second `now_s`; `None` if the view has none.
    /// `partition` holds the values of the base table's partition key. The caller has applied the
    /// deletions that cover the row.
    pub(crate) fn row_of(&self, partition: &[Bytes], row: &Row, now_s: u32) -> Option<ViewRow> {
        if !row.is_live(now_s) {
            return None;
        }
        let extra = match self.extra {
            None => None,
            Some(id) => match row.column(id) {
                Some(ColumnData::Simple(cell)) if cell.is_live(now_s) => Some(cell),
                _ => return None,
            },
        };
        let values = KeyValues { partition, row, extra: extra.map(|cell| &cell.value) };
        if !self.conditions.iter().all(|condition| condition.holds(&values)) {
            return None;
        }
        let key = self.partition_key(&values)?;
        let clustering = self.clustering.iter().map(|source| Some(values.get(*source)?.clone()));
        let clustering = clustering.collect::<Option<Vec<Bytes>>>()?;
        if clustering.iter().map(Bytes::len).sum::<usize>() > MAX_KEY_BYTES {
            return None;
        }
        let mut made = Row::empty(Clustering::new(clustering));
        made.liveness = match extra {
            Some(cell) => Liveness {
                timestamp: cell.timestamp,
                ttl: cell.ttl,
                local_expiration: cell.local_deletion_time,
            },
            None => self.liveness_of(row, now_s),
        };
        for (id, of_base) in &self.selected {
            let data = row.column(*of_base).and_then(|data| live_data(data, extra, now_s));
            made.columns.extend(data.map(|data| (*id, data)));
        }
        Some(ViewRow { key, row: made })
    }

    fn partition_key(&self, values: &KeyValues<'_>) -> Option<DecoratedKey> {
        let parts = self.partition_key.iter().map(|source| values.get(*source));
        let parts = parts.collect::<Option<Vec<&Bytes>>>()?;
        let is_short = |part: &&Bytes| part.len() <= MAX_KEY_BYTES;
        let key = match parts.as_slice() {
            [only] => (*only).clone(),
            parts if parts.iter().all(is_short) => build_composite(parts),
            _ => return None,
        };
        (!key.is_empty() && key.len() <= MAX_KEY_BYTES).then(|| DecoratedKey::new(key))
    }

    /// Returns a liveness that lets the view's row exist as long as the base row. Cells of columns
    /// that the view itself has do not count.
    fn liveness_of(&self, row: &Row, now_s: u32) -> Liveness {
        let mut made = if row.liveness.is_live(now_s) { row.liveness } else { Liveness::NONE };
        let mut extend = |cell: &Cell| {
            if cell.is_live(now_s)
                && (made.is_none() || made.local_expiration < cell.local_deletion_time)
            {
                made = Liveness {
                    timestamp: made.timestamp.max(cell.timestamp),
                    ttl: cell.ttl,
                    local_expiration: cell.local_deletion_time,
                };
            }
        };
        let is_selected = |id| self.selected.iter().any(|(_, of_base)| *of_base == id);
        for (id, data) in &row.columns {
            if is_selected(*id) || self.base.column_by_id(*id).is_none() {
                continue;
            }
            match data {
                ColumnData::Simple(cell) => extend(cell),
                ColumnData::Complex(column) => {
                    column.cells.iter().for_each(|(_, cell)| extend(cell))
                }
            }
        }
        made
    }

    /// Returns the reason why the view cannot have the row of a write; `None` if it can.
    ///
    /// A view's key depends on the base table's key and on one cell, so all rows whose writes pass
    /// this check have valid keys. A write that only deletes makes no row, so it is never refused.
    pub(crate) fn refusal(&self, partition: &[Bytes], row: &Row) -> Option<String> {
        if row.liveness.is_none() && !has_cell(row) {
            return None;
        }
        let extra = match self.extra {
            None => None,
            Some(id) => match row.column(id)? {
                ColumnData::Simple(cell) if !cell.is_tombstone() => Some(&cell.value),
                _ => return None,
            },
        };
        let values = KeyValues { partition, row, extra };
        if !self.conditions.iter().all(|condition| condition.holds(&values)) {
            return None;
        }
        let bytes_of = |sources: &[KeySource]| -> usize {
            sources.iter().filter_map(|source| values.get(*source)).map(Bytes::len).sum()
        };
        let (key, clustering) = (bytes_of(&self.partition_key), bytes_of(&self.clustering));
        let name = &self.view.name;
        if self.partition_key(&values).is_none() {
            return Some(format!("a partition key of {key} bytes in the materialized view {name}"));
        }
        (clustering > MAX_KEY_BYTES)
            .then(|| format!("a clustering of {clustering} bytes in the materialized view {name}"))
    }

    /// Returns the partition key and the clustering of the base row of a view's row.
    pub(crate) fn base_place(
        &self,
        partition: &[Bytes],
        row: &Row,
    ) -> Option<(DecoratedKey, Clustering)> {
        let value = |name: &str| {
            let column = self.view.column(name)?;
            match column.kind {
                ColumnKind::PartitionKey => partition.get(column.position).cloned(),
                _ => row.clustering.values.get(column.position)?.clone(),
            }
        };
        let values = |columns: &[ColumnDefinition]| {
            columns.iter().map(|column| value(&column.name)).collect::<Option<Vec<Bytes>>>()
        };
        let key = match values(self.base.partition_key_columns())?.as_slice() {
            [only] => only.clone(),
            parts => build_composite(parts),
        };
        let clustering = values(self.base.clustering_columns())?;
        Some((DecoratedKey::new(key), Clustering::new(clustering)))
    }
}

impl PlannedCondition {
    fn holds(&self, values: &KeyValues<'_>) -> bool {
        let found = self.sources.iter().map(|source| values.get(*source).map(|value| &value[..]));
        let Some(found) = found.collect::<Option<Vec<&[u8]>>>() else { return false };
        let types: Vec<&CqlType> = self.types.iter().collect();
        self.condition.holds(&types, &found)
    }
}

/// Returns whether a row has a cell that is no tombstone.
fn has_cell(row: &Row) -> bool {
    row.columns.iter().any(|(_, data)| match data {
        ColumnData::Simple(cell) => !cell.is_tombstone(),
        ColumnData::Complex(column) => column.cells.iter().any(|(_, cell)| !cell.is_tombstone()),
    })
}

/// Returns the live part of a column. This part expires no later than `key`, the base row's cell in
/// the view's key, because the view has no row without that cell.
fn live_data(data: &ColumnData, key: Option<&Cell>, now_s: u32) -> Option<ColumnData> {
    match data {
        ColumnData::Simple(cell) => live_cell(cell, key, now_s).map(ColumnData::Simple),
        ColumnData::Complex(column) => {
            let cells = column.cells.iter();
            let cells: Vec<_> = cells
                .filter_map(|(path, cell)| Some((path.clone(), live_cell(cell, key, now_s)?)))
                .collect();
            let complex = ComplexColumn { deletion: DeletionTime::LIVE, cells };
            (!complex.cells.is_empty()).then_some(ColumnData::Complex(complex))
        }
    }
}

fn live_cell(cell: &Cell, key: Option<&Cell>, now_s: u32) -> Option<Cell> {
    if !cell.is_live(now_s) {
        return None;
    }
    let limit = key.filter(|key| key.local_deletion_time < cell.local_deletion_time);
    Some(match limit {
        None => cell.clone(),
        Some(key) => {
            Cell::expiring(cell.timestamp, key.ttl, key.local_deletion_time, cell.value.clone())
        }
    })
}
