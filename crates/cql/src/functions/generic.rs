//! Code that the families of generic functions share. A generic function is made for the types of
//! its arguments.

use espalier_types::CqlType;

use super::argument::Argument;
use crate::{
    Error, Result,
    grammar::ast::Position,
    term::{Assignable, Preparation},
};

/// A call of a generic function, before its concrete function is made.
pub struct GenericCall<'c, 'a> {
    /// The statement's preparation, for errors.
    pub preparation: &'c Preparation<'a>,
    /// The place of the call.
    pub position: Position,
    /// The function's name.
    pub name: &'c str,
    /// The arguments.
    pub arguments: &'c [Argument<'c>],
    /// The wanted type of the result, if it is known.
    pub receiver: Option<&'c CqlType>,
}

impl GenericCall<'_, '_> {
    /// Creates an error 0x2200 at the place of the call.
    pub fn invalid(&self, message: impl AsRef<str>) -> Error {
        self.preparation.invalid(self.position, message)
    }

    /// Checks the number of arguments. `usage` lists the parameters, for the message.
    ///
    /// # Errors
    /// The number of arguments is not in `allowed`.
    pub fn expect_arguments(
        &self,
        allowed: std::ops::RangeInclusive<usize>,
        usage: &str,
    ) -> Result<()> {
        if allowed.contains(&self.arguments.len()) {
            return Ok(());
        }
        Err(self.invalid(format!(
            "Invalid number of arguments for function system.{}({usage})",
            self.name
        )))
    }

    /// Returns the type that an argument has without a receiver.
    ///
    /// # Errors
    /// The argument has no type of its own: it is a bind marker or `null`, for example.
    pub fn type_of(&self, index: usize, usage: &str) -> Result<CqlType> {
        self.known_type(index).ok_or_else(|| {
            let argument = self.arguments.get(index).map(Argument::to_string).unwrap_or_default();
            self.invalid(format!(
                "Cannot infer type of argument {argument} in call to function system.{}({usage}): use type casts to disambiguate",
                self.name
            ))
        })
    }

    /// Checks an argument whose type does not depend on the other arguments.
    ///
    /// # Errors
    /// The argument cannot have the type.
    pub fn expect_type(&self, index: usize, wanted: &CqlType) -> Result<()> {
        match self.arguments.get(index) {
            Some(argument) if argument.fits(wanted) == Assignable::No => {
                let required = format!("an argument of type {}", wanted.cql_name());
                Err(self.wrong_argument(index, &required, wanted))
            }
            _ => Ok(()),
        }
    }

    /// Returns the type that an argument has without a receiver, frozen.
    pub fn known_type(&self, index: usize) -> Option<CqlType> {
        self.arguments.get(index)?.known_type().map(|known| known.freeze())
    }

    /// Creates the error for an argument of a wrong kind. `required` names the right kind. `found`
    /// is shown if the argument has no known type.
    pub fn wrong_argument(&self, index: usize, required: &str, found: &CqlType) -> Error {
        let argument = self.arguments.get(index).map(Argument::to_string).unwrap_or_default();
        let known = self.arguments.get(index).and_then(Argument::known_type);
        self.invalid(format!(
            "Function system.{} requires {required}, but found argument {argument} of type {}",
            self.name,
            known.as_ref().unwrap_or(found).cql_name()
        ))
    }
}
