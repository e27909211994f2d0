//! Resolves the calls, casts and operators of a statement to concrete functions and terms.

use std::slice;

use espalier_types::CqlType;

use super::{
    ResolvedFunction,
    aggregate::AggregateFunction,
    argument::{Argument, preferred_type},
    arithmetic, blob, cast,
    choose::{Callee, Signature, choose},
    collection, floor,
    generic::GenericCall,
    json, mask, math,
    possible::{argument_of, arguments_of, prefixes_of},
    time, token, uuid, vector,
};
use crate::{
    Result,
    grammar::ast::{
        Arithmetic, ArithmeticOperator, Expression, ExpressionKind, Position, QualifiedName,
    },
    metadata::ColumnSpec,
    term::{Preparation, Term, prepare_term},
};

/// Returns the overloads of a function in a term, at least one. A generic function has the overload
/// for these arguments.
///
/// # Errors
/// No function has this name, it is an aggregate, or it is a generic function and refuses the
/// arguments.
pub fn overloads(
    preparation: &Preparation<'_>,
    name: &QualifiedName<'_>,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<Vec<ResolvedFunction>> {
    let found = candidates(preparation, name, arguments, receiver)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let message = if AggregateFunction::is_native(name) {
        "Aggregation function are not supported in the where clause".to_string()
    } else {
        format!("Unknown function {name} called")
    };
    Err(preparation.invalid(name.position(), message))
}

/// Returns the overloads of a function. A generic function has the overload for these arguments,
/// and an unknown function has none.
fn candidates(
    preparation: &Preparation<'_>,
    name: &QualifiedName<'_>,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<Vec<ResolvedFunction>> {
    let position = name.position();
    let called = name.name.as_str();
    let mut found = Vec::new();
    if name.keyspace.as_ref().is_none_or(|keyspace| keyspace.as_str() == "system") {
        found.extend(token::overloads(called, preparation));
        found.extend(uuid::overload(called));
        found.extend(blob::overload(called));
        found.extend(time::overloads(called));
        found.extend(math::overloads(called));
        found.extend(floor::overloads(called));
        if found.is_empty() {
            let call = GenericCall { preparation, position, name: called, arguments, receiver };
            for family in [collection::overload, vector::overload, mask::overload, json::overload] {
                found.extend(family(&call)?);
            }
        }
    }
    Ok(found)
}

/// Chooses the function of that name for the arguments of a selector.
///
/// # Errors
/// No function has this name, or as [`choose`].
pub fn resolve_selector(
    preparation: &Preparation<'_>,
    name: &QualifiedName<'_>,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<ResolvedFunction> {
    find_function(preparation, name, arguments, receiver)?
        .ok_or_else(|| preparation.invalid(name.position(), format!("Unknown function '{name}'")))
}

/// Chooses the function of that name for the arguments; `None` if no function has the name.
///
/// # Errors
/// As [`choose`].
pub fn find_function(
    preparation: &Preparation<'_>,
    name: &QualifiedName<'_>,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<Option<ResolvedFunction>> {
    let found = candidates(preparation, name, arguments, receiver)?;
    if found.is_empty() {
        return Ok(None);
    }
    choose_overload(preparation, name, found, arguments, receiver).map(Some)
}

