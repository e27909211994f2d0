//! Planning of `WHERE`: turns relations into [`Restrictions`].

mod clustering;
mod conflict;
mod filter;
mod index;
mod nearest;
mod partition;
mod refusal;

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_types::CqlType;

use self::{
    clustering::{plan_clustering, tuple_columns},
    conflict::check_conflicts,
    filter::plan_filters,
    index::{IndexChoice, kind_of, plan_terms},
    nearest::refuse_vectors,
    partition::{check_token, plan_partition},
    refusal::first_refusal,
};
use super::{Alternatives, IndexPlan, Restrictions};
use crate::{
    Error, Result,
    ddl::contains_duration,
    grammar::ast::{
        ComparisonOperator as Operator, Expression, InValues, Predicate, Relation, RelationTarget,
        WhereClause,
    },
    metadata::ColumnSpec,
    term::{Preparation, Term, prepare_term},
};

/// The kind of statement that the restrictions belong to, which decides whether filters are
/// allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A SELECT.
    Select {
        /// True if the statement may filter rows.
        allow_filtering: bool,
        /// True if the rows are in the order of an index on vectors.
        is_nearest: bool,
        /// True if the statement selects static columns and, beside them, at most columns of the
        /// partition key.
        only_static: bool,
    },
    /// UPDATE or DELETE: the full partition key and a prefix of the clustering, without filters.
    Modify {
        /// `UPDATE` or `DELETE`, for messages.
        statement: &'static str,
        /// True if the statement reads and changes static columns only.
        only_static: bool,
    },
}

impl Purpose {
    fn is_select(self) -> bool {
        matches!(self, Self::Select { .. })
    }

    fn is_nearest(self) -> bool {
        matches!(self, Self::Select { is_nearest: true, .. })
    }

    /// Returns whether the statement may filter rows.
    fn may_filter(self) -> bool {
        matches!(self, Self::Select { allow_filtering: true, .. })
    }
}

/// Cassandra's refusal of a query that needs ALLOW FILTERING.
pub const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have \
    unpredictable performance. If you want to execute this query despite the performance unpredictability, use \
    ALLOW FILTERING";
/// Cassandra's refusal of a SELECT of static columns with a restricted clustering.
const ONLY_STATIC: &str = "Cannot restrict clustering columns when selecting only static columns";

/// The relations of a WHERE clause, sorted by the plan that they belong to.
#[derive(Default)]
struct SortedRelations<'e> {
    /// The relations of single columns of the primary key, by the column's position in the primary
    /// key.
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
    /// NOT IN.
    excluded: Vec<&'e Relation<'e>>,
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
    plan_relations(preparation, table, clause, purpose)
        .map_err(|error| first_refusal(preparation, table, clause, purpose).unwrap_or(error))
}

fn plan_relations(
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
    check_conflicts(preparation, table, clause)?;
    let is_of_clustering =
        |relation: &Relation<'_>| kind_of(table, relation) == Some(ColumnKind::Clustering);
    if matches!(purpose, Purpose::Select { only_static: true, .. })
        && clause.relations.iter().any(is_of_clustering)
    {
        return Err(Error::invalid(ONLY_STATIC));
    }
    let mut sorted = SortedRelations::default();
    for relation in &clause.relations {
        sorted.add(preparation, table, relation)?;
    }
    let may_filter = purpose.may_filter();
    let choice = IndexChoice::new(table, clause, purpose.is_nearest());
    let is_select = purpose.is_select();
    let has_index = is_select && choice.has_any;
    sorted.needs_filtering = !sorted.filters.is_empty();
    let partition = plan_partition(preparation, table, &mut sorted, purpose)?;
    let clustering = plan_clustering(preparation, table, &mut sorted, may_filter || has_index)?;
    if purpose.is_nearest() {
        choice.check_nearest(&partition, &sorted)?;
    }
    if is_select {
        refuse_vectors(table, clause)?;
    }
    let mut uses_index = false;
    if has_index {
        let judgement = choice.judge(&partition, &sorted);
        uses_index = judgement.uses_index;
        sorted.needs_filtering = judgement.needs_filtering;
    }
    let SortedRelations { filters, mut needs_filtering, .. } = sorted;
    if !has_index && !clustering.is_empty() && partition.keys().is_none() {
        needs_filtering = true;
    }
    let filters = plan_filters(preparation, table, &filters)?;
    let index =
        if is_select { plan_terms(table, &clustering, &filters) } else { IndexPlan::default() };
    let mut planned = Restrictions { partition, clustering, filters, index, uses_index };
    if uses_index && planned.partition_key_has_in() {
        return Err(Error::invalid(
            "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported",
        ));
    }
    if needs_filtering && !may_filter {
        // For an UPDATE or DELETE, `refusal` has another error.
        return Err(Error::invalid(NEEDS_FILTERING));
    }
    if planned.partition.keys().is_some() && planned.names_whole_rows(table) {
        // The statement reads the rows by their keys.
        planned.index = IndexPlan::default();
    }
    Ok(planned)
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
                if !column.is_primary_key() || !sort_in(by_column, table, column, relation) {
                    self.filters.push(relation);
                }
            }
            RelationTarget::Columns(names) => {
                let start = tuple_columns(preparation, table, names, relation)?;
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
    let column_type = &column.column_type;
    let is_slice = match relation.predicate {
        Predicate::Compare(operator, _) => operator != Operator::Equal,
        Predicate::Between(..) => true,
        _ => false,
    };
    if is_slice && let Some(message) = refuse_slice(column_type) {
        return refuse(message.into());
    }
    match &relation.predicate {
        predicate @ (Predicate::ContainsKey(_) | Predicate::NotContainsKey(_))
            if !matches!(column_type, CqlType::Map { .. }) =>
        {
            let operator = predicate.operator();
            refuse(format!("Cannot use {operator} on non-map column {name}"))
        }
        predicate @ (Predicate::Contains(_) | Predicate::NotContains(_))
            if !column_type.is_collection() =>
        {
            let operator = predicate.operator();
            refuse(format!("Cannot use {operator} on non-collection column {name}"))
        }
        _ if matches!(column_type, CqlType::UserDefined { frozen: false, .. }) => refuse(format!(
            "Non-frozen UDT column '{name}' ({}) cannot be restricted by any relation",
            column_type.cql_name()
        )),
        Predicate::Contains(_)
        | Predicate::ContainsKey(_)
        | Predicate::NotContains(_)
        | Predicate::NotContainsKey(_) => Ok(()),
        predicate if column.is_complex() => refuse(format!(
            "Collection column '{name}' ({}) cannot be restricted by a '{}' relation",
            column_type.cql_name(),
            predicate.operator()
        )),
        Predicate::Compare(Operator::NotEqual, _) => {
            refuse(format!("Unsupported \"!=\" relation: {relation}"))
        }
        Predicate::IsNotNull => refuse(format!("Unsupported restriction: {relation}")),
        _ => Ok(()),
    }
}

