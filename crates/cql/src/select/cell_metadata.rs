//! Preparation of WRITETIME, MAXWRITETIME and TTL of a column, or of a part of it.

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
    term::Term,
};

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
        let (name, is_whole) = self.metadata_target(&call)?;
        let column = self.column(name)?.clone();
        if column.is_primary_key() {
            return Err(call.refuse(self, &format!("PRIMARY KEY part {name}")));
        }
        let part = if is_whole { MetadataPart::Whole } else { self.metadata_part(&call, &column)? };
        let is_list = column.is_complex()
            && metadata != CellMetadata::MaximumWriteTime
            && matches!(part, MetadataPart::Whole | MetadataPart::Range(..));
        let result =
            if is_list { CqlType::List { element: Arc::new(one), frozen: true } } else { one };
        Ok((SelectExpression::Metadata(metadata, column, part), result))
    }

    /// Returns the column that the call names, and whether the call is on the whole column.
    fn metadata_target<'e>(&self, call: &Call<'e>) -> Result<(&'e Name<'e>, bool)> {
        let column = match &call.inner.kind {
            ExpressionKind::Column(name) => return Ok((name, true)),
            ExpressionKind::Element(column, _)
            | ExpressionKind::Field(column, _)
            | ExpressionKind::Slice(column, ..) => column,
            _ => return Err(call.refuse(self, &call.inner.to_string())),
        };
        match &column.kind {
            ExpressionKind::Column(name) => Ok((name, false)),
            _ => {
                Err(self
                    .invalid(call.expression, "Cannot use selection function on this expression"))
            }
        }
    }

    /// Prepares the part of a column that the call names, as a selector of this part is prepared.
    fn metadata_part(
        &mut self,
        call: &Call<'_>,
        column: &ColumnDefinition,
    ) -> Result<MetadataPart> {
        let (part, _) = self.prepare(call.inner, None)?;
        let key_is_term = match &part {
            SelectExpression::Element(_, _, key) => matches!(**key, SelectExpression::Term(_)),
            _ => true,
        };
        if !key_is_term {
            return Err(call.refuse(self, &call.inner.to_string()));
        }
        if !column.is_complex() {
            return Ok(MetadataPart::OfFrozen(Box::new(part)));
        }
        match part {
            SelectExpression::Field(_, index) => {
                let path = Bytes::copy_from_slice(&(index as u16).to_be_bytes());
                Ok(MetadataPart::Path(Term::Constant(Some(path))))
            }
            SelectExpression::Element(_, _, key) => match *key {
                SelectExpression::Term(term) => Ok(MetadataPart::Path(term)),
                _ => Err(call.refuse(self, &call.inner.to_string())),
            },
            SelectExpression::Slice(_, _, from, to) => Ok(MetadataPart::Range(from, to)),
            _ => Err(call.refuse(self, &call.inner.to_string())),
        }
    }
}
