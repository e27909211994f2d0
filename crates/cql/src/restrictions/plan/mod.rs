//! Planning of `WHERE`: turns relations into [`Restrictions`].

mod clustering;
mod filter;
mod partition;
mod repeated;

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_types::CqlType;

use self::{
    clustering::{plan_clustering, tuple_columns},
    filter::{plan_filter, refuse_filters},
    partition::{check_token, plan_partition},
    repeated::check_repeated,
};
use super::{Alternatives, Restrictions};
use crate::{
    Error, Result,
    grammar::ast::{
        ComparisonOperator as Operator, InValues, Predicate, Relation, RelationTarget, WhereClause,
    },
    term::{Preparation, prepare_term},
};

/// The kind of statement that the restrictions belong to, which decides whether filters are
/// allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// SELECT, with or without ALLOW FILTERING.
    Select {
        /// ALLOW FILTERING.
        allow_filtering: bool,
    },
    /// UPDATE or DELETE: the full partition key and a prefix of the clustering, without filters.
    Modify,
}

const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have \
    unpredictable performance. If you want to execute this query despite the performance unpredictability, use \
    ALLOW FILTERING";

/// The relations of a WHERE clause, sorted by the plan that they belong to.
#[derive(Default)]
struct SortedRelations<'e> {
    /// The relations of single columns of the primary key, by the column's place in it.
    by_column: BTreeMap<usize, ColumnRelations<'e>>,
    tuples: Vec<TupleRelation<'e>>,
    tokens: Vec<&'e Relation<'e>>,
    /// The relations that the primary key does not serve.
    filters: Vec<&'e Relation<'e>>,
    needs_filtering: bool,
}

/// A relation of several clustering columns.
#[derive(Clone, Copy)]
struct TupleRelation<'e> {
    relation: &'e Relation<'e>,
    /// The position of the first column.
    start: usize,
    /// The number of columns.
    count: usize,
}

/// Relations of one column that the primary key may serve.
#[derive(Default)]
struct ColumnRelations<'e> {
    equal: Option<&'e Relation<'e>>,
    lower: Option<&'e Relation<'e>>,
    upper: Option<&'e Relation<'e>>,
}

/// Plans a `WHERE`.
///
/// # Errors
/// A relation names an unknown column, has an operator that the column does not support, or
/// contradicts another relation, or the clause needs a filter that `purpose` does not allow.
pub fn plan(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    clause: &WhereClause<'_>,
    purpose: Purpose,
) -> Result<Restrictions> {
    if let Some(custom) = clause.custom.first() {
        return Err(
            preparation.invalid(custom.position, "Custom index expressions are not supported yet")
        );
    }
    let mut sorted = SortedRelations::default();
    for relation in &clause.relations {
        sorted.add(preparation, table, relation)?;
    }
    check_repeated(preparation, table, clause)?;
    let may_filter = purpose == Purpose::Select { allow_filtering: true };
    sorted.needs_filtering = !sorted.filters.is_empty();
    let partition = plan_partition(preparation, table, &mut sorted, purpose)?;
    let clustering = plan_clustering(preparation, table, &mut sorted, may_filter)?;
    let SortedRelations { filters, mut needs_filtering, .. } = sorted;
    if purpose == Purpose::Modify {
        refuse_filters(table, &filters)?;
    }
    if !clustering.is_empty() && partition.keys().is_none() {
        needs_filtering = true;
    }
    if needs_filtering && !may_filter {
        return Err(Error::invalid(NEEDS_FILTERING));
    }
    let filters = filters
        .iter()
        .map(|relation| plan_filter(preparation, table, relation))
        .collect::<Result<_>>()?;
    Ok(Restrictions { partition, clustering, filters })
}

impl<'e> SortedRelations<'e> {
    fn add(
        &mut self,
        preparation: &Preparation<'_>,
        table: &TableMetadata,
        relation: &'e Relation<'e>,
    ) -> Result<()> {
        match &relation.target {
            RelationTarget::Column(name) => {
                let column = preparation.column(table, name)?;
                check_operator(preparation, relation, column)?;
                let by_column = &mut self.by_column;
                if !column.is_primary_key()
                    || !sort_in(preparation, by_column, table, column, relation)?
                {
                    self.filters.push(relation);
                }
            }
            RelationTarget::Columns(names) => {
                let start = tuple_columns(preparation, table, names)?;
                self.tuples.push(TupleRelation { relation, start, count: names.len() });
            }
            RelationTarget::Token(names) => {
                check_token(preparation, table, names, relation)?;
                self.tokens.push(relation);
            }
            RelationTarget::Element(name, _) => {
                preparation.column(table, name)?;
                self.filters.push(relation);
            }
            RelationTarget::Field(name, _) => {
                preparation.column(table, name)?;
                return Err(preparation.invalid(
                    relation.position,
                    "Fields of a user type cannot be restricted in WHERE",
                ));
            }
        }
        Ok(())
    }
}

