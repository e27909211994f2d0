//! Plans the conditions of `IF`.

use espalier_mutation::schema::{ColumnDefinition, TableMetadata};
use espalier_types::CqlType;

use super::{ColumnCondition, Condition, ConditionTarget};
use crate::{
    Error, Result,
    ddl::contains_duration,
    grammar::ast::{
        self, ComparisonOperator as Operator, Expression, Predicate, Relation, RelationTarget,
        Using,
    },
    metadata::ColumnSpec,
    restrictions::{Alternatives, FilterOperator},
    term::{Preparation, Term, prepare_compared, prepare_term},
};

/// Plans an `IF` other than `IF NOT EXISTS`.
///
/// # Errors
/// The statement has USING TIMESTAMP and conditions on columns, or a condition names an unknown
/// column, a column of the primary key or a counter, or has an operator or a value that does not
/// fit the column.
pub fn plan_condition(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    using: &Using<'_>,
    condition: &ast::Condition<'_>,
) -> Result<Condition> {
    match condition {
        ast::Condition::None => Ok(Condition::None),
        ast::Condition::Exists => Ok(Condition::Exists),
        ast::Condition::Relations(relations) => {
            if using.timestamp.is_some() {
                return Err(Error::invalid(
                    "Cannot provide custom timestamp for conditional updates",
                ));
            }
            let plan = |relation| plan_relation(preparation, table, relation);
            relations.iter().map(plan).collect::<Result<_>>().map(Condition::Columns)
        }
    }
}

fn plan_relation(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    relation: &Relation<'_>,
) -> Result<ColumnCondition> {
    let (RelationTarget::Column(name)
    | RelationTarget::Element(name, _)
    | RelationTarget::Field(name, _)) = &relation.target
    else {
        return Err(preparation.invalid(relation.position, "IF tests one column at a time"));
    };
    let column = preparation.column(table, name)?;
    if column.column_type.is_counter() {
        return Err(preparation.invalid(name.position, "Conditions on counters are not supported"));
    }
    let (target, receiver) = plan_target(preparation, relation, column)?;
    check_durations(preparation, relation, &receiver.column_type)?;
    let operator = plan_operator(preparation, relation, column, &receiver)?;
    if column.is_primary_key() {
        let message = format!("PRIMARY KEY column '{name}' cannot have IF conditions");
        return Err(preparation.invalid(name.position, message));
    }
    Ok(ColumnCondition { target, operator })
}

/// Returns the left side of a condition, and the receiver of the values on its right side.
fn plan_target(
    preparation: &mut Preparation<'_>,
    relation: &Relation<'_>,
    column: &ColumnDefinition,
) -> Result<(ConditionTarget, ColumnSpec)> {
    let name = &column.name;
    match &relation.target {
        RelationTarget::Element(_, key) => {
            let (label, key_type, value_type) = match &column.column_type {
                CqlType::Map { key, value, .. } => ("key", key.as_ref(), value.as_ref()),
                CqlType::List { element, .. } => ("idx", &CqlType::Int, element.as_ref()),
                CqlType::Set { .. } => {
                    let message = format!("Invalid element access syntax for set column {name}");
                    return Err(preparation.invalid(relation.position, message));
                }
                _ => {
                    let message =
                        format!("Invalid element access syntax for non-collection column {name}");
                    return Err(preparation.invalid(relation.position, message));
                }
            };
            let key_receiver = preparation.receiver(&format!("{label}({name})"), key_type);
            let key = prepare_term(preparation, key, &key_receiver)?;
            let receiver = preparation.receiver(&format!("value({name})"), value_type);
            Ok((ConditionTarget::Element(column.clone(), key), receiver))
        }
        RelationTarget::Field(_, field) => {
            let CqlType::UserDefined { definition, .. } = &column.column_type else {
                let message = format!("Invalid field access syntax for non-UDT column {name}");
                return Err(preparation.invalid(field.position, message));
            };
            let Some((index, field_type)) = definition.field(field.as_str()) else {
                let message = format!("Unknown field {field} for column {name}");
                return Err(preparation.invalid(field.position, message));
            };
            let receiver = preparation.receiver(&format!("{name}.{field}"), field_type);
            Ok((ConditionTarget::Field(column.clone(), index), receiver))
        }
        _ => {
            let receiver = preparation.receiver(name, &column.column_type);
            Ok((ConditionTarget::Column(column.clone()), receiver))
        }
    }
}

fn check_durations(
    preparation: &Preparation<'_>,
    relation: &Relation<'_>,
    column_type: &CqlType,
) -> Result<()> {
    let Predicate::Compare(operator, _) = &relation.predicate else { return Ok(()) };
    let is_slice = !matches!(operator, Operator::Equal | Operator::NotEqual);
    if !is_slice || !contains_duration(column_type) {
        return Ok(());
    }
    let kind = match column_type {
        CqlType::Tuple(_) => "tuples containing durations",
        CqlType::UserDefined { .. } => "UDTs containing durations",
        collection if collection.is_collection() => "collections containing durations",
        _ => {
            let symbol = operator.symbol();
            let message = format!("Slice conditions ( {symbol} ) are not supported on durations");
            return Err(preparation.invalid(relation.position, message));
        }
    };
    let message = format!("Slice conditions are not supported on {kind}");
    Err(preparation.invalid(relation.position, message))
}

fn plan_operator(
    preparation: &mut Preparation<'_>,
    relation: &Relation<'_>,
    column: &ColumnDefinition,
    receiver: &ColumnSpec,
) -> Result<FilterOperator> {
    let name = &column.name;
    match &relation.predicate {
        Predicate::Compare(operator, value) => {
            let term = prepare_compared(preparation, value, receiver)?;
            Ok(FilterOperator::Compare(*operator, term))
        }
        Predicate::In(values) => {
            let name = format!("in({})", receiver.name);
            Alternatives::plan(preparation, values, receiver, &name, prepare_compared)
                .map(FilterOperator::In)
        }
        Predicate::Contains(value) => {
            let part = match &column.column_type {
                CqlType::List { element, .. } | CqlType::Set { element, .. } => element,
                CqlType::Map { value, .. } => value,
                _ => {
                    let message = format!("Cannot use CONTAINS on non-collection column {name}");
                    return Err(preparation.invalid(relation.position, message));
                }
            };
            part_of(preparation, "value", name, part, value).map(FilterOperator::Contains)
        }
        Predicate::ContainsKey(value) => {
            let CqlType::Map { key, .. } = &column.column_type else {
                let message = format!("Cannot use CONTAINS KEY on non-map column {name}");
                return Err(preparation.invalid(relation.position, message));
            };
            part_of(preparation, "key", name, key, value).map(FilterOperator::ContainsKey)
        }
        // The grammar has none of these in IF.
        Predicate::NotIn(_)
        | Predicate::NotContains(_)
        | Predicate::NotContainsKey(_)
        | Predicate::Like(_)
        | Predicate::Between(..)
        | Predicate::IsNotNull => {
            Err(preparation.invalid(relation.position, "IF does not support this operator"))
        }
    }
}

/// Prepares the element of a collection that CONTAINS looks for.
fn part_of(
    preparation: &mut Preparation<'_>,
    label: &str,
    column: &str,
    part: &CqlType,
    value: &Expression<'_>,
) -> Result<Term> {
    let receiver = preparation.receiver(&format!("{label}({column})"), part);
    prepare_term(preparation, value, &receiver)
}
