//! The choice among overloads: every argument must fit; more exact fits win, then the result that fits the receiver.

use espalier_types::CqlType;

use super::{ResolvedFunction, token};
use crate::{
    Result,
    grammar::ast::{Expression, ExpressionKind, QualifiedName},
    metadata::ColumnSpec,
    term::{
        Assignable, Preparation, Term, is_assignable, literal_fits, natural_type, prepare_term,
    },
};

/// What is known of an argument when its function is chosen.
#[derive(Clone, Debug)]
pub enum Argument<'e> {
    /// Its type: a column, a function's result.
    Typed(CqlType),
    /// A literal, collection or marker that takes the type asked for if it fits.
    Untyped(&'e Expression<'e>),
}

impl Argument<'_> {
    fn fits(&self, wanted: &CqlType) -> Assignable {
        match self {
            Self::Typed(known) => is_assignable(known, wanted),
            Self::Untyped(expression) => expression_fits(expression, wanted),
        }
    }

    /// The type it has by itself.
    pub fn known_type(&self) -> Option<CqlType> {
        match self {
            Self::Typed(known) => Some(known.clone()),
            Self::Untyped(expression) => natural_type(expression),
        }
    }
}

fn expression_fits(expression: &Expression<'_>, wanted: &CqlType) -> Assignable {
    let all = |items: &mut dyn Iterator<Item = (&Expression<'_>, &CqlType)>| {
        items.map(|(item, part)| expression_fits(item, part)).min().unwrap_or(Assignable::Weakly)
    };
    match (&expression.kind, wanted) {
        (ExpressionKind::Literal(literal), _) => literal_fits(literal, wanted),
        (ExpressionKind::Null | ExpressionKind::BindMarker(_), _) => Assignable::Weakly,
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
        (ExpressionKind::UserDefined(_), CqlType::UserDefined { .. }) => Assignable::Weakly,
        _ => Assignable::No,
    }
}