fn check_operator(
    preparation: &Preparation<'_>,
    relation: &Relation<'_>,
    column: &ColumnDefinition,
) -> Result<()> {
    let refuse = |message: String| Err(preparation.invalid(relation.position, message));
    let name = &column.name;
    match &relation.predicate {
        Predicate::Compare(Operator::NotEqual, _) => {
            refuse(format!("Unsupported \"!=\" relation: {name}"))
        }
        Predicate::IsNotNull => refuse(format!("Unsupported restriction: {name} IS NOT NULL")),
        Predicate::Like(_) => refuse(format!(
            "LIKE restriction is only supported on properly indexed columns. {name} is not"
        )),
        Predicate::Compare(operator, _) if column.is_complex() => {
            let kind =
                if column.column_type.is_collection() { "Collection" } else { "Non-frozen UDT" };
            refuse(format!(
                "{kind} column '{name}' ({}) cannot be restricted by a '{}' relation",
                column.column_type.cql_name(),
                operator.symbol()
            ))
        }
        Predicate::Compare(operator, _)
            if *operator != Operator::Equal && matches!(column.column_type, CqlType::Duration) =>
        {
            refuse("Slice restrictions are not supported on duration columns".into())
        }
        Predicate::In(_) if column.is_complex() => refuse(format!(
            "Collection column '{name}' ({}) cannot be restricted by a 'IN' relation",
            column.column_type.cql_name()
        )),
        Predicate::Contains(_) if !column.column_type.is_collection() => {
            refuse(format!("Cannot use CONTAINS on non-collection column {name}"))
        }
        Predicate::ContainsKey(_) if !matches!(column.column_type, CqlType::Map { .. }) => {
            refuse(format!("Cannot use CONTAINS KEY on non-map column {name}"))
        }
        _ => Ok(()),
    }
}

/// Stores a relation that the primary key may serve; returns false if it can only be a filter.
fn sort_in<'e>(
    preparation: &Preparation<'_>,
    by_column: &mut BTreeMap<usize, ColumnRelations<'e>>,
    table: &TableMetadata,
    column: &ColumnDefinition,
    relation: &'e Relation<'e>,
) -> Result<bool> {
    let base =
        if column.kind == ColumnKind::Clustering { table.partition_key_columns().len() } else { 0 };
    let relations = by_column.entry(base + column.position).or_default();
    let twice = |what: &str| {
        Err(preparation.invalid(
            relation.position,
            format!(
                "{} cannot be restricted by more than one relation if it includes {what}",
                column.name
            ),
        ))
    };
    match &relation.predicate {
        Predicate::Compare(Operator::Equal, _) | Predicate::In(_) => {
            if relations.equal.is_some() || relations.lower.is_some() || relations.upper.is_some() {
                return twice(if matches!(relation.predicate, Predicate::In(_)) {
                    "a IN"
                } else {
                    "an Equal"
                });
            }
            relations.equal = Some(relation);
        }
        Predicate::Compare(operator, _) if column.kind == ColumnKind::Clustering => {
            if relations.equal.is_some() {
                return twice("an Equal");
            }
            let is_lower = matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
            let side = if is_lower { &mut relations.lower } else { &mut relations.upper };
            if side.is_some() {
                let which = if is_lower { "start" } else { "end" };
                let message = format!(
                    "More than one restriction was found for the {which} bound on {}",
                    column.name
                );
                return Err(preparation.invalid(relation.position, message));
            }
            *side = Some(relation);
        }
        Predicate::Between(..) if column.kind == ColumnKind::Clustering => {
            if relations.equal.is_some() || relations.lower.is_some() || relations.upper.is_some() {
                return twice("a BETWEEN");
            }
            relations.lower = Some(relation);
            relations.upper = Some(relation);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn alternatives(
    preparation: &mut Preparation<'_>,
    column: &ColumnDefinition,
    relation: &Relation<'_>,
) -> Result<Alternatives> {
    let receiver = preparation.receiver(&column.name, &column.column_type);
    match &relation.predicate {
        Predicate::Compare(_, value) => {
            Ok(Alternatives::Terms(vec![prepare_term(preparation, value, &receiver)?]))
        }
        Predicate::In(InValues::Values(values)) => values
            .iter()
            .map(|value| prepare_term(preparation, value, &receiver))
            .collect::<Result<_>>()
            .map(Alternatives::Terms),
        Predicate::In(InValues::BindMarker(marker)) => {
            let list =
                CqlType::List { element: Arc::new(column.column_type.clone()), frozen: true };
            let receiver = preparation.receiver(&format!("in({})", column.name), &list);
            Ok(Alternatives::List(preparation.bind(*marker, &receiver)?))
        }
        _ => Err(preparation
            .invalid(relation.position, format!("{} must be restricted by = or IN", column.name))),
    }
}
