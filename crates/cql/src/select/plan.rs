//! Plans SELECT.

use std::{collections::BTreeSet, sync::Arc};

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_storage::{
    ColumnSelection,
    system::{is_made_when_read, is_virtual},
};
use espalier_types::CqlType;

use super::{
    PlannedFlat, PlannedNearest, PlannedSelect, SelectExpression, group_by::plan_group_by, mask,
    nearest::plan_nearest, selection::SelectionPreparation,
};
use crate::{
    Error, Result,
    functions::json,
    grammar::ast::{Ordering, Select, Selection},
    metadata::{ColumnSpec, ResultMetadata},
    restrictions::{self, Alternatives, NEEDS_FILTERING, Purpose, Restrictions},
    term::{Preparation, prepare_term},
};

/// Plans a SELECT on `table`.
///
/// # Errors
/// The statement names a column or function that does not exist, a clause does not fit the primary
/// key, WHERE needs ALLOW FILTERING, a term has a wrong type, or clauses exclude each other.
pub fn plan_select(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Select<'_>,
) -> Result<PlannedSelect> {
    let (mut selectors, mut specs, aggregates) = plan_selection(preparation, table, statement)?;
    if statement.json {
        (selectors, specs) = as_json(table, selectors, specs);
    }
    let nearest = plan_nearest(preparation, table, statement)?;
    let restrictions =
        plan_restrictions(preparation, table, statement, &selectors, nearest.as_ref())?;
    let group_by = plan_group_by(preparation, table, statement, &restrictions)?;
    let (is_reversed, sort) = match nearest {
        Some(_) => (false, Vec::new()),
        None => plan_ordering(preparation, table, &statement.order_by, &restrictions)?,
    };
    let mut limit = |expression: &Option<_>, name: &str| {
        let receiver = preparation.receiver(name, &CqlType::Int);
        expression.as_ref().map(|e| prepare_term(preparation, e, &receiver)).transpose()
    };
    let per_partition_limit = limit(&statement.per_partition_limit, "[per_partition_limit]")?;
    if per_partition_limit.is_some() && statement.distinct {
        return Err(Error::invalid(
            "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries",
        ));
    }
    let limit = limit(&statement.limit, "[limit]")?;
    if per_partition_limit.is_some() && aggregates > 0 && group_by.is_none() {
        return Err(Error::invalid("PER PARTITION LIMIT is not allowed with aggregate queries."));
    }
    let mut plan = PlannedSelect {
        columns: needed_columns(table, &selectors, &restrictions, nearest.as_ref()),
        table: table.clone(),
        restrictions,
        metadata: Arc::new(ResultMetadata::new(specs)),
        is_distinct: statement.distinct,
        is_reversed,
        sort,
        is_aggregate: aggregates > 0 || group_by.is_some(),
        group_by,
        limit,
        per_partition_limit,
        masked_selectors: mask::masked(preparation.schema, table, &selectors),
        restricted_masks: mask::restricted(table, &statement.where_clause, nearest.as_ref()),
        nearest,
        selectors,
        allows_filtering: statement.allow_filtering,
        bypass_cache: statement.bypass_cache,
        point: None,
        flat: None,
    };
    // A table whose rows are computed at each read has neither point reads nor flat rows.
    let is_stored = !is_made_when_read(&table.keyspace, &table.name);
    let is_by_key = is_stored && plan.nearest.is_none();
    plan.point = super::PointSelect::plan(&plan).filter(|_| is_by_key);
    plan.flat = PlannedFlat::plan(&plan).filter(|_| is_stored);
    Ok(plan)
}

