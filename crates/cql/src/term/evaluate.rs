//! Evaluates terms to serialised values.

use std::fmt::Display;

use bytes::Bytes;
use espalier_types::{CqlType, ValueError, collection};
use hashbrown::{HashMap, HashSet};

use super::{CompositeTerm, Term};
use crate::{
    Error, Result,
    functions::charge_bytes,
    grammar::ast::BindMarkers,
    metadata::ColumnSpec,
    options::{Value, Values},
};

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A value.
    Value(Bytes),
    /// Null.
    Null,
    /// Not set. Only a bind marker, or a column of a JSON document with `DEFAULT UNSET`, can be
    /// unset.
    Unset,
}

impl Bound {
    /// Returns the value, or `None` for null.
    ///
    /// # Errors
    /// The value is unset; the message names `what`.
    pub fn required(self, what: impl Display) -> Result<Option<Bytes>> {
        match self {
            Self::Value(value) => Ok(Some(value)),
            Self::Null => Ok(None),
            Self::Unset => Err(Error::invalid(format!("Invalid unset value for {what}"))),
        }
    }

    /// Returns the value of an argument of the named function, or `None` for null.
    ///
    /// # Errors
    /// The argument is unset.
    pub fn required_argument(self, function: &str) -> Result<Option<Bytes>> {
        self.required(format_args!("argument in call to function {function}"))
    }
}

/// The maximum bytes of the parts of a collection, tuple, vector or UDT literal. A literal can name
/// the same marker many times, so a short request could otherwise make a value of many GB.
/// Arbitrary: no write can be that long with the default settings.
const MAX_LITERAL_BYTES: usize = 64 << 20;

/// The inputs of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Evaluation<'a> {
    /// Bound values by index of their marker, checked against the markers' types.
    pub values: &'a [Value],
    /// The statement's clock in µs since 1970, for `now()` and similar functions.
    pub now_us: i64,
    /// The values of a transaction's references; `None` is null.
    pub references: &'a [Option<Bytes>],
}

impl Term {
    /// Evaluates the term.
    ///
    /// # Errors
    /// A bind marker has no value, a part of a literal or an argument is unset, a collection or
    /// vector has a null, a function fails, a JSON document is invalid, or a reference is evaluated
    /// before the transaction has read its rows.
    pub fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<Bound> {
        match self {
            Self::Constant(Some(value)) => Ok(Bound::Value(value.clone())),
            Self::Constant(None) => Ok(Bound::Null),
            Self::Bind(index) => match evaluation.values.get(usize::from(*index)) {
                Some(Value::Bytes(value)) => Ok(Bound::Value(value.clone())),
                Some(Value::Null) => Ok(Bound::Null),
                Some(Value::Unset) => Ok(Bound::Unset),
                None => Err(Error::invalid("Invalid amount of bind variables")),
            },
            Self::Reference(index) => match evaluation.references.get(usize::from(*index)) {
                Some(Some(value)) => Ok(Bound::Value(value.clone())),
                Some(None) => Ok(Bound::Null),
                None => Err(Error::invalid(
                    "A key, an index or a LIMIT cannot use a reference: the transaction evaluates them before it reads",
                )),
            },
            Self::Composite(composite) => composite.evaluate(evaluation),
            Self::JsonColumn(column) => column.evaluate(evaluation),
            Self::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    let value = argument.evaluate(evaluation)?;
                    values.push(value.required_argument(&function.name)?);
                }
                Ok(match function.call(&values, evaluation)? {
                    Some(value) => Bound::Value(value),
                    None => Bound::Null,
                })
            }
        }
    }
}

impl CompositeTerm {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<Bound> {
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut bytes = 0;
        for (index, part) in self.parts.iter().enumerate() {
            let part = match part.evaluate(evaluation)? {
                Bound::Value(value) => Some(value),
                Bound::Null => None,
                Bound::Unset => return Err(self.unset_part(index)),
            };
            bytes += part.as_ref().map_or(0, Bytes::len);
            if bytes > MAX_LITERAL_BYTES {
                return Err(Error::invalid(format!(
                    "A literal of type {} is longer than {MAX_LITERAL_BYTES} bytes",
                    self.column_type.cql_name()
                )));
            }
            parts.push(part);
        }
        build_literal(&self.column_type, parts).map(Bound::Value)
    }

    /// Creates the error for an unset value of the part at `index`.
    #[cold]
    fn unset_part(&self, index: usize) -> Error {
        let part = match &self.column_type {
            CqlType::Tuple(_) => format!("tuple field number {index}"),
            CqlType::UserDefined { definition, .. } => {
                let field = definition.fields.get(index).map_or("", |(name, _)| name.as_str());
                format!("field '{field}' of user defined type {}", definition.name)
            }
            _ => "a part of a literal".to_owned(),
        };
        Error::invalid(format!("Invalid unset value for {part}"))
    }
}

