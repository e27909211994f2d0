//! Planning of filters, for relations that the primary key does not serve.

use espalier_mutation::schema::{ColumnDefinition, IndexPart, TableMetadata};
use espalier_types::{CqlType, TextAnalysis};

use super::{
    super::{Alternatives, Filter, FilterOperator},
    alternatives,
    index::{index_on, like_index},
    refusal::not_indexed,
};
use crate::{
    Result,
    grammar::ast::{
        ComparisonOperator as Operator, Expression, Name, Predicate, Relation, RelationTarget,
    },
    metadata::ColumnSpec,
    term::{Preparation, Term, prepare_term},
};

/// Returns the analysis of the index that serves a condition.
fn analysis_of(
    table: &TableMetadata,
    left: &LeftSide<'_>,
    operator: &FilterOperator,
) -> TextAnalysis {
    let part = match operator {
        _ if left.key.is_some() => return TextAnalysis::default(),
        FilterOperator::Compare(Operator::Equal, _) => IndexPart::Simple,
        FilterOperator::Contains(_) => IndexPart::Values,
        FilterOperator::ContainsKey(_) => IndexPart::Keys,
        _ => return TextAnalysis::default(),
    };
    let index = index_on(table, &left.column.name, part);
    index.map_or_else(TextAnalysis::default, |index| index.analysis(table))
}

/// Plans the filters of relations: two for `BETWEEN`, otherwise one for each.
pub(super) fn plan_filters(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    relations: &[&Relation<'_>],
) -> Result<Vec<Filter>> {
    let mut filters = Vec::with_capacity(relations.len());
    for relation in relations {
        let left = plan_left_side(preparation, table, relation)?;
        let Predicate::Between(low, high) = &relation.predicate else {
            filters.push(plan_filter(preparation, table, left, relation)?);
            continue;
        };
        for (operator, bound) in [(Operator::GreaterOrEqual, low), (Operator::LessOrEqual, high)] {
            let term = prepare_term(preparation, bound, &left.receiver)?;
            filters.push(Filter {
                column: left.column.clone(),
                key: left.key.clone(),
                operator: FilterOperator::Compare(operator, term),
                is_negated: false,
                analysis: TextAnalysis::default(),
            });
        }
    }
    Ok(filters)
}

fn plan_filter(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    left: LeftSide<'_>,
    relation: &Relation<'_>,
) -> Result<Filter> {
    let operator = plan_operator(preparation, table, &left, relation)?;
    let is_negated = matches!(
        relation.predicate,
        Predicate::NotIn(_) | Predicate::NotContains(_) | Predicate::NotContainsKey(_)
    );
    let analysis =
        if is_negated { TextAnalysis::default() } else { analysis_of(table, &left, &operator) };
    let LeftSide { column, key, .. } = left;
    Ok(Filter { column: column.clone(), key, operator, is_negated, analysis })
}

/// The value that a filter compares.
struct LeftSide<'t> {
    column: &'t ColumnDefinition,
    /// The key of an element.
    key: Option<Term>,
    /// The receiver of the values that it is compared with.
    receiver: ColumnSpec,
}

/// Plans the left side of a relation.
fn plan_left_side<'t>(
    preparation: &mut Preparation<'_>,
    table: &'t TableMetadata,
    relation: &Relation<'_>,
) -> Result<LeftSide<'t>> {
    match &relation.target {
        RelationTarget::Column(name) => {
            let column = preparation.column(table, name)?;
            let receiver = preparation.receiver(&column.name, &column.column_type);
            Ok(LeftSide { column, key: None, receiver })
        }
        RelationTarget::Element(name, key) => {
            let column = preparation.column(table, name)?;
            plan_element(preparation, relation, column, name, key)
        }
        _ => {
            Err(preparation
                .invalid(relation.position, "This relation cannot be used for filtering"))
        }
    }
}

