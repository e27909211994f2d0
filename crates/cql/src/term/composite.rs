//! Preparation of literals that have parts: collections, vectors, tuples and UDTs.

use espalier_types::{CqlType, UserType};

use super::{
    Assignable, CompositeTerm, Term,
    evaluate::build_literal,
    prepare::{Preparation, prepare_term},
};
use crate::{
    Error, Result,
    functions::argument_of,
    grammar::ast::{Expression, Name, Position},
    metadata::ColumnSpec,
};

/// Prepares `[a, b]`, which is a list or a vector.
pub(super) fn list(
    preparation: &mut Preparation<'_>,
    position: Position,
    items: &[Expression<'_>],
    receiver: &ColumnSpec,
) -> Result<Term> {
    let target = &receiver.column_type;
    match target {
        CqlType::List { element, .. } => elements(preparation, "list", items, element, receiver),
        CqlType::Vector { element, dimension } => {
            if items.len() != *dimension {
                return Err(preparation.invalid(position, format!(
                    "Invalid vector literal for {} of type {}; expected {dimension} elements, but given {}",
                    receiver.name, target.cql_name(), items.len()
                )));
            }
            elements(preparation, "vector", items, element, receiver)
        }
        _ => {
            let message = format!(
                "Unexpected receiver type '{}'; only list and vector are expected",
                target.cql_name()
            );
            Err(preparation.invalid(position, message))
        }
    }
}

/// Prepares `{a, b}`. `{}` is also an empty map.
pub(super) fn set(
    preparation: &mut Preparation<'_>,
    position: Position,
    items: &[Expression<'_>],
    receiver: &ColumnSpec,
) -> Result<Term> {
    let target = &receiver.column_type;
    match target {
        CqlType::Set { element, .. } => elements(preparation, "set", items, element, receiver),
        CqlType::Map { .. } if items.is_empty() => {
            composite(preparation, std::iter::empty::<(&Expression<'_>, ColumnSpec)>(), target)
        }
        _ => Err(wrong_literal(preparation, position, "set", receiver)),
    }
}

fn elements(
    preparation: &mut Preparation<'_>,
    kind: &str,
    items: &[Expression<'_>],
    element: &CqlType,
    receiver: &ColumnSpec,
) -> Result<Term> {
    for item in items {
        check_part(preparation, item, element, || {
            format!("{kind} literal for {}: value {item}", receiver.name)
        })?;
    }
    let part = preparation.receiver(&format!("value({})", receiver.name), element);
    let parts = items.iter().map(|item| (item, part.clone()));
    composite(preparation, parts, &receiver.column_type)
}

/// Prepares `{k: v}`.
pub(super) fn map(
    preparation: &mut Preparation<'_>,
    position: Position,
    entries: &[(Expression<'_>, Expression<'_>)],
    receiver: &ColumnSpec,
) -> Result<Term> {
    let target = &receiver.column_type;
    let CqlType::Map { key, value, .. } = target else {
        return Err(wrong_literal(preparation, position, "map", receiver));
    };
    for (k, v) in entries {
        let literal = |part: &str, item: &Expression<'_>| {
            format!("map literal for {}: {part} {item}", receiver.name)
        };
        check_part(preparation, k, key, || literal("key", k))?;
        check_part(preparation, v, value, || literal("value", v))?;
    }
    let key = preparation.receiver(&format!("key({})", receiver.name), key);
    let value = preparation.receiver(&format!("value({})", receiver.name), value);
    let parts: Vec<_> =
        entries.iter().flat_map(|(k, v)| [(k, key.clone()), (v, value.clone())]).collect();
    composite(preparation, parts.into_iter(), target)
}

/// Prepares `(a, b)`. Parentheses around one term may also just group it.
pub(super) fn tuple(
    preparation: &mut Preparation<'_>,
    position: Position,
    items: &[Expression<'_>],
    receiver: &ColumnSpec,
) -> Result<Term> {
    let target = &receiver.column_type;
    let types = match target {
        CqlType::Tuple(types) => types,
        _ if items.len() == 1 => return prepare_term(preparation, &items[0], receiver),
        _ => return Err(wrong_literal(preparation, position, "tuple type", receiver)),
    };
    if items.len() > types.len() {
        return Err(preparation.invalid(
            position,
            format!(
                "Invalid tuple literal for {}: too many elements. Type {} expects {} but got {}",
                receiver.name,
                target.cql_name(),
                types.len(),
                items.len()
            ),
        ));
    }
    for (index, (item, part)) in items.iter().zip(types.iter()).enumerate() {
        check_part(preparation, item, part, || {
            format!("tuple literal for {}: component {index}", receiver.name)
        })?;
    }
    let parts: Vec<_> = items
        .iter()
        .zip(types.iter())
        .enumerate()
        .map(|(i, (item, part))| {
            (item, preparation.receiver(&format!("{}[{i}]", receiver.name), part))
        })
        .collect();
    composite(preparation, parts.into_iter(), target)
}

/// Returns the value for each field of a type, from values by name. The last of several values for
/// a field counts.
///
/// # Errors
/// The index of the first value whose name is no field.
pub fn values_by_field<'n, V: Clone>(
    definition: &UserType,
    given: impl IntoIterator<Item = (&'n str, V)>,
) -> Result<Vec<Option<V>>, usize> {
    let indexes = definition.field_indexes();
    let mut values = vec![None; definition.fields.len()];
    for (at, (name, value)) in given.into_iter().enumerate() {
        let index = *indexes.get(name).ok_or(at)?;
        values[index] = Some(value);
    }
    Ok(values)
}

/// Prepares `{field: value}`.
pub(super) fn user_defined(
    preparation: &mut Preparation<'_>,
    position: Position,
    fields: &[(Name<'_>, Expression<'_>)],
    receiver: &ColumnSpec,
) -> Result<Term> {
    let CqlType::UserDefined { definition, .. } = &receiver.column_type else {
        return Err(wrong_literal(preparation, position, "user type", receiver));
    };
    let given = fields.iter().map(|(name, expression)| (name.as_str(), expression));
    let given = values_by_field(definition, given).map_err(|at| {
        let name = &fields[at].0;
        let message =
            format!("Unknown field '{name}' in value of user defined type {}", definition.name);
        preparation.invalid(name.position, message)
    })?;
    let mut parts = Vec::with_capacity(definition.fields.len());
    for ((field, field_type), given) in definition.fields.iter().zip(given) {
        let part = preparation.receiver(&format!("{}.{field}", receiver.name), field_type);
        parts.push(match given {
            Some(expression) => {
                check_part(preparation, expression, field_type, || {
                    format!("user type literal for {}: field {field}", receiver.name)
                })?;
                prepare_term(preparation, expression, &part)?
            }
            None => Term::NULL,
        });
    }
    finish(parts, &receiver.column_type)
}

/// Prepares a tuple as written, with a receiver for each part.
///
/// # Errors
/// As [`prepare_term`], for any part.
pub fn prepare_parts(
    preparation: &mut Preparation<'_>,
    parts: &[Expression<'_>],
    receivers: Vec<ColumnSpec>,
    tuple: &CqlType,
) -> Result<Term> {
    composite(preparation, parts.iter().zip(receivers), tuple)
}

/// Refuses a part of a literal that cannot have the type of its place. `place` names the literal
/// and the part.
fn check_part(
    preparation: &Preparation<'_>,
    part: &Expression<'_>,
    wanted: &CqlType,
    place: impl FnOnce() -> String,
) -> Result<()> {
    if argument_of(preparation, part)?.fits(wanted) != Assignable::No {
        return Ok(());
    }
    let message = format!("Invalid {} is not of type {}", place(), wanted.cql_name());
    Err(preparation.invalid(part.position, message))
}

fn wrong_literal(
    preparation: &Preparation<'_>,
    position: Position,
    kind: &str,
    receiver: &ColumnSpec,
) -> Error {
    preparation.invalid(
        position,
        format!(
            "Invalid {kind} literal for {} of type {}",
            receiver.name,
            receiver.column_type.cql_name()
        ),
    )
}

fn composite<'e>(
    preparation: &mut Preparation<'_>,
    parts: impl Iterator<Item = (&'e Expression<'e>, ColumnSpec)>,
    column_type: &CqlType,
) -> Result<Term> {
    let terms = parts
        .map(|(part, receiver)| prepare_term(preparation, part, &receiver))
        .collect::<Result<Vec<_>>>()?;
    finish(terms, column_type)
}

/// Returns a constant if all parts are constant, otherwise a composite.
fn finish(parts: Vec<Term>, column_type: &CqlType) -> Result<Term> {
    if !parts.iter().all(Term::is_constant) {
        return Ok(Term::Composite(CompositeTerm { column_type: column_type.clone(), parts }));
    }
    let values = parts.into_iter().map(|part| match part {
        Term::Constant(value) => value,
        _ => None,
    });
    Ok(Term::Constant(Some(build_literal(column_type, values.collect())?)))
}
