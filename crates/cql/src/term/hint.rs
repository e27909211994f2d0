//! Type hints, `(type) term`: the term must have that type, and the receiver must accept the type.
//!
//! As in Cassandra, a hinted literal or marker is encoded in the receiver's type. A value that is
//! encoded in the hinted type may not be in the canonical form of the receiver's type: `(int) 1`
//! would put four bytes into a `varint` column, instead of one. The results of function calls,
//! casts and operators are encoded in the hinted type.

use espalier_types::CqlType;

use super::{
    Preparation, Term,
    assignment::{Assignable, is_assignable},
    prepare::{constant, prepare_term},
};
use crate::{
    Result,
    functions::argument_of,
    grammar::{
        TermText,
        ast::{Expression, ExpressionKind, TypeName},
    },
    metadata::ColumnSpec,
};

/// Prepares `expression`, which is `inner` with the hint `type_name`.
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
    if argument_of(preparation, inner)?.fits(&hinted) == Assignable::No {
        let message =
            format!("Cannot cast value {} to type {}", TermText(inner), hinted.cql_name());
        return Err(preparation.invalid(position, message));
    }
    if is_assignable(&hinted, target) == Assignable::No && !is_ascii_for_text(&hinted, target) {
        let (name, target) = (&receiver.name, target.cql_name());
        let message =
            format!("Cannot assign value {} to {name} of type {target}", TermText(expression));
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

/// Returns whether the types are equal apart from frozenness, or have `ascii` in `from` where `to`
/// has `text`. Values of `ascii` and `text` have the same bytes and order.
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
