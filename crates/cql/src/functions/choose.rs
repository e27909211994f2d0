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

/// The reason why no signature is chosen. Its message is made only where it is shown, because it
/// names the arguments, which may be long.
#[derive(Debug)]
pub enum Refusal {
    /// The only overload has another number of arguments.
    Count,
    /// The only overload does not take the argument with this index.
    Argument(usize),
    /// No signature, or several with these indices, fit.
    Candidates(Vec<usize>),
}

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
    let choice = Choice { callee, signatures, arguments, receiver };
    choice.find().map_err(|refusal| preparation.invalid(position, choice.message(&refusal)))
}

/// Returns the index of the signature that [`choose`] chooses without a receiver, if it chooses
/// one.
pub fn natural_choice(
    callee: Callee<'_>,
    signatures: &[Signature],
    arguments: &[Argument<'_>],
) -> Option<usize> {
    Choice { callee, signatures, arguments, receiver: None }.find().ok()
}

/// The choice for one call.
struct Choice<'c> {
    callee: Callee<'c>,
    signatures: &'c [Signature],
    arguments: &'c [Argument<'c>],
    receiver: Option<&'c CqlType>,
}

impl Choice<'_> {
    fn find(&self) -> Result<usize, Refusal> {
        if let ([(types, _)], Callee::Function(_)) = (self.signatures, self.callee) {
            return self.check_only(types);
        }
        let mut compatible = Vec::new();
        for (index, (types, result)) in self.signatures.iter().enumerate() {
            let returns = |wanted| is_assignable(result, wanted) != Assignable::No;
            if types.len() != self.arguments.len() || !self.receiver.is_none_or(returns) {
                continue;
            }
            let arguments = self.arguments.iter().zip(types);
            let fits = arguments.map(|(argument, wanted)| argument.fits(wanted));
            match fits.min().unwrap_or(Assignable::Exactly) {
                Assignable::Exactly => return Ok(index),
                Assignable::Weakly => compatible.push(index),
                Assignable::No => {}
            }
        }
        self.among(&compatible).ok_or(Refusal::Candidates(compatible))
    }

    /// Checks the arguments of a function with one signature.
    fn check_only(&self, types: &[CqlType]) -> Result<usize, Refusal> {
        if types.len() != self.arguments.len() {
            return Err(Refusal::Count);
        }
        let mut arguments = self.arguments.iter().zip(types);
        let wrong =
            arguments.position(|(argument, wanted)| argument.fits(wanted) == Assignable::No);
        wrong.map_or(Ok(0), |index| Err(Refusal::Argument(index)))
    }

    /// Chooses among the candidates that fit, none of them exactly.
    fn among(&self, compatible: &[usize]) -> Option<usize> {
        match (self.callee, compatible) {
            (_, [only]) => Some(*only),
            (Callee::Operator(_), _) => self.of_receiver(compatible),
            _ => self.returning_exactly(compatible),
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
    fn of_receiver(&self, compatible: &[usize]) -> Option<usize> {
        let of_receiver = |index: &&usize| {
            let types = self.signatures.get(**index).map(|(types, _)| types.as_slice());
            types.is_some_and(|types| types.iter().all(|part| Some(part) == self.receiver))
        };
        let found = compatible.iter().find(of_receiver).copied();
        found.filter(|_| !self.arguments.iter().any(Argument::is_marker))
    }

    /// Returns the error message of a refusal.
    fn message(&self, refusal: &Refusal) -> String {
        let called = match self.callee {
            Callee::Function(name) => name.name.as_str(),
            _ => "",
        };
        let types = self.signatures.first().map_or(&[][..], |(types, _)| types);
        match refusal {
            Refusal::Count => format!(
                "Invalid number of arguments in call to function system.{called}: {} required but {} provided",
                types.len(),
                self.arguments.len()
            ),
            Refusal::Argument(index) => format!(
                "Type error: {} cannot be passed as argument {index} of function system.{called} of type {}",
                self.arguments.get(*index).map(Argument::to_string).unwrap_or_default(),
                types.get(*index).map(CqlType::cql_name).unwrap_or_default()
            ),
            Refusal::Candidates(compatible) => self.message_of_candidates(compatible),
        }
    }

    fn message_of_candidates(&self, compatible: &[usize]) -> String {
        match (self.callee, self.arguments) {
            (Callee::Operator(symbol), [left, right]) if compatible.is_empty() => {
                format!("the '{symbol}' operation is not supported between {left} and {right}")
            }
            (Callee::Operator(symbol), [left, right]) => format!(
                "Ambiguous '{symbol}' operation with args {left} and {right}: use type hint to disambiguate, example '(int) ?'"
            ),
            (Callee::Negation, _) if !compatible.is_empty() => {
                "Ambiguous negation: use type casts to disambiguate".to_string()
            }
            _ if compatible.is_empty() => format!(
                "Invalid call to function {}, none of its type signatures match (known type signatures: {})",
                written(self.callee),
                self.listed(0..self.signatures.len())
            ),
            _ => format!(
                "Ambiguous call to function {} (can be matched by following signatures: {}): use type casts to disambiguate",
                written(self.callee),
                self.listed(compatible.iter().copied())
            ),
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
