//! Plans INSERT.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableLayout, TableMetadata};
use hashbrown::HashSet;

use super::{
    Change, ModificationKind, Operation, PlannedModification, insert_json::given_by_document,
    plan::plan_using,
};
use crate::{
    Error, Result,
    condition::Condition,
    grammar::ast::{Expression, Insert, InsertSource, Name},
    restrictions::{
        Alternatives, ClusteringRestriction, IndexPlan, PartitionRestriction, Restrictions,
    },
    term::{Preparation, Term, prepare_term},
};

/// Plans an INSERT.
///
/// # Errors
/// The statement writes to a counter table, names an unknown column or a column twice, has unequal
/// numbers of columns and values, lacks a column of the primary key or the value of a compact
/// table, or has a value of a wrong type or an invalid JSON document.
pub fn plan_insert(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Insert<'_>,
) -> Result<PlannedModification> {
    if table.is_counter() {
        return Err(Error::invalid(
            "INSERT statements are not allowed on counter tables, use UPDATE instead",
        ));
    }
    let mut key: Vec<Option<Term>> = vec![None; table.partition_key_columns().len()];
    let mut clustering: Vec<Option<Term>> = vec![None; table.clustering_columns().len()];
    let mut operations = Vec::new();
    let given = match &statement.source {
        InsertSource::Values { columns, values } => {
            given_values(preparation, table, statement, columns, values)?
        }
        InsertSource::Json { document, default_unset } => {
            // The condition reads all static columns if the statement writes one. As in Cassandra,
            // a column that the document leaves unset counts as written.
            let keeps_unset = statement.if_not_exists && table.has_static_columns();
            let default_unset = *default_unset;
            given_by_document(preparation, table, document, default_unset, keeps_unset)?
        }
    };
    for (column, term) in given {
        match column.kind {
            ColumnKind::PartitionKey => key[column.position] = Some(term),
            ColumnKind::Clustering => clustering[column.position] = Some(term),
            ColumnKind::Static | ColumnKind::Regular => {
                let change = Change::of_whole(column, term);
                operations.push(Operation { column: column.clone(), change });
            }
        }
    }
    // Cells in order of column ids let the write build a row without sorting.
    operations.sort_by_key(|operation| operation.column.id);
    let key = all_given(table.partition_key_columns(), key, "partition key parts")?;
    let only_static = !operations.is_empty() && operations.iter().all(Operation::is_static);
    let clustering = if only_static && clustering.iter().all(Option::is_none) {
        Vec::new()
    } else {
        clustering_given(table, clustering)?
    };
    add_compact_value(table, &mut operations)?;
    let (timestamp, time_to_live) = plan_using(preparation, table, &statement.using)?;
    Ok(PlannedModification {
        table: table.clone(),
        kind: ModificationKind::Insert,
        restrictions: Restrictions {
            partition: PartitionRestriction::Keys(key),
            clustering: clustering.into_iter().map(ClusteringRestriction::Values).collect(),
            filters: Vec::new(),
            index: IndexPlan::default(),
            uses_index: false,
        },
        operations,
        timestamp,
        time_to_live,
        condition: if statement.if_not_exists { Condition::NotExists } else { Condition::None },
        checks: None,
        point: None,
        point_turn: None,
    })
}

fn given_values<'t>(
    preparation: &mut Preparation<'_>,
    table: &'t TableMetadata,
    statement: &Insert<'_>,
    columns: &[Name<'_>],
    values: &[Expression<'_>],
) -> Result<Vec<(&'t ColumnDefinition, Term)>> {
    if columns.len() != values.len() {
        return Err(preparation.invalid(statement.position, "Unmatched column names/values"));
    }
    let mut given = Vec::with_capacity(columns.len());
    let mut seen = HashSet::with_capacity(columns.len());
    for (name, value) in columns.iter().zip(values) {
        let column = preparation.column(table, name)?;
        if !seen.insert(name.as_str()) {
            return Err(preparation
                .invalid(name.position, format!("The column names contains duplicates: {name}")));
        }
        let receiver = preparation.receiver(&column.name, &column.column_type);
        given.push((column, prepare_term(preparation, value, &receiver)?));
    }
    Ok(given)
}

/// Returns the values of the clustering columns. In a compact table with several clustering
/// columns, the statement may omit the last ones.
fn clustering_given(
    table: &TableMetadata,
    mut terms: Vec<Option<Term>>,
) -> Result<Vec<Alternatives>> {
    let mut columns = table.clustering_columns();
    if table.layout == TableLayout::DenseComposite
        && let Some(last) = terms.iter().rposition(Option::is_some)
    {
        if let Some(gap) = terms.iter().position(Option::is_none).filter(|gap| *gap < last) {
            let behind = (gap..=last).find(|at| terms.get(*at).is_some_and(Option::is_some));
            return Err(Error::invalid(format!(
                "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                columns[behind.unwrap_or(last)].name,
                columns[gap].name
            )));
        }
        terms.truncate(last + 1);
        columns = &columns[..=last];
    }
    all_given(columns, terms, "clustering keys")
}

/// Adds an empty value if a compact table declares no value column, because a row of a compact
/// table exists only by its cell. Refuses an INSERT without a value into a compact table that
/// declares a value column.
fn add_compact_value(table: &TableMetadata, operations: &mut Vec<Operation>) -> Result<()> {
    if !table.is_compact() || !operations.is_empty() {
        return Ok(());
    }
    let Some(column) = table.regular_columns().first() else { return Ok(()) };
    if !table.layout.hides(column) {
        return Err(Error::invalid(format!(
            "Column {} is mandatory for this COMPACT STORAGE table",
            column.name
        )));
    }
    let empty = Term::Constant(Some(Bytes::new()));
    operations.push(Operation { column: column.clone(), change: Change::Set(empty) });
    Ok(())
}

fn all_given(
    columns: &[ColumnDefinition],
    terms: Vec<Option<Term>>,
    what: &str,
) -> Result<Vec<Alternatives>> {
    let missing: Vec<&str> = columns
        .iter()
        .zip(&terms)
        .filter(|(_, term)| term.is_none())
        .map(|(column, _)| column.name.as_str())
        .collect();
    if !missing.is_empty() {
        return Err(Error::invalid(format!("Some {what} are missing: {}", missing.join(", "))));
    }
    Ok(terms.into_iter().flatten().map(|term| Alternatives::Terms(vec![term])).collect())
}