/// Returns the reason to refuse BETWEEN, `<` and other inequalities of a type that contains
/// durations, which have no order. Returns `None` for other types.
fn refuse_slice(column_type: &CqlType) -> Option<&'static str> {
    if !contains_duration(column_type) {
        return None;
    }
    Some(match column_type {
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => {
            "Slice restrictions are not supported on collections containing durations"
        }
        CqlType::Tuple(_) => "Slice restrictions are not supported on tuples containing durations",
        CqlType::UserDefined { .. } => {
            "Slice restrictions are not supported on UDTs containing durations"
        }
        _ => "Slice restrictions are not supported on duration columns",
    })
}

/// Stores a relation that the primary key may serve. Returns false if the relation can only be a
/// filter. The caller has refused relations that conflict.
fn sort_in<'e>(
    by_column: &mut BTreeMap<usize, ColumnRelations<'e>>,
    table: &TableMetadata,
    column: &ColumnDefinition,
    relation: &'e Relation<'e>,
) -> bool {
    let base =
        if column.kind == ColumnKind::Clustering { table.partition_key_columns().len() } else { 0 };
    let relations = by_column.entry(base + column.position).or_default();
    match &relation.predicate {
        Predicate::Compare(Operator::Equal, _) | Predicate::In(_) => {
            relations.equal = Some(relation);
        }
        Predicate::Compare(operator, _) if column.kind == ColumnKind::Clustering => {
            let side =
                if operator.is_greater() { &mut relations.lower } else { &mut relations.upper };
            *side = Some(relation);
        }
        Predicate::Between(..) if column.kind == ColumnKind::Clustering => {
            relations.lower = Some(relation);
            relations.upper = Some(relation);
        }
        Predicate::NotIn(_) if column.kind == ColumnKind::Clustering => {
            relations.excluded.push(relation);
        }
        _ => return false,
    }
    true
}

impl Alternatives {
    /// Plans the values of IN or NOT IN, each by `plan_value`. A list that is bound as a whole has
    /// the name `list_name`.
    pub(crate) fn plan(
        preparation: &mut Preparation<'_>,
        values: &InValues<'_>,
        receiver: &ColumnSpec,
        list_name: &str,
        plan_value: impl Fn(&mut Preparation<'_>, &Expression<'_>, &ColumnSpec) -> Result<Term>,
    ) -> Result<Self> {
        match values {
            InValues::Values(values) => {
                let terms = values.iter().map(|value| plan_value(preparation, value, receiver));
                terms.collect::<Result<_>>().map(Self::Terms)
            }
            InValues::BindMarker(marker) => {
                let element = Arc::new(receiver.column_type.clone());
                let list = CqlType::List { element, frozen: true };
                let receiver = preparation.receiver(list_name, &list);
                Ok(Self::List(preparation.bind(*marker, &receiver)?))
            }
        }
    }
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
        Predicate::In(values) | Predicate::NotIn(values) => {
            let name = format!("in({})", column.name);
            Alternatives::plan(preparation, values, &receiver, &name, prepare_term)
        }
        _ => Err(preparation
            .invalid(relation.position, format!("{} must be restricted by = or IN", column.name))),
    }
}
