//! The fast path: one row by its full primary key, plain columns, answered from the memtable without waiting.
//!
//! This is what most requests of most applications are. No row is built: cells are read from the packed row in place and
//! written straight into the result.

use bytes::Bytes;
use espalier_mutation::{
    PackedCell, PackedColumn,
    schema::{ColumnId, ColumnKind},
};
use espalier_storage::{Database, RowLookup};

use super::{PlannedSelect, SelectExpression, group::put};
use crate::{
    Error, ErrorCode, Result,
    restrictions::{Alternatives, ClusteringRestriction, PartitionRestriction, Partitions},
    result::Rows,
    term::Evaluation,
};

/// Where a result column comes from.
#[derive(Clone, Copy, Debug)]
pub enum PointColumn {
    /// A partition key column by position.
    PartitionKey(usize),
    /// A clustering column by position.
    Clustering(usize),
    /// A regular column.
    Regular(ColumnId),
}

/// Whether a SELECT can be answered this way, and how.
pub fn plan_point(select: &PlannedSelect) -> Option<Vec<PointColumn>> {
    let single = |alternatives: &Alternatives| matches!(alternatives, Alternatives::Terms(terms) if terms.len() == 1);
    let key_is_single = matches!(&select.restrictions.partition,
        PartitionRestriction::Keys(columns) if columns.iter().all(single));
    let row_is_single = select.restrictions.clustering.len() == select.table.clustering_columns().len()
        && select.restrictions.clustering.iter().all(
            |restriction| matches!(restriction, ClusteringRestriction::Values(alternatives) if single(alternatives)),
        );
    let is_plain = select.restrictions.filters.is_empty()
        && !select.is_aggregate
        && !select.is_distinct
        && select.limit.is_none()
        && select.per_partition_limit.is_none();
    if !key_is_single || !row_is_single || !is_plain || select.table.is_counter() {
        return None;
    }
    select
        .selectors
        .iter()
        .map(|selector| match selector {
            SelectExpression::Column(column) => match column.kind {
                ColumnKind::PartitionKey => Some(PointColumn::PartitionKey(column.position)),
                ColumnKind::Clustering => Some(PointColumn::Clustering(column.position)),
                ColumnKind::Regular if !column.is_complex() => {
                    Some(PointColumn::Regular(column.id))
                }
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// The answer, or `None` if it cannot be given without waiting.
pub fn execute_point(
    select: &PlannedSelect,
    database: &Database,
    evaluation: &Evaluation<'_>,
    now_s: u32,
) -> Option<Result<Rows>> {
    let columns = select.point.as_deref()?;
    let (key, clustering) = match key_and_clustering(select, evaluation) {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let components = match super::execute::key_components(&select.table, &key) {
        Ok(components) => components,
        Err(error) => return Some(Err(error)),
    };
    let written = database.try_read_row(&select.table, &key, &clustering, |lookup| {
        encode(&lookup, columns, &components, &clustering, now_s)
    })?;
    Some(written.map(|content| Rows {
        metadata: select.metadata.clone(),
        row_count: i32::from(content.is_some()),
        content: content.unwrap_or_default(),
        paging_state: None,
        warnings: Vec::new(),
    }))
}

fn key_and_clustering(
    select: &PlannedSelect,
    evaluation: &Evaluation<'_>,
) -> Result<(espalier_mutation::DecoratedKey, Vec<Option<Bytes>>)> {
    let Partitions::Keys(mut keys) =
        select.restrictions.partition.partitions(&select.table, evaluation)?
    else {
        return Err(Error::new(ErrorCode::ServerError, "a point read without a key"));
    };
    let key = keys
        .pop()
        .ok_or_else(|| Error::new(ErrorCode::ServerError, "a point read without a key"))?;
    let mut values = Vec::with_capacity(select.restrictions.clustering.len());
    for (restriction, column) in
        select.restrictions.clustering.iter().zip(select.table.clustering_columns())
    {
        if let ClusteringRestriction::Values(alternatives) = restriction {
            values.extend(alternatives.evaluate(&column.name, evaluation)?.into_iter().map(Some));
        }
    }
    Ok((key, values))
}

/// The encoded row; `None` if there is no live row.
fn encode(
    lookup: &RowLookup<'_>,
    columns: &[PointColumn],
    components: &[Bytes],
    clustering: &[Option<Bytes>],
    now_s: u32,
) -> Result<Option<Vec<u8>>> {
    let Some(row) = &lookup.row else { return Ok(None) };
    let deletion = lookup.partition_deletion.max(lookup.range_deletion).max(row.deletion);
    let malformed = |error| Error::new(ErrorCode::ServerError, format!("memtable: {error}"));
    let mut is_live = row.liveness.is_live(now_s) && !deletion.deletes(row.liveness.timestamp);
    let mut cells: Vec<(ColumnId, PackedCell<'_>)> = Vec::with_capacity(columns.len());
    for column in row.columns() {
        match column.map_err(malformed)? {
            PackedColumn::Simple(id, cell) => {
                if cell.is_live(now_s) && !deletion.deletes(cell.timestamp) {
                    is_live = true;
                    cells.push((id, cell));
                }
            }
            PackedColumn::Complex(_, own, elements) => {
                let deletion = deletion.max(own);
                for element in elements {
                    let (_, cell) = element.map_err(malformed)?;
                    is_live |= cell.is_live(now_s) && !deletion.deletes(cell.timestamp);
                }
            }
        }
    }
    if !is_live {
        return Ok(None);
    }
    let mut content = Vec::with_capacity(256);
    for column in columns {
        match column {
            PointColumn::PartitionKey(position) => {
                put(components.get(*position).map(Bytes::as_ref), &mut content)
            }
            PointColumn::Clustering(position) => {
                put(clustering.get(*position).and_then(Option::as_deref), &mut content);
            }
            PointColumn::Regular(id) => {
                let cell = cells
                    .binary_search_by_key(id, |(other, _)| *other)
                    .ok()
                    .map(|index| cells[index].1.value);
                put(cell, &mut content);
            }
        }
    }
    Ok(Some(content))
}
