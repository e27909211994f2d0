//! Preparation of terms: turns syntax trees into typed [`Term`]s.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::schema::{ColumnDefinition, ColumnKind, Schema, TableMetadata};
use espalier_types::{CqlType, UserType, literal::FieldCount};

use super::{
    Term,
    assignment::{Assignable, is_assignable, literal_fits},
    composite::LiteralPreparation,
    custom_type::custom_type,
    evaluate::marker_name,
    hint::prepare_hinted,
    reference::{References, prepare_reference},
};
use crate::{
    Error, Result,
    functions::{self, KnownResults},
    grammar::ast::{
        BindMarker, BindMarkers, Expression, ExpressionKind, Literal, Name, Position, TypeName,
        TypeNameKind,
    },
    metadata::ColumnSpec,
};

/// The state of a statement's preparation: its context, and the markers collected so far.
pub struct Preparation<'a> {
    /// The statement's text, for errors.
    pub text: &'a str,
    /// The schema against which the statement is planned.
    pub schema: &'a Schema,
    /// The keyspace in which unqualified types and functions are looked up.
    pub keyspace: Arc<str>,
    /// The table's name in the metadata of markers.
    pub table: Arc<str>,
    /// The names of the markers.
    pub markers: &'a BindMarkers<'a>,
    /// The receiver of each marker, once it is known.
    pub bound: Vec<Option<ColumnSpec>>,
    /// The name of each anonymous marker; with `None`, each has the name of its receiver.
    pub marker_name: Option<&'static str>,
    /// Pairs of a partition key column (by position) and a marker that was bound to it, in the
    /// order of binding.
    pub key_markers: Vec<(usize, u16)>,
    /// The rows that the terms of a transaction may refer to; `None` outside a transaction.
    pub references: Option<References>,
    /// The possible results of the calls in the call that is being prepared.
    pub known_results: KnownResults,
    /// Number of columns that the JSON documents of the statement write so far.
    pub document_columns: usize,
    /// The number of terms of the plan so far, and of parts of selectors. The markers are in
    /// [`Self::bound`], so only further places of the same marker count.
    pub terms: usize,
    /// The fields of the user types in the literals and the literal JSON documents so far.
    pub fields: FieldCount,
}

impl<'a> Preparation<'a> {
    /// Creates a preparation with no marker resolved.
    pub fn new(
        text: &'a str,
        schema: &'a Schema,
        keyspace: Arc<str>,
        table: Arc<str>,
        markers: &'a BindMarkers<'a>,
    ) -> Self {
        Self {
            text,
            schema,
            keyspace,
            table,
            markers,
            bound: vec![None; markers.len()],
            marker_name: None,
            key_markers: Vec::new(),
            references: None,
            known_results: KnownResults::default(),
            document_columns: 0,
            terms: 0,
            fields: FieldCount::default(),
        }
    }

    /// Creates a preparation for a statement on `table`, with no marker resolved.
    pub fn of_table(
        text: &'a str,
        schema: &'a Schema,
        table: &TableMetadata,
        markers: &'a BindMarkers<'a>,
    ) -> Self {
        let (keyspace, name) = (table.keyspace.as_str().into(), table.name.as_str().into());
        Self::new(text, schema, keyspace, name, markers)
    }

    /// Makes `table` the table of the terms that follow.
    pub fn enter(&mut self, table: &TableMetadata) {
        self.keyspace = table.keyspace.as_str().into();
        self.table = table.name.as_str().into();
    }

    /// Creates an error 0x2200 with the place in the text.
    pub fn invalid(&self, position: Position, message: impl AsRef<str>) -> Error {
        Error::invalid_at(self.text, position, message)
    }