/// Plans WHERE, and checks that WHERE and the selectors fit DISTINCT.
fn plan_restrictions(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Select<'_>,
    selectors: &[SelectExpression],
    nearest: Option<&PlannedNearest>,
) -> Result<Restrictions> {
    let only_static =
        matches!(statement.selection, Selection::Selectors(_)) && are_only_static(selectors);
    let mut plan_where = |allow_filtering| {
        let is_nearest = nearest.is_some();
        let purpose = Purpose::Select { allow_filtering, is_nearest, only_static };
        restrictions::plan(preparation, table, &statement.where_clause, purpose)
    };
    // A read of a virtual table computes all its rows anyway, so a filter costs no more.
    let allow_filtering = statement.allow_filtering || is_virtual(&table.keyspace);
    let (restrictions, refusal) = match plan_where(allow_filtering) {
        // Cassandra checks DISTINCT first.
        Err(error) if statement.distinct && error.message == NEEDS_FILTERING => {
            (plan_where(true)?, Some(error))
        }
        planned => (planned?, None),
    };
    if statement.distinct {
        check_distinct(selectors, &restrictions, nearest)?;
        check_distinct_key(table, selectors, &restrictions)?;
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(restrictions),
    }
}

/// Returns whether the selectors read static columns and, beside them, at most columns of the
/// partition key.
fn are_only_static(selectors: &[SelectExpression]) -> bool {
    let (mut has_static, mut has_other) = (false, false);
    for selector in selectors {
        selector.for_each_column(&mut |column| match column.kind {
            ColumnKind::PartitionKey => {}
            ColumnKind::Static => has_static = true,
            ColumnKind::Clustering | ColumnKind::Regular => has_other = true,
        });
    }
    has_static && !has_other
}

fn plan_selection(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Select<'_>,
) -> Result<(Vec<SelectExpression>, Vec<ColumnSpec>, usize)> {
    let selectors = match &statement.selection {
        Selection::All => {
            let columns = || table.visible_columns();
            let selectors = columns().cloned().map(SelectExpression::Column).collect();
            let spec = |column: &ColumnDefinition| {
                ColumnSpec::of(table, column.name.clone(), column.column_type.clone())
            };
            return Ok((selectors, columns().map(spec).collect(), 0));
        }
        Selection::Selectors(selectors) => selectors,
    };
    let mut selection =
        SelectionPreparation { preparation, table, aggregates: 0, same_casts: Vec::new() };
    let (mut expressions, mut specs) =
        (Vec::with_capacity(selectors.len()), Vec::with_capacity(selectors.len()));
    for selector in selectors {
        let (expression, column_type) = selection.prepare(&selector.expression, None)?;
        let name = match &selector.alias {
            Some(alias) => alias.as_str().to_string(),
            None => selection.result_name(&selector.expression),
        };
        expressions.push(expression);
        specs.push(ColumnSpec::of(table, name, column_type));
    }
    let aggregates = selection.aggregates;
    Ok((expressions, specs, aggregates))
}

/// Plans `SELECT JSON`: one text column with a JSON object of the selected values.
fn as_json(
    table: &TableMetadata,
    selectors: Vec<SelectExpression>,
    specs: Vec<ColumnSpec>,
) -> (Vec<SelectExpression>, Vec<ColumnSpec>) {
    let columns = specs.into_iter().map(|spec| (spec.name, spec.column_type)).collect();
    let object = SelectExpression::Call(Box::new(json::row_to_json(columns)), selectors);
    (vec![object], vec![ColumnSpec::of(table, "[json]", CqlType::Text)])
}

fn check_distinct(
    selectors: &[SelectExpression],
    restrictions: &Restrictions,
    nearest: Option<&PlannedNearest>,
) -> Result<()> {
    let mut wrong = None;
    for selector in selectors {
        selector.for_each_column(&mut |column| {
            if !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static) {
                wrong.get_or_insert(column.name.clone());
            }
        });
    }
    if let Some(column) = wrong {
        return Err(Error::invalid(format!(
            "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {column})"
        )));
    }
    let only_statics = restrictions
        .filters
        .iter()
        .all(|filter| matches!(filter.column.kind, ColumnKind::PartitionKey | ColumnKind::Static));
    let only_statics =
        only_statics && nearest.is_none_or(|nearest| nearest.column.kind == ColumnKind::Static);
    if !restrictions.clustering.is_empty() || !only_statics {
        return Err(Error::invalid(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.",
        ));
    }
    Ok(())
}

