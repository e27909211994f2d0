//! Collects the possible result types of nested calls, before the wanted type is known.
//!
//! `1 + abs(-5)` fits a `bigint` column as well as an `int` column, so overloads are chosen from
//! the outside in. A first pass from the inside out collects the possible results, so that the
//! choice takes time linear in the expression.

use espalier_types::CqlType;

use super::{
    argument::{Argument, Text},
    arithmetic,
    choose::{Callee, Signature, choose},
    resolve::overloads,
};
use crate::{
    Result,
    grammar::ast::{Arithmetic, Expression, ExpressionKind, Position},
    term::{Assignable, Preparation},
};

/// Returns an operand as an argument, before its function is chosen.
///
/// # Errors
/// A function or type in the operand does not exist, or a generic function refuses its arguments.
pub fn argument_of<'e>(
    preparation: &Preparation<'_>,
    operand: &'e Expression<'e>,
) -> Result<Argument<'e>> {
    let position = operand.position;
    match &operand.kind {
        ExpressionKind::Tuple(parts) if parts.len() == 1 => argument_of(preparation, &parts[0]),
        ExpressionKind::TypeHint(type_name, _) => {
            Ok(Argument::Typed(preparation.resolve_type(type_name)?, Text::Term(operand)))
        }
        ExpressionKind::Cast(_, target) => {
            Ok(Argument::Typed(preparation.resolve_type(target)?, Text::Term(operand)))
        }
        ExpressionKind::Function(call) => {
            let arguments = arguments_of(preparation, call.arguments.iter())?;
            let candidates = overloads(preparation, &call.name, &arguments, None)?;
            let signatures: Vec<Signature> = candidates
                .into_iter()
                .map(|function| (function.argument_types, function.return_type))
                .collect();
            let callee = Callee::Function(&call.name);
            let text = Text::Term(operand);
            Ok(possible(preparation, position, callee, &signatures, &arguments, text))
        }
        ExpressionKind::Negate(inner) => {
            let arguments = [argument_of(preparation, inner)?];
            let signatures: Vec<Signature> = arithmetic::negations()
                .map(|function| (function.argument_types, function.return_type))
                .collect();
            let (callee, text) = (Callee::Negation, Text::Term(operand));
            Ok(possible(preparation, position, callee, &signatures, &arguments, text))
        }
        ExpressionKind::Arithmetic(chain) => {
            let prefixes = prefixes_of(preparation, position, chain)?;
            Ok(prefixes.into_iter().next_back().unwrap_or(Argument::Untyped(operand)))
        }
        _ => Ok(Argument::Untyped(operand)),
    }
}

/// Returns each operand as an argument, before the functions are chosen.
///
/// # Errors
/// As [`argument_of`].
pub fn arguments_of<'e>(
    preparation: &Preparation<'_>,
    operands: impl Iterator<Item = &'e Expression<'e>>,
) -> Result<Vec<Argument<'e>>> {
    operands.map(|operand| argument_of(preparation, operand)).collect()
}

/// Returns the arguments for the prefixes of a chain: `a`, `a + b`, `a + b - c` and so on.
///
/// # Errors
/// As [`argument_of`], for any operand of the chain.
pub fn prefixes_of<'e>(
    preparation: &Preparation<'_>,
    position: Position,
    chain: &'e Arithmetic<'e>,
) -> Result<Vec<Argument<'e>>> {
    let mut prefixes = vec![argument_of(preparation, &chain.first)?];
    for (index, (operator, right)) in chain.rest.iter().enumerate() {
        let right = argument_of(preparation, right)?;
        let arguments = [prefixes[prefixes.len() - 1].clone(), right];
        let signatures = arithmetic::signatures(*operator);
        let callee = Callee::Operator(operator.symbol());
        let text = Text::Prefix(&chain.first, &chain.rest[..=index]);
        prefixes.push(possible(preparation, position, callee, &signatures, &arguments, text));
    }
    Ok(prefixes)
}

fn possible<'e>(
    preparation: &Preparation<'_>,
    position: Position,
    callee: Callee<'_>,
    signatures: &[Signature],
    arguments: &[Argument<'_>],
    text: Text<'e>,
) -> Argument<'e> {
    let natural = choose(preparation, position, callee, signatures, arguments, None)
        .ok()
        .and_then(|index| signatures.get(index))
        .map(|(_, result)| result.clone());
    let mut possible: Vec<CqlType> = Vec::new();
    for (types, result) in signatures {
        let fits = types.len() == arguments.len()
            && arguments
                .iter()
                .zip(types)
                .all(|(argument, wanted)| argument.fits(wanted) != Assignable::No);
        if fits && !possible.contains(result) {
            possible.push(result.clone());
        }
    }
    Argument::Call { text, natural, possible }
}