    /// Returns the table's column of that name.
    ///
    /// # Errors
    /// The table has no column of that name, or CQL does not show it.
    pub fn column<'t>(
        &self,
        table: &'t TableMetadata,
        name: &Name<'_>,
    ) -> Result<&'t ColumnDefinition> {
        table.visible_column(name.as_str()).ok_or_else(|| {
            let message =
                format!("Undefined column name {name} in table {}.{}", table.keyspace, table.name);
            self.invalid(name.position, message)
        })
    }

    /// Counts all fields of a literal's type, before the literal is prepared.
    ///
    /// # Errors
    /// The types of the statement's literals have too many fields.
    pub fn count_fields(&mut self, definition: &UserType) -> Result<()> {
        self.fields.add(definition).map_err(Error::invalid_from)
    }

    /// Returns the receiver for values of `name` with type `column_type`, for messages and marker
    /// metadata.
    pub fn receiver(&self, name: &str, column_type: &CqlType) -> ColumnSpec {
        ColumnSpec {
            keyspace: self.keyspace.clone(),
            table: self.table.clone(),
            name: name.to_string(),
            column_type: column_type.clone(),
        }
    }

    /// Binds a marker to `receiver` and returns its term.
    ///
    /// # Errors
    /// The marker's index is above 65,535, or the statement has no such marker.
    pub fn bind(&mut self, marker: BindMarker, receiver: &ColumnSpec) -> Result<Term> {
        let mut spec = receiver.clone();
        let name = self.marker_name.unwrap_or(&receiver.name);
        spec.name = marker_name(self.markers, marker.index, name);
        let index = u16::try_from(marker.index)
            .map_err(|_| self.invalid(marker.position, "Too many bind markers: at most 65535"))?;
        match self.bound.get_mut(usize::from(index)) {
            Some(slot) => {
                self.terms += usize::from(slot.is_some());
                *slot = Some(spec);
            }
            None => return Err(self.invalid(marker.position, "Unknown bind marker")),
        }
        self.record_key_marker(index, receiver);
        Ok(Term::Bind(index))
    }

    fn record_key_marker(&mut self, index: u16, receiver: &ColumnSpec) {
        if self.marker_name.is_some() {
            return;
        }
        let table = self.schema.keyspace(&self.keyspace).and_then(|k| k.tables.get(&*self.table));
        let key_column = table
            .and_then(|table| table.column(&receiver.name))
            .filter(|column| column.kind == ColumnKind::PartitionKey);
        if let Some(column) = key_column {
            self.key_markers.push((column.position, index));
        }
    }

    /// Returns the last marker that is bound to each partition key column of `table`. The list is
    /// empty if one of these columns has no marker.
    pub fn key_indices(&self, table: &TableMetadata) -> Vec<u16> {
        let last = |position| {
            let mut markers = self.key_markers.iter().rev();
            markers.find(|(other, _)| *other == position).map(|(_, index)| *index)
        };
        (0..table.partition_key_columns().len())
            .map(last)
            .collect::<Option<_>>()
            .unwrap_or_default()
    }

    /// Returns whether the receivers of all markers belong to `table`.
    pub fn is_bound_to_one_table(&self, table: &TableMetadata) -> bool {
        self.bound
            .iter()
            .flatten()
            .all(|spec| *spec.keyspace == *table.keyspace && *spec.table == *table.name)
    }

    /// Returns the metadata of all markers.
    ///
    /// # Errors
    /// A marker has no receiver, so that its type is unknown.
    pub fn into_markers(self) -> Result<Vec<ColumnSpec>> {
        self.bound
            .into_iter()
            .enumerate()
            .map(|(index, spec)| {
                spec.ok_or_else(|| {
                    Error::invalid(format!("Cannot infer type for bind marker {index}"))
                })
            })
            .collect()
    }

    /// Resolves a type as written, including user-defined types.
    ///
    /// # Errors
    /// As the function [`resolve_type`], or the type exceeds the limits of types. The limits hold
    /// also for a type that no table has, because a value of a larger type may take any time to
    /// check.
    pub fn resolve_type(&self, name: &TypeName<'_>) -> Result<CqlType> {
        let resolved = resolve_type(self.text, self.schema, &self.keyspace, name)?;
        resolved
            .check_limits()
            .map_err(|error| Error::invalid_at(self.text, name.position, error.to_string()))?;
        Ok(resolved)
    }
}

