//! From calls, casts and operators as written to concrete functions and terms.

use espalier_types::CqlType;

use super::{
    ResolvedFunction,
    argument::{Argument, is_numeric_constant},
    arithmetic, blob, cast,
    choose::{Callee, Signature, choose},
    time, token, uuid,
};
use crate::{
    Result,
    grammar::ast::{ArithmeticOperator, Expression, ExpressionKind, Position, QualifiedName},
    metadata::ColumnSpec,
    term::{Preparation, Term, natural_type, prepare_term},
};

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
    found.extend(uuid::overload(name));
    found.extend(blob::overload(name));
    found.extend(time::overloads(name));
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
    let is_native = name.keyspace.as_ref().is_none_or(|keyspace| keyspace.as_str() == "system");
    let mut candidates = if is_native {
        overloads(preparation, name.name.as_str(), arguments, receiver)
    } else {
        Vec::new()
    };
    if candidates.is_empty() {
        return Err(preparation.invalid(position, format!("Unknown function '{name}'")));
    }
    let signatures: Vec<Signature> = candidates
        .iter()
        .map(|function| (function.argument_types.clone(), function.return_type.clone()))
        .collect();
    let callee = Callee::Function(name.name.as_str());
    let chosen = choose(preparation, position, callee, &signatures, arguments, receiver)?;
    Ok(candidates.swap_remove(chosen))
}

