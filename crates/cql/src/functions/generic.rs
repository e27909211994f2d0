//! Functions that are made for the types of their arguments: what their families share.

use espalier_types::CqlType;

use super::argument::Argument;
use crate::{Error, Result, grammar::ast::Position, term::Preparation};

/// A call of a generic function, before the function exists.
pub struct GenericCall<'c, 'a> {
    /// For errors.
    pub preparation: &'c Preparation<'a>,
    /// Where the call stands.
    pub position: Position,
    /// The function's name.
    pub name: &'c str,
    /// What it is called with.
    pub arguments: &'c [Argument<'c>],
    /// What its result is wanted for, if that is known.
    pub receiver: Option<&'c CqlType>,
}

impl GenericCall<'_, '_> {
    /// 0x2200 at the place of the call.
    pub fn invalid(&self, message: impl AsRef<str>) -> Error {
        self.preparation.invalid(self.position, message)
    }

    /// Refuses another number of arguments. `usage`: the parameters, for the message.
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

    /// The type that an argument has by itself.
    pub fn type_of(&self, index: usize, usage: &str) -> Result<CqlType> {
        self.known_type(index).ok_or_else(|| {
            let argument = self.arguments.get(index).map(Argument::to_string).unwrap_or_default();
            self.invalid(format!(
                "Cannot infer type of argument {argument} in call to function system.{}({usage}): use type casts to disambiguate",
                self.name
            ))
        })
    }

    /// The type that an argument has by itself, frozen.
    pub fn known_type(&self, index: usize) -> Option<CqlType> {
        self.arguments.get(index)?.known_type().map(|known| known.freeze())
    }

    /// Says which kind of argument is required instead of the one given.
    pub fn wrong_argument(&self, index: usize, required: &str, found: &CqlType) -> Error {
        let argument = self.arguments.get(index).map(Argument::to_string).unwrap_or_default();
        self.invalid(format!(
            "Function system.{} requires {required}, but found argument {argument} of type {}",
            self.name,
            found.cql_name()
        ))
    }
}