/// Resolves a type as written, with user-defined types from `schema`.
///
/// # Errors
/// A user-defined type does not exist or is in another keyspace, a vector has the dimension 0, or
/// the class of a custom type is unknown.
pub fn resolve_type(
    text: &str,
    schema: &Schema,
    keyspace: &str,
    name: &TypeName<'_>,
) -> Result<CqlType> {
    let resolve = |inner: &TypeName<'_>| resolve_type(text, schema, keyspace, inner);
    Ok(match &name.kind {
        TypeNameKind::Native(native) => native.clone(),
        TypeNameKind::List(element) => {
            CqlType::List { element: Arc::new(resolve(element)?), frozen: false }
        }
        TypeNameKind::Set(element) => {
            CqlType::Set { element: Arc::new(resolve(element)?), frozen: false }
        }
        TypeNameKind::Map(key, value) => CqlType::Map {
            key: Arc::new(resolve(key)?),
            value: Arc::new(resolve(value)?),
            frozen: false,
        },
        TypeNameKind::Tuple(parts) => CqlType::Tuple(
            parts
                .iter()
                .map(|part| Ok(resolve(part)?.freeze()))
                .collect::<Result<Vec<_>>>()?
                .into(),
        ),
        TypeNameKind::Vector(element, dimension) => {
            let size = usize::try_from(*dimension).ok().filter(|size| *size > 0);
            let size = size.ok_or_else(|| {
                let message =
                    format!("vectors may only have positive dimensions; given {dimension}");
                Error::invalid_at(text, name.position, message)
            })?;
            CqlType::Vector { element: Arc::new(resolve(element)?.freeze()), dimension: size }
        }
        TypeNameKind::Frozen(inner) => resolve(inner)?.freeze(),
        TypeNameKind::UserDefined(type_name) => {
            let owner = type_name.keyspace.as_ref().map_or(keyspace, Name::as_str);
            // The schema tables store a column's type without its keyspace, so a user type must be
            // in the keyspace of the statement.
            if owner != keyspace {
                let message = format!(
                    "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {owner}; user types can only be used in the keyspace they are defined in"
                );
                return Err(Error::invalid_at(text, name.position, message));
            }
            let definition =
                schema.keyspace(owner).and_then(|k| k.types.get(type_name.name.as_str()));
            match definition {
                Some(definition) => {
                    CqlType::UserDefined { definition: definition.clone(), frozen: false }
                }
                // DESCRIBE prints this name for the type of a column without values.
                None if type_name.name.as_str() == "empty" => CqlType::Empty,
                None => {
                    let message = format!("Unknown type {owner}.{}", type_name.name);
                    return Err(Error::invalid_at(text, name.position, message));
                }
            }
        }
        TypeNameKind::Custom(class) => custom_type(schema, keyspace, class)?,
    })
}

/// Prepares a term for a value of `receiver`'s type.
///
/// # Errors
/// The term has no value of the receiver's type, reads a row, or names a function, type or field
/// that does not exist.
pub fn prepare_term(
    preparation: &mut Preparation<'_>,
    expression: &Expression<'_>,
    receiver: &ColumnSpec,
) -> Result<Term> {
    let position = expression.position;
    let terms = preparation.terms;
    let mut literal = LiteralPreparation { preparation: &mut *preparation, position, receiver };
    let term = match &expression.kind {
        ExpressionKind::Null => Ok(Term::NULL),
        ExpressionKind::BindMarker(marker) => preparation.bind(*marker, receiver),
        ExpressionKind::Literal(scalar) => constant(preparation, scalar, position, receiver)
            .map(|value| Term::Constant(Some(value))),
        ExpressionKind::List(items) => literal.list(items),
        ExpressionKind::Set(items) => literal.set(items),
        ExpressionKind::Map(entries) => literal.map(entries),
        ExpressionKind::UserDefined(fields) => literal.user_defined(fields),
        ExpressionKind::Tuple(items) => literal.tuple(items),
        ExpressionKind::TypeHint(type_name, inner) => {
            prepare_hinted(preparation, expression, type_name, inner, receiver)
        }
        ExpressionKind::Function(_)
        | ExpressionKind::Cast(..)
        | ExpressionKind::Negate(_)
        | ExpressionKind::Arithmetic(_) => call(preparation, expression, receiver),
        ExpressionKind::Column(_)
        | ExpressionKind::CountRows
        | ExpressionKind::CellMetadata(..)
        | ExpressionKind::Field(..)
        | ExpressionKind::Element(..)
        | ExpressionKind::Slice(..) => prepare_reference(preparation, expression, receiver)?
            .ok_or_else(|| {
                preparation.invalid(position, format!("{expression} is not a value here"))
            }),
    }?;
    match term {
        Term::Bind(_) => {}
        // The plan has only the constant, not the terms that it was made from.
        Term::Constant(_) => preparation.terms = terms + 1,
        _ => preparation.terms += 1,
    }
    Ok(term)
}

