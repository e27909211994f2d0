//! The choice among overloads, by Cassandra's rules.
//!
//! The receiver is the column or the outer function's argument that takes the result. If a function
//! has one overload, the arguments must fit it. Otherwise, candidates whose result the receiver
//! cannot store are ignored, and the first candidate that every argument fits exactly wins. If
//! there is none, the only candidate that fits wins. If several fit a function, cast or negation,
//! the only one of them that returns exactly the receiver's type wins. If several fit an operator,
//! the one whose operands have the receiver's type wins, unless an operand is a bind marker.

use espalier_types::CqlType;

use super::argument::Argument;
use crate::{
    Result,
    grammar::ast::{Position, QualifiedName},
    term::{Assignable, Preparation, is_assignable},
};

/// The callee, for messages.
#[derive(Clone, Copy, Debug)]
pub enum Callee<'n> {
    /// A function by its name as written.
    Function(&'n QualifiedName<'n>),
    /// The cast to a type, by the name of its function.
    Cast(&'n str),
    /// An operator by its symbol.
    Operator(char),
    /// `-x`.
    Negation,
}

/// Types of arguments, and of the result.
pub type Signature = (Vec<CqlType>, CqlType);

/// Returns the index of the signature for these arguments.
///
/// # Errors
/// No signature fits the arguments and the receiver, or several do and the rules of this module
/// prefer none.
pub fn choose(
    preparation: &Preparation<'_>,
    position: Position,
    callee: Callee<'_>,
    signatures: &[Signature],
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<usize> {
    let choice = Choice { preparation, position, callee, signatures, arguments, receiver };
    if let ([(types, _)], Callee::Function(name)) = (signatures, callee) {
        return choice.check_only(name.name.as_str(), types);
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
    choice.among(&compatible)
}

/// The choice for one call.
struct Choice<'c> {
    preparation: &'c Preparation<'c>,
    position: Position,
    callee: Callee<'c>,
    signatures: &'c [Signature],
    arguments: &'c [Argument<'c>],
    receiver: Option<&'c CqlType>,
}

impl Choice<'_> {
    fn invalid(&self, message: String) -> Result<usize> {
        Err(self.preparation.invalid(self.position, message))
    }

    /// Checks the arguments of a function with one signature.
    fn check_only(&self, name: &str, types: &[CqlType]) -> Result<usize> {
        if types.len() != self.arguments.len() {
            return self.invalid(format!(
                "Invalid number of arguments in call to function system.{name}: {} required but {} provided",
                types.len(),
                self.arguments.len()
            ));
        }
        for (index, (argument, wanted)) in self.arguments.iter().zip(types).enumerate() {
            if argument.fits(wanted) == Assignable::No {
                return self.invalid(format!(
                    "Type error: {argument} cannot be passed as argument {index} of function system.{name} of type {}",
                    wanted.cql_name()
                ));
            }
        }
        Ok(0)
    }

    /// Chooses among the candidates that fit, none of them exactly.
    fn among(&self, compatible: &[usize]) -> Result<usize> {
        if let [only] = compatible {
            return Ok(*only);
        }
        if let (Callee::Operator(symbol), [left, right]) = (self.callee, self.arguments) {
            return self.operator(symbol, [left, right], compatible);
        }
        if !matches!(self.callee, Callee::Operator(_))
            && let Some(index) = self.returning_exactly(compatible)
        {
            return Ok(index);
        }
        match self.callee {
            Callee::Negation if !compatible.is_empty() => {
                self.invalid("Ambiguous negation: use type casts to disambiguate".to_string())
            }
            _ if compatible.is_empty() => self.invalid(format!(
                "Invalid call to function {}, none of its type signatures match (known type signatures: {})",
                written(self.callee),
                self.listed(0..self.signatures.len())
            )),
            _ => self.invalid(format!(
                "Ambiguous call to function {} (can be matched by following signatures: {}): use type casts to disambiguate",
                written(self.callee),
                self.listed(compatible.iter().copied())
            )),
        }
    }

    /// Returns the only candidate that returns exactly the receiver's type. A candidate with
    /// another assignable type, as `counter` is to `bigint`, also fits, but is not preferred.
    fn returning_exactly(&self, compatible: &[usize]) -> Option<usize> {
        let mut returning = compatible.iter().filter(|index| {
            self.signatures.get(**index).is_some_and(|s| Some(&s.1) == self.receiver)
        });
        match (returning.next(), returning.next()) {
            (Some(index), None) => Some(*index),
            _ => None,
        }
    }

    /// Chooses the candidate that takes operands of the receiver's type.
    fn operator(
        &self,
        symbol: char,
        [left, right]: [&Argument<'_>; 2],
        compatible: &[usize],
    ) -> Result<usize> {
        if compatible.is_empty() {
            return self.invalid(format!(
                "the '{symbol}' operation is not supported between {left} and {right}"
            ));
        }
        let of_receiver = |index: &&usize| {
            let types = self.signatures.get(**index).map(|(types, _)| types.as_slice());
            types.is_some_and(|types| types.iter().all(|part| Some(part) == self.receiver))
        };
        match compatible.iter().find(of_receiver) {
            Some(index) if !self.arguments.iter().any(Argument::is_marker) => Ok(*index),
            _ => self.invalid(format!(
                "Ambiguous '{symbol}' operation with args {left} and {right}: use type hint to disambiguate, example '(int) ?'"
            )),
        }
    }

    fn listed(&self, indices: impl Iterator<Item = usize>) -> String {
        let texts: Vec<String> = indices
            .filter_map(|index| self.signatures.get(index))
            .map(|(types, result)| signature_text(self.callee, types, result))
            .collect();
        texts.join(", ")
    }
}

/// Returns the name of the callee for messages. As in Cassandra, the functions of casts and
/// operators are in the keyspace `system`.
fn written(callee: Callee<'_>) -> String {
    match callee {
        Callee::Function(name) => name.to_string(),
        Callee::Cast(name) => format!("system.{name}"),
        Callee::Operator(_) | Callee::Negation => "system._negate".into(),
    }
}

fn signature_text(callee: Callee<'_>, types: &[CqlType], result: &CqlType) -> String {
    let types: Vec<String> = types.iter().map(CqlType::cql_name).collect();
    let name = match callee {
        Callee::Function(name) => name.name.as_str(),
        Callee::Cast(name) => name,
        Callee::Operator(_) | Callee::Negation => "\"_negate\"",
    };
    format!("system.{name} : ({}) -> {}", types.join(", "), result.cql_name())
}