/// Refuses a DISTINCT over many partitions that does not select the whole partition key.
fn check_distinct_key(
    table: &TableMetadata,
    selectors: &[SelectExpression],
    restrictions: &Restrictions,
) -> Result<()> {
    if restrictions.partition.keys().is_some() {
        return Ok(());
    }
    let mut shown = BTreeSet::new();
    for selector in selectors {
        selector.for_each_column(&mut |column| {
            shown.insert(column.name.clone());
        });
    }
    match table.partition_key_columns().iter().find(|column| !shown.contains(&column.name)) {
        None => Ok(()),
        Some(missing) => Err(Error::invalid(format!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {})",
            missing.name
        ))),
    }
}

fn plan_ordering(
    preparation: &Preparation<'_>,
    table: &TableMetadata,
    order_by: &[Ordering<'_>],
    restrictions: &Restrictions,
) -> Result<(bool, Vec<(usize, bool)>)> {
    if order_by.is_empty() {
        return Ok((false, Vec::new()));
    }
    // If ORDER BY names a column again, the column keeps its first place and has the later
    // direction.
    let mut columns: Vec<(&ColumnDefinition, &Ordering<'_>)> = Vec::with_capacity(order_by.len());
    for ordering in order_by {
        let column = preparation.column(table, &ordering.column)?;
        match columns.iter_mut().find(|(earlier, _)| earlier.name == column.name) {
            Some((_, earlier)) => *earlier = ordering,
            None => columns.push((column, ordering)),
        }
    }
    if restrictions.uses_index {
        return Err(Error::invalid(
            "ORDER BY with 2ndary indexes is not supported, except for ANN queries.",
        ));
    }
    let Some(keys) = restrictions.partition.keys() else {
        return Err(Error::invalid(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
        ));
    };
    let mut reversed = None;
    let mut sort = Vec::new();
    let mut at = 0;
    for (column, ordering) in columns {
        let name = &ordering.column;
        if column.kind != ColumnKind::Clustering {
            let message = format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {name}"
            );
            return Err(preparation.invalid(name.position, message));
        }
        let skipped_are_fixed = (at..column.position)
            .all(|skipped| restrictions.is_fixed(&table.clustering_columns()[skipped]));
        if column.position < at || !skipped_are_fixed {
            return Err(preparation.invalid(name.position, "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"));
        }
        at = column.position + 1;
        let against = ordering.descending != column.reversed;
        if *reversed.get_or_insert(against) != against {
            return Err(Error::invalid("Unsupported order by relation"));
        }
        sort.push((column.position, ordering.descending));
    }
    let is_in = keys.iter().any(Alternatives::is_in);
    Ok((reversed.unwrap_or(false), if is_in { sort } else { Vec::new() }))
}

/// Returns the static and regular columns that selectors, filters and the order by similarity read.
fn needed_columns(
    table: &TableMetadata,
    selectors: &[SelectExpression],
    restrictions: &Restrictions,
    nearest: Option<&PlannedNearest>,
) -> ColumnSelection {
    let mut ids: BTreeSet<_> = nearest.iter().map(|nearest| nearest.column.id).collect();
    for selector in selectors {
        selector.for_each_column(&mut |column| {
            if !column.is_primary_key() {
                ids.insert(column.id);
            }
        });
    }
    for filter in &restrictions.filters {
        if !filter.column.is_primary_key() {
            ids.insert(filter.column.id);
        }
    }
    let data_columns = table.static_columns().len() + table.regular_columns().len();
    if ids.len() == data_columns {
        return ColumnSelection::All;
    }
    ColumnSelection::Only(ids.into_iter().collect())
}