/// Prepares a value that a condition compares with. The bytes of a hexadecimal constant for a tuple
/// or a tinyint are not checked, as in Cassandra.
///
/// # Errors
/// As [`prepare_term`].
pub fn prepare_compared(
    preparation: &mut Preparation<'_>,
    expression: &Expression<'_>,
    receiver: &ColumnSpec,
) -> Result<Term> {
    if let ExpressionKind::Literal(Literal::Blob(text)) = &expression.kind
        && let CqlType::Tuple(_) | CqlType::Tinyint = receiver.column_type
        && let Ok(bytes) = espalier_types::literal::from_text(&CqlType::Blob, text)
    {
        preparation.terms += 1;
        return Ok(Term::Constant(Some(bytes)));
    }
    prepare_term(preparation, expression, receiver)
}

/// Prepares a call of a function or operator, whose result must fit `receiver`.
fn call(
    preparation: &mut Preparation<'_>,
    expression: &Expression<'_>,
    receiver: &ColumnSpec,
) -> Result<Term> {
    let target = &receiver.column_type;
    let (term, found) = functions::prepare_call(preparation, expression, Some(receiver))?;
    if is_assignable(&found, target) == Assignable::No {
        let result = match &expression.kind {
            ExpressionKind::Function(call) => format!("function system.{}", call.name.name),
            _ => expression.to_string(),
        };
        return Err(preparation.invalid(
            expression.position,
            format!(
                "Type error: cannot assign result of {result} (type {}) to {} (type {})",
                found.cql_name(),
                receiver.name,
                target.cql_name()
            ),
        ));
    }
    Ok(term)
}

/// Parses a literal as a value of the receiver's type.
pub(super) fn constant(
    preparation: &Preparation<'_>,
    value: &Literal<'_>,
    position: Position,
    receiver: &ColumnSpec,
) -> Result<Bytes> {
    let target = &receiver.column_type;
    let (kind, text): (&str, std::borrow::Cow<'_, str>) = match value {
        Literal::Integer(text) => ("INTEGER", (*text).into()),
        Literal::Float(text) => ("FLOAT", (*text).into()),
        Literal::String(text) => ("STRING", text.as_ref().into()),
        Literal::Boolean(value) => ("BOOLEAN", value.to_string().into()),
        Literal::Uuid(text) => ("UUID", (*text).into()),
        Literal::Blob(text) => ("HEX", (*text).into()),
        Literal::Duration(text) => ("DURATION", (*text).into()),
    };
    let place = || format!("\"{}\" of type {}", receiver.name, target.cql_name());
    if literal_fits(value, target) == Assignable::No {
        let message = format!("Invalid {kind} constant ({text}) for {}", place());
        return Err(preparation.invalid(position, message));
    }
    let parsed = match target {
        CqlType::Counter => espalier_types::literal::from_text(&CqlType::Bigint, &text),
        CqlType::Tuple(_) | CqlType::Tinyint if kind == "HEX" => {
            espalier_types::literal::from_text(&CqlType::Blob, &text)
        }
        _ => espalier_types::literal::from_text(target, &text),
    };
    let at_place =
        |error: String| preparation.invalid(position, format!("{error}, for {}", place()));
    let value = parsed.map_err(|error| at_place(error.to_string()))?;
    if kind == "HEX" {
        target.validate(&value).map_err(|error| at_place(error.to_string()))?;
    }
    Ok(value)
}
