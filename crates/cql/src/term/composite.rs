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

/// The preparation of a literal that has parts as a value of `receiver`'s type.
pub(super) struct LiteralPreparation<'p, 'a> {
    pub(super) preparation: &'p mut Preparation<'a>,
    /// The place of the literal.
    pub(super) position: Position,
    pub(super) receiver: &'p ColumnSpec,
}

impl LiteralPreparation<'_, '_> {
    /// Prepares `[a, b]`, which is a list or a vector.
    pub(super) fn list(&mut self, items: &[Expression<'_>]) -> Result<Term> {
        let receiver = self.receiver;
        let target = &receiver.column_type;
        match target {
            CqlType::List { element, .. } => self.elements("list", items, element),
            CqlType::Vector { element, dimension } => {
                if items.len() != *dimension {
                    return Err(self.invalid(format!(
                        "Invalid vector literal for {} of type {}; expected {dimension} elements, but given {}",
                        receiver.name,
                        target.cql_name(),
                        items.len()
                    )));
                }
                self.elements("vector", items, element)
            }
            _ => Err(self.invalid(format!(
                "Unexpected receiver type '{}'; only list and vector are expected",
                target.cql_name()
            ))),
        }
    }

    /// Prepares `{a, b}`. `{}` is also an empty map.
    pub(super) fn set(&mut self, items: &[Expression<'_>]) -> Result<Term> {
        let receiver = self.receiver;
        match &receiver.column_type {
            CqlType::Set { element, .. } => self.elements("set", items, element),
            CqlType::Map { .. } if items.is_empty() => finish(Vec::new(), &receiver.column_type),
            _ => Err(self.wrong_literal("set")),
        }
    }

    fn elements(
        &mut self,
        kind: &str,
        items: &[Expression<'_>],
        element: &CqlType,
    ) -> Result<Term> {
        let name = &self.receiver.name;
        for item in items {
            self.check_part(item, element, || format!("{kind} literal for {name}: value {item}"))?;
        }
        let part = self.preparation.receiver(&format!("value({name})"), element);
        let parts = items.iter().map(|item| (item, part.clone()));
        prepare_parts(self.preparation, parts, &self.receiver.column_type)
    }

    /// Prepares `{k: v}`.
    pub(super) fn map(&mut self, entries: &[(Expression<'_>, Expression<'_>)]) -> Result<Term> {
        let ColumnSpec { name, column_type: target, .. } = self.receiver;
        let CqlType::Map { key, value, .. } = target else {
            return Err(self.wrong_literal("map"));
        };
        for (k, v) in entries {
            self.check_part(k, key, || format!("map literal for {name}: key {k}"))?;
            self.check_part(v, value, || format!("map literal for {name}: value {v}"))?;
        }
        let key = self.preparation.receiver(&format!("key({name})"), key);
        let value = self.preparation.receiver(&format!("value({name})"), value);
        let parts = entries.iter().flat_map(|(k, v)| [(k, key.clone()), (v, value.clone())]);
        prepare_parts(self.preparation, parts, target)
    }

    /// Prepares `(a, b)`. Parentheses around one term may also just group it.
    pub(super) fn tuple(&mut self, items: &[Expression<'_>]) -> Result<Term> {
        let receiver = self.receiver;
        let ColumnSpec { name, column_type: target, .. } = receiver;
        let types = match target {
            CqlType::Tuple(types) => types,
            _ if items.len() == 1 => return prepare_term(self.preparation, &items[0], receiver),
            _ => return Err(self.wrong_literal("tuple type")),
        };
        if items.len() > types.len() {
            return Err(self.invalid(format!(
                "Invalid tuple literal for {name}: too many elements. Type {} expects {} but got {}",
                target.cql_name(),
                types.len(),
                items.len()
            )));
        }
        for (index, (item, part)) in items.iter().zip(types.iter()).enumerate() {
            let place = || format!("tuple literal for {name}: component {index}");
            self.check_part(item, part, place)?;
        }
        let part = |(index, part): (usize, &CqlType)| {
            self.preparation.receiver(&format!("{name}[{index}]"), part)
        };
        let parts: Vec<_> = types.iter().take(items.len()).enumerate().map(part).collect();
        prepare_parts(self.preparation, items.iter().zip(parts), target)
    }

    /// Prepares `{field: value}`.
    pub(super) fn user_defined(&mut self, fields: &[(Name<'_>, Expression<'_>)]) -> Result<Term> {
        let ColumnSpec { name: receiver, column_type: target, .. } = self.receiver;
        let CqlType::UserDefined { definition, .. } = target else {
            return Err(self.wrong_literal("user type"));
        };
        self.preparation.count_fields(definition)?;
        let given = fields.iter().map(|(name, expression)| (name.as_str(), expression));
        let given = values_by_field(definition, given).map_err(|at| {
            let name = &fields[at].0;
            let message =
                format!("Unknown field '{name}' in value of user defined type {}", definition.name);
            self.preparation.invalid(name.position, message)
        })?;
        let mut parts = Vec::with_capacity(definition.fields.len());
        for ((field, field_type), given) in definition.fields.iter().zip(given) {
            parts.push(match given {
                Some(expression) => {
                    let place = || format!("user type literal for {receiver}: field {field}");
                    self.check_part(expression, field_type, place)?;
                    let name = format!("{receiver}.{field}");
                    let part = self.preparation.receiver(&name, field_type);
                    prepare_term(self.preparation, expression, &part)?
                }
                None => Term::NULL,
            });
        }
        finish(parts, target)
    }

    /// Refuses a part of the literal that cannot have the type of its place. `place` names the
    /// literal and the part.
    fn check_part(
        &self,
        part: &Expression<'_>,
        wanted: &CqlType,
        place: impl FnOnce() -> String,
    ) -> Result<()> {
        if argument_of(self.preparation, part)?.fits(wanted) != Assignable::No {
            return Ok(());
        }
        let message = format!("Invalid {} is not of type {}", place(), wanted.cql_name());
        Err(self.preparation.invalid(part.position, message))
    }

    fn wrong_literal(&self, kind: &str) -> Error {
        let ColumnSpec { name, column_type, .. } = self.receiver;
        let target = column_type.cql_name();
        self.invalid(format!("Invalid {kind} literal for {name} of type {target}"))
    }

    /// Creates an error 0x2200 at the place of the literal.
    fn invalid(&self, message: String) -> Error {
        self.preparation.invalid(self.position, message)
    }
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

/// Prepares a literal from its parts as written, each with its receiver.
///
/// # Errors
/// As [`prepare_term`], for any part.
pub fn prepare_parts<'e>(
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
