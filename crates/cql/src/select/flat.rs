//! Plans the values that a scan returns in flat form ([`FlatRows`](espalier_storage::FlatRows)).

use std::sync::Arc;

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_storage::FlatColumns;

use super::{PlannedSelect, SelectExpression};

/// The maximum number of values that a statement reads from a flat row one by one (arbitrary). The
/// search for each value begins at the start of the row, so `Row` objects are faster for wide rows.
const MAX_VALUES: usize = 32;

/// The flat rows of a scan, and their use in the answer.
#[derive(Debug)]
pub struct PlannedFlat {
    /// The values of each row.
    pub columns: Arc<FlatColumns>,
    /// The number of partition key columns at the start of the selection, if the other selected
    /// columns are exactly the values of a flat row in their order.
    pub key_columns_before_row: Option<usize>,
    /// True if the statement reads static columns beside the flat rows.
    pub reads_static: bool,
}

impl PlannedFlat {
    /// Plans the flat rows of a SELECT. Returns `None` if the SELECT is no plain scan, needs more
    /// of a row than the values of single-cell columns, or would read more than [`MAX_VALUES`]
    /// values one by one.
    pub(super) fn plan(select: &PlannedSelect) -> Option<Self> {
        let table = &*select.table;
        let is_by_key = select.restrictions.partition.keys().is_some();
        let is_scan = !is_by_key && select.nearest.is_none() && select.sort.is_empty();
        let reads_metadata = select.selectors.iter().any(SelectExpression::reads_metadata);
        if !is_scan || select.shows_partitions() || reads_metadata || table.is_counter() {
            return None;
        }
        let mut read: Vec<&ColumnDefinition> = Vec::new();
        let mut visit = |column: &ColumnDefinition| read.extend(table.column_by_id(column.id));
        select.selectors.iter().for_each(|selector| selector.for_each_column(&mut visit));
        for filter in &select.restrictions.filters {
            visit(&filter.column);
        }
        let mut regular = Vec::new();
        for column in read.iter().filter(|column| column.kind == ColumnKind::Regular) {
            if column.is_complex() {
                return None;
            }
            if !regular.contains(&column.id) {
                regular.push(column.id);
            }
        }
        // A page that ends after a row needs the clustering of the row for its paging state. A read
        // that aggregates all rows, or whole partitions, ends its pages after partitions only.
        let ends_after_partitions =
            select.is_aggregate && (select.group_by.is_none() || select.groups_partitions());
        let reads_clustering = read.iter().any(|column| column.kind == ColumnKind::Clustering);
        let needs_clustering = reads_clustering || !ends_after_partitions;
        let clustering = if needs_clustering { table.clustering_columns().len() } else { 0 };
        let columns = FlatColumns::new(clustering, regular);
        let key_columns_before_row = key_columns_before_row(table, &select.selectors, &columns);
        if key_columns_before_row.is_none() && read.len() > MAX_VALUES {
            return None;
        }
        let reads_static = read.iter().any(|column| column.kind == ColumnKind::Static);
        Some(Self { columns: Arc::new(columns), key_columns_before_row, reads_static })
    }
}

fn key_columns_before_row(
    table: &TableMetadata,
    selectors: &[SelectExpression],
    columns: &FlatColumns,
) -> Option<usize> {
    let is_key = |selector: &&SelectExpression| match selector {
        SelectExpression::Column(column) => column.kind == ColumnKind::PartitionKey,
        _ => false,
    };
    let keys = selectors.iter().take_while(is_key).count();
    let clustering = table.clustering_columns().iter().take(columns.clustering());
    let values = clustering.map(|column| column.id).chain(columns.regular().iter().copied());
    let selected = selectors.iter().skip(keys).map(|selector| match selector {
        SelectExpression::Column(column) => Some(column.id),
        _ => None,
    });
    selected.eq(values.map(Some)).then_some(keys)
}