fn choose_overload(
    preparation: &Preparation<'_>,
    name: &QualifiedName<'_>,
    mut candidates: Vec<ResolvedFunction>,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<ResolvedFunction> {
    let position = name.position();
    let signatures: Vec<Signature> = candidates
        .iter()
        .map(|function| (function.argument_types.clone(), function.return_type.clone()))
        .collect();
    let callee = Callee::Function(name);
    let chosen = choose(preparation, position, callee, &signatures, arguments, receiver)?;
    Ok(candidates.swap_remove(chosen))
}

/// Returns the function that casts the argument to `target`.
///
/// # Errors
/// No type can be cast to `target`, the type of the argument cannot, or several types fit the
/// argument equally well.
pub fn resolve_cast(
    preparation: &Preparation<'_>,
    position: Position,
    argument: &Argument<'_>,
    target: &CqlType,
) -> Result<ResolvedFunction> {
    let known = argument.known_type();
    if let Some(same) = known.filter(|known| known.freeze() == target.freeze()) {
        return Ok(cast::function(same, target));
    }
    let mut sources = cast::sources(target);
    if sources.is_empty() {
        let message = format!("{argument} cannot be cast to {}", target.cql_name());
        return Err(preparation.invalid(position, message));
    }
    let signatures: Vec<Signature> =
        sources.iter().map(|source| (vec![source.clone()], target.clone())).collect();
    let name = cast::function_name(target);
    let (callee, arguments) = (Callee::Cast(&name), slice::from_ref(argument));
    let chosen = choose(preparation, position, callee, &signatures, arguments, None)?;
    Ok(cast::function(sources.swap_remove(chosen), target))
}

/// Returns the function of `-x`.
///
/// # Errors
/// The argument is not numeric, or several numeric types fit it equally well.
pub fn resolve_negation(
    preparation: &Preparation<'_>,
    position: Position,
    argument: &Argument<'_>,
    receiver: Option<&CqlType>,
) -> Result<ResolvedFunction> {
    let (signatures, arguments) = (arithmetic::negation_signatures(), slice::from_ref(argument));
    let chosen = choose(preparation, position, Callee::Negation, signatures, arguments, receiver)?;
    match signatures.get(chosen) {
        Some((_, operand)) => Ok(arithmetic::negation(operand.clone())),
        None => Err(preparation.invalid(position, "a negation takes one operand")),
    }
}

/// Returns the function of an operator.
///
/// # Errors
/// The operator does not support these operands, or several types fit them equally well.
pub fn resolve_arithmetic(
    preparation: &Preparation<'_>,
    position: Position,
    operator: ArithmeticOperator,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<ResolvedFunction> {
    let signatures = arithmetic::signatures(operator);
    let callee = Callee::Operator(operator.symbol());
    let chosen = choose(preparation, position, callee, signatures, arguments, receiver)?;
    match signatures.get(chosen).map(|(types, _)| types.as_slice()) {
        Some([left, right]) => Ok(arithmetic::operation(operator, left.clone(), right.clone())),
        _ => Err(preparation.invalid(position, "an operator takes two operands")),
    }
}

/// Prepares a function call, cast, negation or arithmetic over terms, which read no columns.
/// Returns the term and its type.
///
/// # Errors
/// A function or type does not exist, no overload fits, an argument does not fit its parameter, or
/// the type of a term without a receiver is unknown.
pub fn prepare_call(
    preparation: &mut Preparation<'_>,
    expression: &Expression<'_>,
    receiver: Option<&ColumnSpec>,
) -> Result<(Term, CqlType)> {
    preparation.known_results.enter();
    let prepared = prepare_with_results(preparation, expression, receiver);
    preparation.known_results.leave();
    prepared
}

/// Prepares a call as [`prepare_call`] does.
fn prepare_with_results(
    preparation: &mut Preparation<'_>,
    expression: &Expression<'_>,
    receiver: Option<&ColumnSpec>,
) -> Result<(Term, CqlType)> {
    let wanted = receiver.map(|receiver| &receiver.column_type);
    let position = expression.position;
    match &expression.kind {
        ExpressionKind::Function(call) => {
            let arguments = arguments_of(preparation, call.arguments.iter())?;
            let found = overloads(preparation, &call.name, &arguments, wanted)?;
            let function = choose_overload(preparation, &call.name, found, &arguments, wanted)?;
            apply(preparation, function, call.arguments.iter())
        }
        ExpressionKind::Cast(inner, target) => {
            let target = preparation.resolve_type(target)?;
            let argument = argument_of(preparation, inner)?;
            let function = resolve_cast(preparation, position, &argument, &target)?;
            apply(preparation, function, std::iter::once(inner.as_ref()))
        }
        ExpressionKind::Negate(inner) => {
            let argument = argument_of(preparation, inner)?;
            let function = resolve_negation(preparation, position, &argument, wanted)?;
            apply(preparation, function, std::iter::once(inner.as_ref()))
        }
        ExpressionKind::Arithmetic(chain) => {
            let prefixes = prefixes_of(preparation, expression, chain)?;
            prepare_chain(preparation, position, chain, &prefixes, wanted)
        }
        _ => {
            let Some(natural) = preferred_type(expression) else {
                let message = format!(
                    "Cannot infer type for term {expression} (try using a cast to force a type)"
                );
                return Err(preparation.invalid(position, message));
            };
            let receiver = preparation.receiver(&expression.to_string(), &natural);
            Ok((prepare_term(preparation, expression, &receiver)?, natural))
        }
    }
}

/// Prepares the part of a chain of operators that `prefixes` cover. The first prefix consists of
/// the first operand.
fn prepare_chain(
    preparation: &mut Preparation<'_>,
    position: Position,
    chain: &Arithmetic<'_>,
    prefixes: &[Argument<'_>],
    wanted: Option<&CqlType>,
) -> Result<(Term, CqlType)> {
    let last = prefixes.len().saturating_sub(2);
    let (Some((operator, right)), Some(left)) = (chain.rest.get(last), prefixes.get(last)) else {
        return Err(preparation.invalid(position, "an operator takes two operands"));
    };
    let arguments = [left.clone(), argument_of(preparation, right)?];
    let function = resolve_arithmetic(preparation, position, *operator, &arguments, wanted)?;
    let [left_type, right_type] = function.argument_types.as_slice() else {
        return Err(preparation.invalid(position, "an operator takes two operands"));
    };
    let left = if last == 0 {
        argument(preparation, &function, 0, left_type, &chain.first)?
    } else {
        prepare_chain(preparation, position, chain, &prefixes[..=last], Some(left_type))?.0
    };
    let right = argument(preparation, &function, 1, right_type, right)?;
    let result = function.return_type.clone();
    Ok((Term::Call(Box::new(function), vec![left, right]), result))
}

/// Builds the call, with its arguments prepared for the parameter types of the function.
fn apply<'e>(
    preparation: &mut Preparation<'_>,
    function: ResolvedFunction,
    operands: impl Iterator<Item = &'e Expression<'e>>,
) -> Result<(Term, CqlType)> {
    let arguments = operands
        .zip(&function.argument_types)
        .enumerate()
        .map(|(index, (operand, wanted))| argument(preparation, &function, index, wanted, operand))
        .collect::<Result<Vec<_>>>()?;
    let result = function.return_type.clone();
    Ok((Term::Call(Box::new(function), arguments), result))
}

fn argument(
    preparation: &mut Preparation<'_>,
    function: &ResolvedFunction,
    index: usize,
    wanted: &CqlType,
    operand: &Expression<'_>,
) -> Result<Term> {
    let receiver = preparation.receiver(&format!("arg{index}(system.{})", function.name), wanted);
    prepare_term(preparation, operand, &receiver)
}
