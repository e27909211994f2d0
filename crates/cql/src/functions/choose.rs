//! The choice among overloads, by Cassandra's rules.
//!
//! A single candidate must fit. Among several candidates, the choice falls on the first that every
//! argument fits exactly; otherwise on the only candidate that fits at all, or on the only fitting
//! one that returns exactly the receiver's type. Candidates with a result that the receiver cannot
//! take are ignored. If the operands of an operator are ambiguous, both take the receiver's type,
//! unless one is a bind marker.

use espalier_types::CqlType;

use super::argument::Argument;
use crate::{
    Result,
    grammar::ast::Position,
    term::{Assignable, Preparation, is_assignable},
};

/// The callee, for messages.
#[derive(Clone, Copy, Debug)]
pub enum Callee<'n> {
    /// A function by its name.
    Function(&'n str),
    /// An operator by its symbol.
    Operator(char),
    /// `-x`.
    Negation,
}

/// Types of arguments, and of the result.
pub type Signature = (Vec<CqlType>, CqlType);

/// Returns the index of the signature for these arguments.
pub fn choose(
    preparation: &Preparation<'_>,
    position: Position,
    callee: Callee<'_>,
    signatures: &[Signature],
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<usize> {
    let invalid = |message: String| Err(preparation.invalid(position, message));
    if let ([(types, _)], Callee::Function(name)) = (signatures, callee) {
        if types.len() != arguments.len() {
            return invalid(format!(
                "Invalid number of arguments in call to function {name}: {} required but {} provided",
                types.len(),
                arguments.len()
            ));
        }
        for (index, (argument, wanted)) in arguments.iter().zip(types).enumerate() {
            if argument.fits(wanted) == Assignable::No {
                return invalid(format!(
                    "Type error: {argument} cannot be passed as argument {index} of function {name} of type {}",
                    wanted.cql_name()
                ));
            }
        }
        return Ok(0);
    }
    let mut compatible = Vec::new();
    for (index, (types, result)) in signatures.iter().enumerate() {
        let returns = receiver.is_none_or(|wanted| is_assignable(result, wanted) != Assignable::No);
        if types.len() != arguments.len() || !returns {
            continue;
        }
        let fits = arguments.iter().zip(types).map(|(argument, wanted)| argument.fits(wanted));
        match fits.min().unwrap_or(Assignable::Exactly) {
            Assignable::Exactly => return Ok(index),
            Assignable::Weakly => compatible.push(index),
            Assignable::No => {}
        }
    }
    if let [only] = compatible.as_slice() {
        return Ok(*only);
    }
    if !matches!(callee, Callee::Operator(_)) {
        // A counter may stand for a bigint, but a candidate that returns exactly the receiver's
        // type is preferred.
        let mut returning = compatible
            .iter()
            .filter(|index| signatures.get(**index).is_some_and(|s| Some(&s.1) == receiver));
        if let (Some(index), None) = (returning.next(), returning.next()) {
            return Ok(*index);
        }
    }
    let listed = |indices: &mut dyn Iterator<Item = usize>| {
        let texts: Vec<String> = indices
            .filter_map(|index| signatures.get(index))
            .map(|(types, result)| signature_text(callee, types, result))
            .collect();
        texts.join(", ")
    };
    match (callee, arguments) {
        (Callee::Operator(symbol), [left, right]) if compatible.is_empty() => {
            invalid(format!("the '{symbol}' operation is not supported between {left} and {right}"))
        }
        (Callee::Operator(symbol), [left, right]) => {
            let of_receiver = |index: &&usize| {
                let types = signatures.get(**index).map(|(types, _)| types.as_slice());
                types.is_some_and(|types| types.iter().all(|part| Some(part) == receiver))
            };
            match compatible.iter().find(of_receiver) {
                Some(index) if !arguments.iter().any(Argument::is_marker) => Ok(*index),
                _ => invalid(format!(
                    "Ambiguous '{symbol}' operation with args {left} and {right}: use type hint to disambiguate, example '(int) ?'"
                )),
            }
        }
        (Callee::Negation, _) if !compatible.is_empty() => {
            invalid("Ambiguous negation: use type casts to disambiguate".to_string())
        }
        _ if compatible.is_empty() => invalid(format!(
            "Invalid call to function {}, none of its type signatures match (known type signatures: {})",
            name(callee),
            listed(&mut (0..signatures.len()))
        )),
        _ => invalid(format!(
            "Ambiguous call to function {} (can be matched by following signatures: {}): use type casts to disambiguate",
            name(callee),
            listed(&mut compatible.iter().copied())
        )),
    }
}

fn name(callee: Callee<'_>) -> &str {
    match callee {
        Callee::Function(name) => name,
        Callee::Operator(_) | Callee::Negation => "_negate",
    }
}

fn signature_text(callee: Callee<'_>, types: &[CqlType], result: &CqlType) -> String {
    let types: Vec<String> = types.iter().map(CqlType::cql_name).collect();
    format!("system.{} : ({}) -> {}", name(callee), types.join(", "), result.cql_name())
}
