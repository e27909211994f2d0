//! `(type) term`: the term must be one of that type, and the type one that the receiver takes.
//!
//! What has no bytes yet, a literal or a marker, then becomes a value of the receiver's type as in Cassandra, not of the hinted
//! one: the four bytes of an `int` are not how a `varint` is written. Only the result of a call is stored as it is.

use espalier_types::CqlType;

use super::{
    Preparation, Term,
    assignment::{Assignable, is_assignable},
    prepare::{constant, prepare_term},
};
use crate::{
    Result,
    grammar::ast::{Expression, ExpressionKind, TypeName},
    metadata::ColumnSpec,
};

/// The term of `expression`, which is `inner` hinted to be a `type_name`.
pub(super) fn prepare_hinted(
    preparation: &mut Preparation<'_>,
    expression: &Expression<'_>,
    type_name: &TypeName<'_>,
    inner: &Expression<'_>,
    receiver: &ColumnSpec,
) -> Result<Term> {
    let position = expression.position;
    let target = &receiver.column_type;
    let hinted = preparation.resolve_type(type_name)?;
    if is_assignable(&hinted, target) == Assignable::No && !is_ascii_for_text(&hinted, target) {
        let (name, target) = (&receiver.name, target.cql_name());
        let message = format!("Cannot assign value {expression} to {name} of type {target}");
        return Err(preparation.invalid(position, message));
    }
    let as_hinted = ColumnSpec { column_type: hinted, ..receiver.clone() };
    let hinted = &as_hinted.column_type;
    let term = match hinted {
        CqlType::Tuple(_) => inner,
        _ => without_parentheses(inner),
    };
    match &term.kind {
        ExpressionKind::Function(_)
        | ExpressionKind::Cast(..)
        | ExpressionKind::Negate(_)
        | ExpressionKind::Arithmetic(_) => prepare_term(preparation, inner, &as_hinted),
        ExpressionKind::Literal(literal) => {
            let value = constant(preparation, literal, inner.position, &as_hinted)?;
            if hinted == target {
                return Ok(Term::Constant(Some(value)));
            }
            prepare_term(preparation, inner, receiver)
        }
        ExpressionKind::TypeHint(deeper, _) => {
            let found = preparation.resolve_type(deeper)?;
            if is_assignable(&found, hinted) == Assignable::No {
                let message = format!("Cannot cast value {inner} to type {}", hinted.cql_name());
                return Err(preparation.invalid(position, message));
            }
            prepare_term(preparation, inner, receiver)
        }
        _ => prepare_term(preparation, inner, receiver),
    }
}

fn without_parentheses<'e, 'a>(mut expression: &'e Expression<'a>) -> &'e Expression<'a> {
    while let ExpressionKind::Tuple(parts) = &expression.kind
        && let [only] = parts.as_slice()
    {
        expression = only;
    }
    expression
}

/// Whether the types are the same but for `ascii` where `to` has `text`: then elements have the same bytes and order.
fn is_ascii_for_text(from: &CqlType, to: &CqlType) -> bool {
    use CqlType as T;
    match (from, to) {
        (T::Ascii, T::Text) => true,
        (T::List { element: from, .. }, T::List { element: to, .. })
        | (T::Set { element: from, .. }, T::Set { element: to, .. }) => is_ascii_for_text(from, to),
        (
            T::Map { key: from_key, value: from_value, .. },
            T::Map { key: to_key, value: to_value, .. },
        ) => is_ascii_for_text(from_key, to_key) && is_ascii_for_text(from_value, to_value),
        _ => from.freeze() == to.freeze(),
    }
}