/// Plans the left side of `m[key] = value`.
fn plan_element<'t>(
    preparation: &mut Preparation<'_>,
    relation: &Relation<'_>,
    column: &'t ColumnDefinition,
    name: &Name<'_>,
    key: &Expression<'_>,
) -> Result<LeftSide<'t>> {
    let (key_type, value_type) = check_element(preparation, relation, column, name)?;
    let key_receiver = part_receiver(preparation, column, "key", key_type);
    let key = prepare_term(preparation, key, &key_receiver)?;
    let receiver = part_receiver(preparation, column, "value", value_type);
    Ok(LeftSide { column, key: Some(key), receiver })
}

/// Checks the left side of `m[key] = value`, and returns the types of key and value.
pub(super) fn check_element<'t>(
    preparation: &Preparation<'_>,
    relation: &Relation<'_>,
    column: &'t ColumnDefinition,
    name: &Name<'_>,
) -> Result<(&'t CqlType, &'t CqlType)> {
    let refuse = |message: String| Err(preparation.invalid(name.position, message));
    let (key_type, value_type) = match &column.column_type {
        CqlType::Map { key, value, .. } => (key.as_ref(), value.as_ref()),
        CqlType::List { .. } => {
            return refuse(format!(
                "Indexes on list entries ({name}[index] = value) are not currently supported."
            ));
        }
        _ => return refuse(format!("Column {name} cannot be used as a map")),
    };
    if !column.is_complex() {
        return refuse(format!(
            "Map-entry equality predicates on frozen map column {name} are not supported"
        ));
    }
    match relation.predicate {
        Predicate::Compare(Operator::Equal, _) => Ok((key_type, value_type)),
        _ => refuse("Only EQ relations are supported on map entries".into()),
    }
}

/// Returns the receiver of keys or values of a collection.
pub(super) fn part_receiver(
    preparation: &Preparation<'_>,
    column: &ColumnDefinition,
    label: &str,
    part: &CqlType,
) -> ColumnSpec {
    preparation.receiver(&format!("{label}({})", column.name), part)
}

fn plan_operator(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    left: &LeftSide<'_>,
    relation: &Relation<'_>,
) -> Result<FilterOperator> {
    let column = left.column;
    match &relation.predicate {
        Predicate::Compare(Operator::NotEqual, _) => Err(preparation
            .invalid(relation.position, format!("Unsupported \"!=\" relation: {relation}"))),
        Predicate::Compare(operator, value) => prepare_term(preparation, value, &left.receiver)
            .map(|term| FilterOperator::Compare(*operator, term)),
        Predicate::In(_) | Predicate::NotIn(_) => {
            let column = ColumnDefinition {
                column_type: left.receiver.column_type.clone(),
                ..column.clone()
            };
            let is_in = matches!(relation.predicate, Predicate::In(_));
            Ok(match alternatives(preparation, &column, relation)? {
                // An IN of one term is the same as `=`. Only `=` compares analysed texts.
                Alternatives::Terms(terms) if is_in => match <[Term; 1]>::try_from(terms) {
                    Ok([only]) => FilterOperator::Compare(Operator::Equal, only),
                    Err(terms) => FilterOperator::In(Alternatives::Terms(terms)),
                },
                values => FilterOperator::In(values),
            })
        }
        Predicate::Contains(value) | Predicate::NotContains(value) => {
            let part = match &column.column_type {
                CqlType::List { element, .. } | CqlType::Set { element, .. } => element.as_ref(),
                CqlType::Map { value, .. } => value.as_ref(),
                other => other,
            };
            let receiver = part_receiver(preparation, column, "value", part);
            prepare_term(preparation, value, &receiver).map(FilterOperator::Contains)
        }
        Predicate::ContainsKey(value) | Predicate::NotContainsKey(value) => {
            let part = match &column.column_type {
                CqlType::Map { key, .. } => key.as_ref(),
                other => other,
            };
            let receiver = part_receiver(preparation, column, "key", part);
            prepare_term(preparation, value, &receiver).map(FilterOperator::ContainsKey)
        }
        Predicate::Like(value) => {
            let Some(index) = like_index(table, &column.name) else {
                return Err(preparation.invalid(relation.position, not_indexed(relation)));
            };
            let term = prepare_term(preparation, value, &left.receiver)?;
            Ok(FilterOperator::Like(term, index.into()))
        }
        _ => {
            Err(preparation
                .invalid(relation.position, "This relation cannot be used for filtering"))
        }
    }
}
