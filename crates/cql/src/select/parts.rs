//! Preparation of selectors of a part of a value: `u.field`, `c[key]`, `c[from..to]`.

use espalier_types::CqlType;

use super::{expression::SelectExpression, selection::SelectionPreparation};
use crate::{
    Result,
    grammar::ast::{Expression, ExpressionKind, Name},
    term::prepare_term,
};

impl SelectionPreparation<'_, '_> {
    /// Prepares `inner.name`.
    pub(super) fn field(
        &mut self,
        expression: &Expression<'_>,
        inner: &Expression<'_>,
        name: &Name<'_>,
    ) -> Result<(SelectExpression, CqlType)> {
        let whole = inner;
        let (inner, inner_type) = self.prepare(inner, None)?;
        let CqlType::UserDefined { definition, .. } = &inner_type else {
            return Err(self.invalid(
                expression,
                format!(
                    "Invalid field selection: {whole} of type {} is not a user type",
                    inner_type.cql_name()
                ),
            ));
        };
        let Some((index, field_type)) = definition.field(name.as_str()) else {
            return Err(self.invalid(
                expression,
                format!("{whole} of type {} has no field {name}", inner_type.cql_name()),
            ));
        };
        Ok((SelectExpression::Field(Box::new(inner), index), field_type.clone()))
    }

    /// Prepares `collection[key]`.
    pub(super) fn element(
        &mut self,
        expression: &Expression<'_>,
        collection: &Expression<'_>,
        key: &Expression<'_>,
    ) -> Result<(SelectExpression, CqlType)> {
        let (inner, inner_type) = self.prepare(collection, None)?;
        let (part, key_type, element_type) = match &inner_type {
            CqlType::Map { key, value, .. } => ("key", key.as_ref(), value.as_ref()),
            CqlType::Set { element, .. } => ("value", element.as_ref(), element.as_ref()),
            CqlType::List { .. } => {
                let message = format!(
                    "Element selection is only allowed on sets and maps, but {collection} is a list"
                );
                return Err(self.invalid(expression, message));
            }
            other => {
                return Err(self.invalid(
                    expression,
                    format!(
                        "Invalid element selection: {collection} is of type {} is not a collection",
                        other.cql_name()
                    ),
                ));
            }
        };
        let key_type = key_type.clone();
        let element_type = element_type.clone();
        let key = match &key.kind {
            ExpressionKind::BindMarker(_) | ExpressionKind::Literal(_) => {
                let receiver =
                    self.preparation.receiver(&format!("{part}({collection})"), &key_type);
                SelectExpression::Term(prepare_term(self.preparation, key, &receiver)?)
            }
            _ => self.prepare(key, Some(&key_type))?.0,
        };
        Ok((SelectExpression::Element(Box::new(inner), inner_type, Box::new(key)), element_type))
    }

    /// Prepares `collection[from..to]`.
    pub(super) fn slice(
        &mut self,
        expression: &Expression<'_>,
        collection: &Expression<'_>,
        [from, to]: [Option<&Expression<'_>>; 2],
    ) -> Result<(SelectExpression, CqlType)> {
        let (inner, inner_type) = self.prepare(collection, None)?;
        let (part, key_type) = match &inner_type {
            CqlType::Map { key, .. } => ("key", key.as_ref().clone()),
            CqlType::Set { element, .. } => ("value", element.as_ref().clone()),
            other => {
                let message = match other {
                    CqlType::List { .. } => format!(
                        "Slice selection is only allowed on sets and maps, but {collection} is a list"
                    ),
                    other => format!(
                        "Invalid slice selection: {collection} of type {} is not a collection",
                        other.cql_name()
                    ),
                };
                return Err(self.invalid(expression, message));
            }
        };
        let name = format!("{part}({collection})");
        let receiver = self.preparation.receiver(&name, &key_type);
        let mut bound = |bound: Option<&Expression<'_>>| {
            bound.map(|bound| prepare_term(self.preparation, bound, &receiver)).transpose()
        };
        let (from, to) = (bound(from)?, bound(to)?);
        Ok((SelectExpression::Slice(Box::new(inner), inner_type.clone(), from, to), inner_type))
    }
}
