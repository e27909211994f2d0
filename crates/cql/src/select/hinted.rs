//! Preparation of selectors with a type hint, `(type) selector`, whose parts may read columns.

use espalier_types::CqlType;

use super::{expression::SelectExpression, selection::SelectionPreparation};
use crate::{
    Result,
    grammar::ast::{Expression, ExpressionKind},
    term::{Assignable, Term, values_by_field},
};

impl SelectionPreparation<'_, '_> {
    /// Prepares `inner` as a value of type `wanted`. `whole` is the selector with its hint, for
    /// messages.
    pub(super) fn assigned(
        &mut self,
        whole: &Expression<'_>,
        inner: &Expression<'_>,
        wanted: &CqlType,
    ) -> Result<SelectExpression> {
        if let Some(parts) = self.assigned_parts(whole, inner, wanted)? {
            return Ok(SelectExpression::Composite(wanted.clone(), parts));
        }
        let (operand, argument) = self.operand(inner)?;
        if argument.fits(wanted) == Assignable::No {
            let message =
                format!("Cannot assign value {whole} to {whole} of type {}", wanted.cql_name());
            return Err(self.invalid(whole, message));
        }
        self.finish(operand, wanted)
    }

    /// Prepares the parts of a literal of type `wanted`. Returns `None` if `inner` is no such
    /// literal.
    fn assigned_parts(
        &mut self,
        whole: &Expression<'_>,
        inner: &Expression<'_>,
        wanted: &CqlType,
    ) -> Result<Option<Vec<SelectExpression>>> {
        let parts: Vec<(&Expression<'_>, &CqlType)> = match (&inner.kind, wanted) {
            (ExpressionKind::List(items), CqlType::List { element, .. })
            | (ExpressionKind::Set(items), CqlType::Set { element, .. }) => {
                items.iter().map(|item| (item, &**element)).collect()
            }
            (ExpressionKind::List(items), CqlType::Vector { element, dimension })
                if items.len() == *dimension =>
            {
                items.iter().map(|item| (item, &**element)).collect()
            }
            (ExpressionKind::Map(entries), CqlType::Map { key, value, .. }) => {
                entries.iter().flat_map(|(k, v)| [(k, &**key), (v, &**value)]).collect()
            }
            (ExpressionKind::Tuple(items), CqlType::Tuple(types)) if items.len() <= types.len() => {
                items.iter().zip(types.iter()).collect()
            }
            _ => return self.assigned_fields(whole, inner, wanted),
        };
        parts
            .into_iter()
            .map(|(part, wanted)| self.assigned(whole, part, wanted))
            .collect::<Result<_>>()
            .map(Some)
    }

    /// Prepares the fields of a literal of a user type. The parser reads `{a: v}` as a map whose
    /// keys are columns.
    fn assigned_fields(
        &mut self,
        whole: &Expression<'_>,
        inner: &Expression<'_>,
        wanted: &CqlType,
    ) -> Result<Option<Vec<SelectExpression>>> {
        let CqlType::UserDefined { definition, .. } = wanted else { return Ok(None) };
        let given: Option<Vec<(&str, &Expression<'_>)>> = match &inner.kind {
            ExpressionKind::UserDefined(fields) => {
                Some(fields.iter().map(|(name, value)| (name.as_str(), value)).collect())
            }
            ExpressionKind::Map(entries) => entries
                .iter()
                .map(|(key, value)| match &key.kind {
                    ExpressionKind::Column(name) => Some((name.as_str(), value)),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        let Some(given) = given else { return Ok(None) };
        self.preparation.count_fields(definition)?;
        let values = values_by_field(definition, given.iter().copied()).map_err(|at| {
            let (unknown, name) = (given[at].0, &definition.name);
            let message = format!("Unknown field '{unknown}' in value of user defined type {name}");
            self.invalid(inner, message)
        })?;
        let null = SelectExpression::Term(Term::NULL);
        let mut parts = Vec::with_capacity(definition.fields.len());
        for (field_type, value) in definition.field_types().zip(values) {
            parts.push(match value {
                Some(value) => self.assigned(whole, value, field_type)?,
                None => null.clone(),
            });
        }
        Ok(Some(parts))
    }
}