/// Every overload of a function that could take these arguments.
fn overloads(
    preparation: &Preparation<'_>,
    name: &str,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Vec<ResolvedFunction> {
    let _ = (arguments, receiver);
    let mut found = Vec::new();
    found.extend(token::overloads(name, preparation));
    found
}

/// Chooses the function of that name for the arguments.
pub fn resolve(
    preparation: &Preparation<'_>,
    name: &QualifiedName<'_>,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<ResolvedFunction> {
    let position = name.position();
    let known_keyspace =
        name.keyspace.as_ref().is_none_or(|keyspace| keyspace.as_str() == "system");
    let candidates = if known_keyspace {
        overloads(preparation, name.name.as_str(), arguments, receiver)
    } else {
        Vec::new()
    };
    if candidates.is_empty() {
        return Err(preparation.invalid(position, format!("Unknown function '{name}'")));
    }
    let fit = |function: &ResolvedFunction| {
        if function.argument_types.len() != arguments.len() {
            return None;
        }
        let fits: Vec<Assignable> = arguments
            .iter()
            .zip(&function.argument_types)
            .map(|(argument, wanted)| argument.fits(wanted))
            .collect();
        if fits.contains(&Assignable::No) {
            return None;
        }
        let exact = fits.iter().filter(|fit| **fit == Assignable::Exactly).count();
        let result = receiver
            .map_or(Assignable::Weakly, |wanted| is_assignable(&function.return_type, wanted));
        Some((result != Assignable::No, exact, result))
    };
    let best = candidates
        .iter()
        .filter_map(|function| fit(function).map(|fit| (fit, function)))
        .max_by_key(|(fit, _)| *fit);
    match best {
        Some((_, function)) => Ok(function.clone()),
        None => {
            let signatures: Vec<String> =
                candidates.iter().map(|function| format!("{function:?}")).collect();
            Err(preparation.invalid(position, format!(
                "Invalid call to function {name}, none of its type signatures match (known type signatures: {})",
                signatures.join(", ")
            )))
        }
    }
}

/// A function call, cast, negation or arithmetic over terms (no columns): the term and its type.
pub fn prepare_call(
    preparation: &mut Preparation<'_>,
    expression: &Expression<'_>,
    receiver: Option<&ColumnSpec>,
) -> Result<(Term, CqlType)> {
    let wanted = receiver.map(|receiver| &receiver.column_type);
    match &expression.kind {
        ExpressionKind::Function(call) => {
            let operands: Vec<&Expression<'_>> = call.arguments.iter().collect();
            let (terms, arguments) = prepare_arguments(preparation, &operands)?;
            let function = resolve(preparation, &call.name, &arguments, wanted)?;
            finish_call(preparation, function, &operands, terms)
        }
        _ => {
            let Some(natural) = natural_type(expression) else {
                let message = format!(
                    "Cannot infer type for term {expression} (try using a cast to force a type)"
                );
                return Err(preparation.invalid(expression.position, message));
            };
            let receiver = preparation.receiver(&expression.to_string(), &natural);
            Ok((prepare_term(preparation, expression, &receiver)?, natural))
        }
    }
}

/// Prepares what has a type of its own; leaves `None` for literals and markers, whose type the function decides.
fn prepare_arguments<'e>(
    preparation: &mut Preparation<'_>,
    operands: &[&'e Expression<'e>],
) -> Result<(Vec<Option<Term>>, Vec<Argument<'e>>)> {
    let mut terms = Vec::with_capacity(operands.len());
    let mut arguments = Vec::with_capacity(operands.len());
    for operand in operands.iter().copied() {
        match &operand.kind {
            ExpressionKind::Function(_)
            | ExpressionKind::Cast(..)
            | ExpressionKind::Negate(_)
            | ExpressionKind::Arithmetic(_) => {
                let (term, result) = prepare_call(preparation, operand, None)?;
                terms.push(Some(term));
                arguments.push(Argument::Typed(result));
            }
            ExpressionKind::TypeHint(type_name, _) => {
                let hinted = preparation.resolve_type(type_name)?;
                let receiver = preparation.receiver(&operand.to_string(), &hinted);
                terms.push(Some(prepare_term(preparation, operand, &receiver)?));
                arguments.push(Argument::Typed(hinted));
            }
            _ => {
                terms.push(None);
                arguments.push(Argument::Untyped(operand));
            }
        }
    }
    Ok((terms, arguments))
}

fn finish_call(
    preparation: &mut Preparation<'_>,
    function: ResolvedFunction,
    operands: &[&Expression<'_>],
    terms: Vec<Option<Term>>,
) -> Result<(Term, CqlType)> {
    let mut arguments = Vec::with_capacity(terms.len());
    for (index, (term, wanted)) in terms.into_iter().zip(&function.argument_types).enumerate() {
        arguments.push(match (term, operands.get(index)) {
            (Some(term), _) => term,
            (None, Some(operand)) => {
                let name = format!("arg{index}({})", function.name);
                let receiver = preparation.receiver(&name, wanted);
                prepare_term(preparation, operand, &receiver)?
            }
            (None, None) => Term::NULL,
        });
    }
    let result = function.return_type.clone();
    Ok((Term::Call(Box::new(function), arguments), result))
}
pub fn resolve_cast(
    p: &Preparation<'_>,
    at: crate::grammar::ast::Position,
    _a: &[Argument<'_>],
    _t: &CqlType,
) -> Result<ResolvedFunction> {
    Err(p.invalid(at, "x"))
}
pub fn resolve_negation(
    p: &Preparation<'_>,
    at: crate::grammar::ast::Position,
    _a: &[Argument<'_>],
    _t: Option<&CqlType>,
) -> Result<ResolvedFunction> {
    Err(p.invalid(at, "x"))
}
pub fn resolve_arithmetic(
    p: &Preparation<'_>,
    at: crate::grammar::ast::Position,
    _o: crate::grammar::ast::ArithmeticOperator,
    _a: &[Argument<'_>],
    _t: Option<&CqlType>,
) -> Result<ResolvedFunction> {
    Err(p.invalid(at, "x"))
}
