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
        let (inner, inner_type) = self.prepare(inner, None)?;
        let CqlType::UserDefined { definition, .. } = &inner_type else {
            return Err(self.invalid(
                expression,
                format!("Invalid field selection: {} is not a UDT", inner_type.cql_name()),
            ));
        };
        let Some(index) = definition.fields.iter().position(|(field, _)| field == name.as_str())
        else {
            return Err(self.invalid(
                expression,
                format!("{expression} of type {} has no field {name}", inner_type.cql_name()),
            ));
        };
        let field_type = definition.fields[index].1.clone();
        Ok((SelectExpression::Field(Box::new(inner), index), field_type))
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
                    "Element selection is only allowed on sets and maps, but {} is a list",
                    expression.to_string().split('[').next().unwrap_or_default()
                );
                return Err(self.invalid(expression, message));
            }
            other => {
                return Err(self.invalid(
                    expression,
                    format!("Invalid element selection: {} is not a collection", other.cql_name()),
                ));
            }
        };
        let key_type = key_type.clone();
        let element_type = element_type.clone();
        let key = match &key.kind {
            ExpressionKind::BindMarker(marker) => {
                let name = format!("{part}({collection})");
                let receiver = self.preparation.receiver(&name, &key_type);
                SelectExpression::Term(self.preparation.bind(*marker, &receiver)?)
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
                return Err(self.invalid(
                    expression,
                    format!(
                        "Slice selections are allowed only on sets and maps, not on {}",
                        other.cql_name()
                    ),
                ));
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
