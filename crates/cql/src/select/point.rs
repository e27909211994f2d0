//! The fast path: one row by its full primary key, plain columns, answered from memory without waiting, or with a wait for each page
//! that is not there.
//!
//! This is what most requests of most applications are. No row is built: cells are read from the packed row, of a memtable in
//! place, and written straight into the result.

use std::sync::Arc;

use espalier_mutation::{
    PackedColumn,
    schema::{ColumnId, ColumnKind},
};
use espalier_runtime::trace;
use espalier_storage::{Database, RowLookup, gives_values_back};
use smallvec::SmallVec;

use super::{PlannedSelect, SelectExpression, group::put};
use crate::{
    Error, ErrorCode, Result, Rows,
    options::Value,
    prepared::{Plan, Prepared},
    restrictions::PointKey,
    term::{BorrowedBound, Term},
};

/// How a SELECT is answered as a point read.
#[derive(Clone, Debug)]
pub struct PointSelect {
    key: PointKey,
    columns: Box<[PointColumn]>,
}

/// Where a result column comes from.
#[derive(Clone, Debug)]
enum PointColumn {
    /// A primary key column: what it was asked by.
    Key(Term),
    /// A regular column.
    Regular(ColumnId),
}

impl PointSelect {
    /// Whether a SELECT can be answered this way, and how.
    pub fn plan(select: &PlannedSelect) -> Option<PointSelect> {
        let key = select.restrictions.point(&select.table)?;
        let is_plain = !select.is_aggregate
            && !select.is_distinct
            && select.limit.is_none()
            && select.per_partition_limit.is_none();
        // Where different bytes are the same clustering value, the row has those that were written first.
        if !is_plain || select.table.is_counter() || !gives_values_back(select.table.comparator()) {
            return None;
        }
        let columns = select.selectors.iter().map(|selector| match selector {
            SelectExpression::Column(column) => match column.kind {
                ColumnKind::PartitionKey => {
                    key.partition_term(column.position).cloned().map(PointColumn::Key)
                }
                ColumnKind::Clustering => {
                    key.clustering_term(column.position).cloned().map(PointColumn::Key)
                }
                ColumnKind::Regular if !column.is_complex() => {
                    Some(PointColumn::Regular(column.id))
                }
                _ => None,
            },
            _ => None,
        });
        let columns = columns.collect::<Option<_>>()?;
        Some(PointSelect { key, columns })
    }
}

impl PlannedSelect {
    /// The key of the only row that it reads.
    pub fn point_key(&self) -> Option<&PointKey> {
        self.point.as_ref().map(|point| &point.key)
    }
}

/// Puts the row in `row` and tells whether there is one; `None` if that is for the general path, because it cannot be told
/// without waiting, or is an error. `values` are checked against their markers; `buffer` is for the key.
#[inline]
pub fn execute_point(
    select: &PlannedSelect,
    database: &Database,
    values: &[Value],
    now_s: u32,
    buffer: &mut Vec<u8>,
    row: &mut Vec<u8>,
) -> Option<Result<bool>> {
    let point = select.point.as_ref()?;
    let key = point.key.partition(values, buffer)?;
    let clustering = point.key.clustering(values)?;
    let may_use_caches = !select.bypass_cache;
    database.try_read_row(&select.table, key, &clustering, may_use_caches, |lookup| {
        encode(&lookup, select, &point.columns, values, now_s, row)
    })
}

/// The same for those who can wait: for pages, or for the shard that owns the row. `None` if that is for the general path.
pub async fn execute_point_with_waits(
    statement: &Arc<Prepared>,
    database: &Database,
    values: &[Value],
    now_s: u32,
) -> Option<Result<Rows>> {
    let Plan::Select(select) = &statement.plan else { return None };
    let point = select.point.as_ref().filter(|_| !select.bypass_cache && !trace::is_on())?;
    let (mut buffer, mut content) = (Vec::new(), Vec::new());
    let key = point.key.partition(values, &mut buffer)?;
    if let Some(owner) = database.other_owner(&select.table, key.token) {
        let (statement, values) = (statement.clone(), values.to_vec());
        let there = database.on_shard(owner, move |database| async move {
            // In a box: it is the same function.
            Box::pin(execute_point_with_waits(&statement, &database, &values, now_s)).await
        });
        return there.await;
    }
    let clustering = point.key.clustering(values)?;
    let found = database.read_row(&select.table, key, &clustering, |lookup| {
        encode(&lookup, select, &point.columns, values, now_s, &mut content)
    });
    let row_count = match found.await? {
        Ok(found) => i32::from(found),
        Err(error) => return Some(Err(error)),
    };
    let metadata = select.metadata.clone();
    Some(Ok(Rows { metadata, row_count, content, paging_state: None, warnings: Vec::new() }))
}

/// Encodes the row into `content`; `false` if there is no live row.
#[inline]
fn encode(
    lookup: &RowLookup<'_>,
    select: &PlannedSelect,
    columns: &[PointColumn],
    values: &[Value],
    now_s: u32,
    content: &mut Vec<u8>,
) -> Result<bool> {
    content.clear();
    let Some(row) = &lookup.row else { return Ok(false) };
    let deletion = lookup.deletion();
    let malformed = |error| Error::new(ErrorCode::ServerError, format!("a row in memory: {error}"));
    let mut is_live = row.liveness.is_live(now_s) && !deletion.deletes(row.liveness.timestamp);
    // What is in memory may be older than the drop of its column, and keeps no row alive.
    let is_known = |id| select.table.column_by_id(id).is_some();
    let mut cells: SmallVec<[(ColumnId, &[u8]); 8]> = SmallVec::new();
    for column in row.columns() {
        match column.map_err(malformed)? {
            PackedColumn::Simple(id, cell) => {
                if RowLookup::is_cell_visible(deletion, &cell, now_s) {
                    is_live = is_live || is_known(id);
                    cells.push((id, cell.value));
                }
            }
            PackedColumn::Complex(id, own, elements) if is_known(id) => {
                let deletion = deletion.max(own);
                for element in elements {
                    let (_, cell) = element.map_err(malformed)?;
                    is_live |= RowLookup::is_cell_visible(deletion, &cell, now_s);
                }
            }
            PackedColumn::Complex(..) => {}
        }
    }
    if !is_live {
        return Ok(false);
    }
    for column in columns {
        let value = match column {
            PointColumn::Key(term) => match term.borrow(values) {
                Some(BorrowedBound::Value(value)) => Some(value),
                _ => None,
            },
            PointColumn::Regular(id) => {
                let found = cells.binary_search_by_key(id, |(other, _)| *other).ok();
                found.and_then(|index| cells.get(index)).map(|(_, value)| *value)
            }
        };
        put(value, content);
    }
    Ok(true)
}
