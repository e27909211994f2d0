//! Arguments before the choice of an overload: their known types, and how well they fit a wanted
//! type.

use std::{fmt, sync::Arc};

use espalier_types::CqlType;

use crate::{
    grammar::{
        TermText,
        ast::{ArithmeticOperator, Expression, ExpressionKind, Literal},
    },
    term::{Assignable, is_assignable, literal_fits, natural_type},
};

/// The text of an argument, for messages.
#[derive(Clone, Debug)]
pub enum Text<'e> {
    /// A selector.
    Whole(&'e Expression<'e>),
    /// A term, whose functions have their names as written.
    Term(&'e Expression<'e>),
    /// The first operand of a chain of operators, and the operators after it.
    Prefix(&'e Expression<'e>, &'e [(ArithmeticOperator, Expression<'e>)]),
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(expression) => expression.fmt(f),
            Self::Term(expression) => TermText(expression).fmt(f),
            Self::Prefix(first, rest) => {
                first.fmt(f)?;
                rest.iter().try_for_each(|(operator, operand)| {
                    write!(f, " {} {operand}", operator.symbol())
                })
            }
        }
    }
}

/// An argument of a call before the overload is chosen.
#[derive(Clone, Debug)]
pub enum Argument<'e> {
    /// An argument of a known type: a column, a function's result.
    Typed(CqlType, Text<'e>),
    /// A literal, collection or marker, which gets the wanted type if it fits.
    Untyped(&'e Expression<'e>),
    /// A call without a chosen overload.
    Call {
        /// The call as written, for messages.
        text: Text<'e>,
        /// The types of its result.
        results: Arc<PossibleResults>,
    },
}

/// The types that the result of a call may have.
#[derive(Debug)]
pub struct PossibleResults {
    /// The type of the result without a wanted type, if it is unambiguous.
    pub natural: Option<CqlType>,
    /// All types that the result could have.
    pub possible: Vec<CqlType>,
}

impl Argument<'_> {
    /// Returns how well the argument fits a wanted type.
    pub fn fits(&self, wanted: &CqlType) -> Assignable {
        match self {
            // As in Cassandra, the value of a counter column does not fit a bigint, although the
            // type `counter` is assignable to `bigint`.
            Self::Typed(CqlType::Counter, _) if *wanted == CqlType::Bigint => Assignable::No,
            Self::Typed(known, _) => is_assignable(known, wanted),
            Self::Untyped(expression) => expression_fits(expression, wanted),
            Self::Call { results, .. } if results.natural.as_ref() == Some(wanted) => {
                Assignable::Exactly
            }
            // The inner call has an error, which is reported when this call is prepared.
            Self::Call { results, .. } if results.possible.is_empty() => Assignable::Weakly,
            Self::Call { results, .. } => {
                let best = results.possible.iter().map(|known| is_assignable(known, wanted)).max();
                best.unwrap_or(Assignable::No).min(Assignable::Weakly)
            }
        }
    }

    /// Returns the type that the argument has without a receiver, if it is known.
    pub fn known_type(&self) -> Option<CqlType> {
        match self {
            Self::Typed(known, _) => Some(known.clone()),
            Self::Untyped(expression) => preferred_type(expression),
            Self::Call { results, .. } => results.natural.clone(),
        }
    }

    /// Returns whether the argument is `?` or `:name`.
    pub fn is_marker(&self) -> bool {
        matches!(self, Self::Untyped(e) if matches!(e.kind, ExpressionKind::BindMarker(_)))
    }
}

impl fmt::Display for Argument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untyped(expression) => expression.fmt(f),
            Self::Typed(_, text) | Self::Call { text, .. } => text.fmt(f),
        }
    }
}