/// The function that casts the argument to `target`.
pub fn resolve_cast(
    preparation: &Preparation<'_>,
    position: Position,
    arguments: &[Argument<'_>],
    target: &CqlType,
) -> Result<ResolvedFunction> {
    let known = arguments.first().and_then(Argument::known_type);
    if let Some(same) = known.filter(|known| known.freeze() == target.freeze()) {
        return Ok(cast::function(same, target));
    }
    let mut sources = cast::sources(target);
    if sources.is_empty() {
        let given = arguments.first().map(Argument::to_string).unwrap_or_default();
        let message = format!("{given} cannot be cast to {}", target.cql_name());
        return Err(preparation.invalid(position, message));
    }
    let signatures: Vec<Signature> =
        sources.iter().map(|source| (vec![source.clone()], target.clone())).collect();
    let name = cast::function_name(target);
    let callee = Callee::Function(&name);
    let chosen = choose(preparation, position, callee, &signatures, arguments, None)?;
    Ok(cast::function(sources.swap_remove(chosen), target))
}

/// The function behind `-x`.
pub fn resolve_negation(
    preparation: &Preparation<'_>,
    position: Position,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<ResolvedFunction> {
    let mut candidates: Vec<ResolvedFunction> = arithmetic::negations().collect();
    let signatures: Vec<Signature> = candidates
        .iter()
        .map(|function| (function.argument_types.clone(), function.return_type.clone()))
        .collect();
    let chosen = choose(preparation, position, Callee::Negation, &signatures, arguments, receiver)?;
    Ok(candidates.swap_remove(chosen))
}

/// The function behind an operator.
pub fn resolve_arithmetic(
    preparation: &Preparation<'_>,
    position: Position,
    operator: ArithmeticOperator,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<ResolvedFunction> {
    let pairs = arithmetic::operand_types(operator);
    let signatures: Vec<Signature> = pairs
        .into_iter()
        .map(|(left, right)| {
            let result = arithmetic::result_type(&left, &right);
            (vec![left, right], result)
        })
        .collect();
    let callee = Callee::Operator(operator.symbol());
    let chosen = choose(preparation, position, callee, &signatures, arguments, receiver)?;
    match signatures.into_iter().nth(chosen).map(|(types, _)| types).as_deref() {
        Some([left, right]) => Ok(arithmetic::operation(operator, left.clone(), right.clone())),
        _ => Err(preparation.invalid(position, "an operator takes two operands")),
    }
}

/// A function call, cast, negation or arithmetic over terms (no columns): the term and its type.
pub fn prepare_call(
    preparation: &mut Preparation<'_>,
    expression: &Expression<'_>,
    receiver: Option<&ColumnSpec>,
) -> Result<(Term, CqlType)> {
    let wanted = receiver.map(|receiver| &receiver.column_type);
    let position = expression.position;
    match &expression.kind {
        ExpressionKind::Function(call) => {
            let operands = call
                .arguments
                .iter()
                .map(|operand| Operand::prepare(preparation, operand))
                .collect::<Result<Vec<_>>>()?;
            let function = resolve(preparation, &call.name, &types(&operands), wanted)?;
            finish(preparation, function, operands)
        }
        ExpressionKind::Cast(inner, target) => {
            let target = preparation.resolve_type(target)?;
            let operands = vec![Operand::prepare(preparation, inner)?];
            let function = resolve_cast(preparation, position, &types(&operands), &target)?;
            finish(preparation, function, operands)
        }
        ExpressionKind::Negate(inner) => {
            let operands = vec![Operand::prepare(preparation, inner)?];
            let function = resolve_negation(preparation, position, &types(&operands), wanted)?;
            finish(preparation, function, operands)
        }
        ExpressionKind::Arithmetic(chain) => {
            // Numbers as written take the receiver's type all the way down.
            let flexible = is_numeric_constant(expression);
            let mut left = Operand::prepare(preparation, &chain.first)?;
            let last = chain.rest.len().saturating_sub(1);
            for (index, (operator, right)) in chain.rest.iter().enumerate() {
                let right = Operand::prepare(preparation, right)?;
                let expected = if index == last || flexible { wanted } else { None };
                let arguments = [left.argument.clone(), right.argument.clone()];
                let function =
                    resolve_arithmetic(preparation, position, *operator, &arguments, expected)?;
                let (term, result) = finish(preparation, function, vec![left, right])?;
                left = Operand::typed(term, result);
            }
            match (left.term, left.argument) {
                (Some(term), Argument::Typed(result)) => Ok((term, result)),
                _ => Err(preparation.invalid(position, "an operator takes two operands")),
            }
        }
        _ => {
            let Some(natural) = natural_type(expression) else {
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

/// An argument on its way to a term: prepared if it has a type of its own.
struct Operand<'e> {
    argument: Argument<'e>,
    term: Option<Term>,
    expression: Option<&'e Expression<'e>>,
}

impl<'e> Operand<'e> {
    fn typed(term: Term, result: CqlType) -> Self {
        Self { argument: Argument::Typed(result), term: Some(term), expression: None }
    }

    fn prepare(preparation: &mut Preparation<'_>, operand: &'e Expression<'e>) -> Result<Self> {
        match &operand.kind {
            ExpressionKind::Tuple(parts) if parts.len() == 1 => {
                Self::prepare(preparation, &parts[0])
            }
            _ if is_numeric_constant(operand) => Ok(Self::untyped(operand)),
            ExpressionKind::Function(_)
            | ExpressionKind::Cast(..)
            | ExpressionKind::Negate(_)
            | ExpressionKind::Arithmetic(_) => {
                let (term, result) = prepare_call(preparation, operand, None)?;
                Ok(Self::typed(term, result))
            }
            ExpressionKind::TypeHint(type_name, _) => {
                let hinted = preparation.resolve_type(type_name)?;
                let receiver = preparation.receiver(&operand.to_string(), &hinted);
                Ok(Self::typed(prepare_term(preparation, operand, &receiver)?, hinted))
            }
            _ => Ok(Self::untyped(operand)),
        }
    }

    fn untyped(expression: &'e Expression<'e>) -> Self {
        Self { argument: Argument::Untyped(expression), term: None, expression: Some(expression) }
    }
}

fn types<'e>(operands: &[Operand<'e>]) -> Vec<Argument<'e>> {
    operands.iter().map(|operand| operand.argument.clone()).collect()
}

/// The call, with the arguments that had waited for their types.
fn finish(
    preparation: &mut Preparation<'_>,
    function: ResolvedFunction,
    operands: Vec<Operand<'_>>,
) -> Result<(Term, CqlType)> {
    let mut arguments = Vec::with_capacity(operands.len());
    for (index, (operand, wanted)) in operands.into_iter().zip(&function.argument_types).enumerate()
    {
        arguments.push(match (operand.term, operand.expression) {
            (Some(term), _) => term,
            (None, Some(expression)) => {
                let name = format!("arg{index}({})", function.name);
                let receiver = preparation.receiver(&name, wanted);
                prepare_term(preparation, expression, &receiver)?
            }
            (None, None) => Term::NULL,
        });
    }
    let result = function.return_type.clone();
    Ok((Term::Call(Box::new(function), arguments), result))
}