/// Serialises a literal of type `column_type` from its parts. Sets and maps are sorted. If a map
/// literal repeats a key, the map has the bytes of the first key and the value of the last.
///
/// # Errors
/// An element, key or value of a collection or vector is null, or the row or statement computes too
/// much ([`charge_bytes`]).
pub fn build_literal(column_type: &CqlType, parts: Vec<Option<Bytes>>) -> Result<Bytes> {
    charge_bytes(parts.iter().flatten().map(Bytes::len).sum())?;
    let kind = if column_type.is_collection() { "collections" } else { "vectors" };
    let no_null = |part: Option<Bytes>| {
        part.ok_or_else(|| Error::invalid(format!("null is not supported inside {kind}")))
    };
    let bytes = match column_type {
        CqlType::List { .. } => {
            let elements = parts.into_iter().map(no_null).collect::<Result<Vec<_>>>()?;
            collection::list_of(&elements)
        }
        CqlType::Vector { element, .. } => {
            let elements = parts.into_iter().map(no_null).collect::<Result<Vec<_>>>()?;
            collection::vector_of(element, &elements)
        }
        CqlType::Set { element, .. } => {
            let elements = parts.into_iter().map(no_null).collect::<Result<Vec<_>>>()?;
            collection::set_of(element, elements)
        }
        CqlType::Map { key, .. } => {
            let mut parts = parts.into_iter();
            let mut entries: Vec<(Bytes, Bytes)> = Vec::with_capacity(parts.len() / 2);
            while let (Some(k), Some(v)) = (parts.next(), parts.next()) {
                entries.push((no_null(k)?, no_null(v)?));
            }
            collection::sorted_map_of(key, entries)
        }
        _ => collection::tuple_of(parts),
    };
    Ok(bytes)
}

/// Returns the bound values in the order of the markers, each checked against its marker's type and
/// in canonical form.
///
/// # Errors
/// A marker has no value, there are too many positional values, or a value is not valid for its
/// marker's type.
pub fn bind_values(markers: &[ColumnSpec], values: Values<'_>) -> Result<Vec<Value>> {
    let mut bound = given_values(markers, values)?;
    for (marker, value) in markers.iter().zip(&mut bound) {
        check_value(marker, value).map_err(|error| invalid_bound_value(marker, &error))?;
        make_canonical(marker, value);
    }
    Ok(bound)
}

/// Returns the bound values as [`bind_values`] does, but with null in place of invalid ones.
///
/// # Errors
/// A marker has no value, or there are too many positional values.
pub fn bind_valid_values(markers: &[ColumnSpec], values: Values<'_>) -> Result<Vec<Value>> {
    let mut bound = given_values(markers, values)?;
    for (marker, value) in markers.iter().zip(&mut bound) {
        match check_value(marker, value) {
            Ok(()) => make_canonical(marker, value),
            Err(_) => *value = Value::Null,
        }
    }
    Ok(bound)
}

/// Checks that each marker has a value, and that there are no more positional values. As in
/// Cassandra, a named value counts only if a marker has its name. `text` creates the text of the
/// error from the expected and the given number.
///
/// # Errors
/// There are too few or too many values.
pub fn check_count(
    markers: &[ColumnSpec],
    values: Values<'_>,
    text: impl FnOnce(usize, usize) -> String,
) -> Result<()> {
    let given = match values {
        Values::Positional(values) => values.len(),
        Values::Named(values) => {
            let names: HashSet<&str> = values.iter().map(|(name, _)| *name).collect();
            markers.iter().filter(|marker| names.contains(marker.name.as_str())).count()
        }
    };
    if given == markers.len() {
        return Ok(());
    }
    Err(Error::invalid(text(markers.len(), given)))
}

/// Returns the values in the order of the markers. The error has Cassandra's text for EXECUTE,
/// because QUERY and BATCH check the number of their values before.
fn given_values(markers: &[ColumnSpec], values: Values<'_>) -> Result<Vec<Value>> {
    let text = |expected: usize, given: usize| {
        format!("there were {expected} markers(?) in CQL but {given} bound variables")
    };
    match values {
        Values::Positional(given) => {
            check_count(markers, values, text)?;
            Ok(given.to_vec())
        }
        Values::Named(named) => {
            // The first of several values with the same name counts.
            let by_name: HashMap<&str, &Value> =
                named.iter().rev().map(|(name, value)| (*name, value)).collect();
            let given = markers.iter().filter_map(|marker| by_name.get(marker.name.as_str()));
            let given: Vec<_> = given.map(|value| (*value).clone()).collect();
            if given.len() == markers.len() {
                return Ok(given);
            }
            Err(Error::invalid(text(markers.len(), given.len())))
        }
    }
}

#[inline]
fn make_canonical(marker: &ColumnSpec, value: &mut Value) {
    if let Value::Bytes(bytes) = value
        && let Some(canonical) = marker.column_type.canonical(bytes)
    {
        *bytes = canonical.into();
    }
}

#[cold]
fn invalid_bound_value(marker: &ColumnSpec, error: &ValueError) -> Error {
    let in_column = marker.name.strip_prefix("in(").and_then(|name| name.strip_suffix(')'));
    match (in_column, error) {
        (Some(column), ValueError::Null { .. }) => {
            Error::invalid(format!("Invalid null value in condition for column {column}"))
        }
        _ => Error::invalid(format!("Invalid value for \"{}\": {error}", marker.name)),
    }
}

/// Checks that a bound value is valid for its marker's type.
#[inline]
pub(super) fn check_value(marker: &ColumnSpec, value: &Value) -> Result<(), ValueError> {
    match (value, &marker.column_type) {
        (Value::Null | Value::Unset, _) | (_, CqlType::Blob) => Ok(()),
        (Value::Bytes(bytes), column_type) => column_type.validate(bytes),
    }
}

/// Returns the name of a marker for clients: its own, or that of its receiver.
pub fn marker_name(markers: &BindMarkers<'_>, index: u32, receiver: &str) -> String {
    markers.name(index).map_or_else(|| receiver.to_string(), |name| name.as_str().to_string())
}