fn expression_fits(expression: &Expression<'_>, wanted: &CqlType) -> Assignable {
    let all = |items: &mut dyn Iterator<Item = (&Expression<'_>, &CqlType)>| {
        items.map(|(item, part)| expression_fits(item, part)).min().unwrap_or(Assignable::Weakly)
    };
    match (&expression.kind, wanted) {
        (ExpressionKind::Literal(literal), _) => match literal_fits(literal, wanted) {
            Assignable::No => Assignable::No,
            _ if preferred_type(expression).as_ref() == Some(wanted) => Assignable::Exactly,
            _ => Assignable::Weakly,
        },
        (ExpressionKind::Null | ExpressionKind::BindMarker(_), _) => Assignable::Weakly,
        (ExpressionKind::TypeHint(type_name, _), _) => {
            // Without a schema, only hints of native types can be resolved. An argument with
            // another hint is `Typed`.
            match &type_name.kind {
                crate::grammar::ast::TypeNameKind::Native(hinted) => is_assignable(hinted, wanted),
                _ => Assignable::No,
            }
        }
        (
            ExpressionKind::List(items),
            CqlType::List { element, .. } | CqlType::Vector { element, .. },
        )
        | (ExpressionKind::Set(items), CqlType::Set { element, .. }) => {
            all(&mut items.iter().map(|item| (item, element.as_ref())))
        }
        (ExpressionKind::Set(items), CqlType::Map { .. } | CqlType::UserDefined { .. })
            if items.is_empty() =>
        {
            Assignable::Weakly
        }
        (ExpressionKind::Map(entries), CqlType::Map { key, value, .. }) => {
            all(&mut entries.iter().flat_map(|(k, v)| [(k, key.as_ref()), (v, value.as_ref())]))
        }
        (ExpressionKind::Tuple(items), CqlType::Tuple(types)) if items.len() <= types.len() => {
            all(&mut items.iter().zip(types.iter()))
        }
        (ExpressionKind::Tuple(items), _) if items.len() == 1 => expression_fits(&items[0], wanted),
        (ExpressionKind::UserDefined(_), CqlType::UserDefined { .. }) => Assignable::Weakly,
        _ => Assignable::No,
    }
}

/// Returns the type that an expression has without a wanted type: the smallest of `int`, `bigint`
/// and `varint` for whole numbers, `ascii` for strings of ASCII characters. A collection has a type
/// if its elements have a common type.
pub fn preferred_type(expression: &Expression<'_>) -> Option<CqlType> {
    match &expression.kind {
        ExpressionKind::Literal(Literal::String(text)) if text.is_ascii() => Some(CqlType::Ascii),
        ExpressionKind::Literal(_) => natural_type(expression),
        ExpressionKind::TypeHint(type_name, _) => match &type_name.kind {
            crate::grammar::ast::TypeNameKind::Native(hinted) => Some(hinted.clone()),
            _ => None,
        },
        ExpressionKind::List(items) => {
            let element = Arc::new(common_type(items.iter())?);
            Some(CqlType::List { element, frozen: true })
        }
        ExpressionKind::Set(items) => {
            let element = Arc::new(common_type(items.iter())?);
            Some(CqlType::Set { element, frozen: true })
        }
        ExpressionKind::Map(entries) => Some(CqlType::Map {
            key: Arc::new(common_type(entries.iter().map(|(key, _)| key))?),
            value: Arc::new(common_type(entries.iter().map(|(_, value)| value))?),
            frozen: true,
        }),
        ExpressionKind::Tuple(items) => match items.as_slice() {
            [only] => preferred_type(only),
            several => {
                let types = several.iter().map(preferred_type).collect::<Option<Vec<_>>>()?;
                Some(CqlType::Tuple(types.into()))
            }
        },
        _ => None,
    }
}

/// Returns the first type of an item to which the types of all items are assignable. Skips items
/// without a type.
fn common_type<'e>(items: impl Iterator<Item = &'e Expression<'e>>) -> Option<CqlType> {
    let mut types: Vec<CqlType> = Vec::new();
    for found in items.filter_map(preferred_type) {
        if !types.contains(&found) {
            types.push(found);
        }
    }
    let fits_all = |candidate: &&CqlType| {
        types.iter().all(|other| is_assignable(other, candidate) != Assignable::No)
    };
    types.iter().find(fits_all).cloned()
}
