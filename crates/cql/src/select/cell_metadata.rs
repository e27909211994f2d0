//! Preparation of WRITETIME, MAXWRITETIME and TTL of a column, or of one cell of it.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::schema::ColumnDefinition;
use espalier_types::CqlType;

use super::{
    expression::{MetadataPart, SelectExpression},
    selection::SelectionPreparation,
};
use crate::{
    Error, Result,
    grammar::ast::{CellMetadata, Expression, ExpressionKind, Name},
    term::{Term, prepare_term},
};

/// The cells of a column that a metadata function is applied to.
enum Cells<'e> {
    Whole,
    Element(&'e Expression<'e>),
    Field(&'e Name<'e>),
}

/// A call of a metadata function as written, for its error messages.
struct Call<'e> {
    expression: &'e Expression<'e>,
    metadata: CellMetadata,
    inner: &'e Expression<'e>,
}

impl Call<'_> {
    fn refuse(&self, selection: &SelectionPreparation<'_, '_>, place: &str) -> Error {
        let function = self.metadata.function_name();
        selection.invalid(
            self.expression,
            format!("Cannot use selection function {function} on {place}"),
        )
    }
}

impl SelectionPreparation<'_, '_> {
    /// Prepares a call of a metadata function on `inner`.
    pub(super) fn metadata(
        &mut self,
        expression: &Expression<'_>,
        metadata: CellMetadata,
        inner: &Expression<'_>,
    ) -> Result<(SelectExpression, CqlType)> {
        let one = match metadata {
            CellMetadata::TimeToLive => CqlType::Int,
            _ => CqlType::Bigint,
        };
        let call = Call { expression, metadata, inner };
        let (name, cells) = self.metadata_target(&call)?;
        let column = self.column(name)?.clone();
        if column.is_primary_key() {
            return Err(call.refuse(self, &format!("PRIMARY KEY part {name}")));
        }
        if !column.is_complex() && !matches!(cells, Cells::Whole) {
            return Err(call.refuse(self, &format!("part of the frozen column {name}")));
        }
        if let Cells::Whole = cells {
            let result = if column.is_complex() && metadata != CellMetadata::MaximumWriteTime {
                CqlType::List { element: Arc::new(one), frozen: true }
            } else {
                one
            };
            return Ok((SelectExpression::Metadata(metadata, column, MetadataPart::Whole), result));
        }
        let path = self.metadata_path(&call, &column, name, cells)?;
        Ok((SelectExpression::Metadata(metadata, column, MetadataPart::Path(path)), one))
    }

    /// Returns the column that the call names, and which of its cells.
    fn metadata_target<'e>(&self, call: &Call<'e>) -> Result<(&'e Name<'e>, Cells<'e>)> {
        let (column, cells) = match &call.inner.kind {
            ExpressionKind::Column(name) => return Ok((name, Cells::Whole)),
            ExpressionKind::Element(column, key) => (column, Cells::Element(key)),
            ExpressionKind::Field(column, field) => (column, Cells::Field(field)),
            _ => return Err(call.refuse(self, &call.inner.to_string())),
        };
        match &column.kind {
            ExpressionKind::Column(name) => Ok((name, cells)),
            _ => {
                Err(self
                    .invalid(call.expression, "Cannot use selection function on this expression"))
            }
        }
    }

    /// Returns the path of one cell of a column that has several.
    fn metadata_path(
        &mut self,
        call: &Call<'_>,
        column: &ColumnDefinition,
        name: &Name<'_>,
        cells: Cells<'_>,
    ) -> Result<Term> {
        match (cells, &column.column_type) {
            (Cells::Field(field), CqlType::UserDefined { definition, .. }) => {
                let index = definition.fields.iter().position(|(other, _)| other == field.as_str());
                let Some(index) = index else {
                    return Err(
                        self.invalid(call.expression, format!("{name} has no field {field}"))
                    );
                };
                let path = Bytes::copy_from_slice(&(index as u16).to_be_bytes());
                Ok(Term::Constant(Some(path)))
            }
            (
                Cells::Element(key),
                CqlType::Map { key: key_type, .. } | CqlType::Set { element: key_type, .. },
            ) => {
                let receiver = self.preparation.receiver(&format!("key({name})"), key_type);
                prepare_term(self.preparation, key, &receiver)
            }
            _ => Err(call.refuse(self, &call.inner.to_string())),
        }
    }
}
