//! The fast path of SELECT: one row by its full primary key, plain columns only. [`read_point`]
//! answers from memory without waiting; [`read_point_with_waits`] waits for each page that is not
//! cached.
//!
//! Most requests of most applications take this path. This path builds no row: it copies cells from
//! the packed row straight into the result. It reads the packed row of a memtable in place.

use std::sync::Arc;

use espalier_mutation::{
    FoundRow, path,
    schema::{ColumnId, ColumnKind, TableMetadata},
};
use espalier_runtime::trace_event;
use espalier_storage::{Node, RowLookup};
use hashbrown::HashSet;
use smallvec::SmallVec;

use super::{PlannedSelect, SelectExpression, group::put};
use crate::{
    Error, ErrorCode, Result, Rows,
    options::Value,
    prepared::{Plan, Prepared},
    restrictions::PointKey,
    term::{BorrowedBound, Term},
};

/// The plan of a SELECT that is answered as a point read.
#[derive(Clone, Debug)]
pub struct PointSelect {
    key: PointKey,
    columns: Box<[PointColumn]>,
}

/// The source of a result column.
#[derive(Clone, Debug)]
enum PointColumn {
    /// A primary key column: the term that restricts it.
    Key(Term),
    /// A regular column.
    Regular(ColumnId),
}

impl PointSelect {
    /// Plans the point read, or returns `None` if the SELECT is no point read.
    pub fn plan(select: &PlannedSelect) -> Option<PointSelect> {
        let key = select.restrictions.point(&select.table)?;
        let is_plain = !select.is_aggregate
            && !select.is_distinct
            && select.limit.is_none()
            && select.per_partition_limit.is_none();
        // A point read returns the clustering as the statement has it. Where different bytes are
        // equal in the clustering order, the stored row has the bytes that were written first, and
        // these may differ from the statement's.
        if !is_plain || select.table.is_counter() || !path::is_exact(select.table.comparator()) {
            return None;
        }
        let mut seen = HashSet::new();
        let columns = select.selectors.iter().map(|selector| match selector {
            // The general path limits the bytes of an answer that repeats a large value.
            SelectExpression::Column(column) if !seen.insert((column.kind, column.id)) => None,
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
    /// Returns the key of the only row that the statement reads, if it is a point read.
    pub fn point_key(&self) -> Option<&PointKey> {
        self.point.as_ref().map(|point| &point.key)
    }
}

/// Looks the row up without waiting, encodes it into `content`, and returns whether it exists.
/// Returns `None` if a key value is invalid or the look-up has no answer
/// ([`espalier_mutation::Lookup`]).
///
/// The caller has checked `values` against their markers. `buffer` is scratch space for the key.
///
/// # Errors
/// [`ErrorCode::ServerError`] if the row is malformed.
#[inline]
pub fn read_point(
    select: &PlannedSelect,
    database: &Node,
    values: &[Value],
    now_s: u32,
    buffer: &mut Vec<u8>,
    content: &mut Vec<u8>,
) -> Option<Result<bool>> {
    let point = select.point.as_ref()?;
    let key = point.key.partition(values, buffer)?;
    let clustering = point.key.clustering(values)?;
    content.clear();
    let lookup = RowLookup::new(&select.table, key, &clustering);
    let outcome = lookup.bypassing_cache(select.bypass_cache).poll(database.store(), |found| {
        encode(&found, select, &point.columns, values, now_s, content)
    });
    outcome.known_or(|| Ok(false))
}

/// Looks the row up as [`read_point`] does, but waits for pages and for the shard that owns the
/// row. Returns `None` if the general path must execute the statement.
///
/// # Errors
/// As [`read_point`].
pub async fn read_point_with_waits(
    statement: &Arc<Prepared>,
    database: &Node,
    values: &[Value],
    now_s: u32,
) -> Option<Result<Rows>> {
    let Plan::Select(select) = &statement.plan else { return None };
    let point = select.point.as_ref()?;
    let (mut buffer, mut content) = (Vec::new(), Vec::new());
    let key = point.key.partition(values, &mut buffer)?;
    if let Some(owner) = database.store().routing().other_owner(&select.table, key.token) {
        trace_event!("Shard {owner} owns token {}", key.token.0);
        let (statement, values) = (statement.clone(), values.to_vec());
        let there = database.on_shard(owner, move |database| async move {
            // Boxed, because the future of this function contains itself.
            Box::pin(read_point_with_waits(&statement, &database, &values, now_s)).await
        });
        return there.await;
    }
    let clustering = point.key.clustering(values)?;
    let lookup = RowLookup::new(&select.table, key, &clustering);
    let outcome = lookup.bypassing_cache(select.bypass_cache).wait(database.store(), |found| {
        encode(&found, select, &point.columns, values, now_s, &mut content)
    });
    let row = outcome.await.known_or(|| Ok(false))?.map(|found| Rows {
        metadata: select.metadata.clone(),
        row_count: i32::from(found),
        content,
        paging_state: None,
    });
    Some(row)
}

/// Encodes the row into `content`, which is empty; returns `false` if there is no live row.
#[inline]
fn encode(
    found: &FoundRow<'_>,
    select: &PlannedSelect,
    columns: &[PointColumn],
    values: &[Value],
    now_s: u32,
    content: &mut Vec<u8>,
) -> Result<bool> {
    let mut cells: SmallVec<[(ColumnId, &[u8]); 8]> = SmallVec::new();
    if !visible_cells(found, &select.table, now_s, &mut cells)? {
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

/// Collects the values of the visible plain cells of a row, in ascending order of their columns.
/// Returns whether the row exists.
///
/// # Errors
/// [`ErrorCode::ServerError`] if the row is malformed.
#[inline]
pub fn visible_cells<'r>(
    found: &FoundRow<'r>,
    table: &TableMetadata,
    now_s: u32,
    cells: &mut SmallVec<[(ColumnId, &'r [u8]); 8]>,
) -> Result<bool> {
    let is_known = |id| table.column_by_id(id).is_some();
    let exists = found.visible_cells(now_s, is_known, |id, cell| cells.push((id, cell.value)));
    exists.map_err(|error| {
        Error::new(ErrorCode::ServerError, format!("a row in memory is malformed: {error}"))
    })
}
