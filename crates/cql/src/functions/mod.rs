//! Native functions. The name in a call selects the overloads, and the types of the arguments
//! choose among them.
//!
//! An overload is a concrete [`ResolvedFunction`]. For a generic function (`map_keys`,
//! `mask_inner`, `to_json`), the module of its family makes a concrete function for the given
//! arguments. Functions depend only on their arguments, the clock and random numbers.

pub mod aggregate;
mod argument;
mod arithmetic;
mod blob;
mod cast;
mod choose;
mod collection;
mod decimal;
mod floor;
mod generic;
pub mod json;
mod mask;
mod math;
mod number;
mod possible;
mod resolve;
mod temporal;
mod time;
mod token;
mod transcendental;
mod uuid;
mod vector;
mod whole;
mod work;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use espalier_types::CqlType;

use crate::{Result, term::Evaluation};

pub use argument::{Argument, Text};
pub use arithmetic::operation;
pub use mask::{is_mask, of_column as mask_of_column};
pub use number::is_numeric;
pub use possible::{KnownResults, argument_of};
pub use resolve::{
    find_function, prepare_call, resolve_arithmetic, resolve_cast, resolve_negation,
    resolve_selector,
};
pub use work::charge_bytes;

/// The code of a function: from serialised arguments (`None`: null) to a serialised result.
pub type Implementation =
    Arc<dyn Fn(&[Option<Bytes>], &Evaluation<'_>) -> Result<Option<Bytes>> + Send + Sync>;

/// A function with concrete types.
#[derive(Clone)]
pub struct ResolvedFunction {
    /// Its name without keyspace.
    pub name: String,
    /// The types of its arguments.
    pub argument_types: Vec<CqlType>,
    /// The type of its result.
    pub return_type: CqlType,
    /// True if equal arguments always give an equal result (`now()`, `uuid()` do not).
    pub is_pure: bool,
    /// True if a call takes as long for a large argument as for a small one.
    is_constant_time: bool,
    implementation: Implementation,
}

impl ResolvedFunction {
    /// Creates a function that returns null, without running `call`, if an argument is null.
    pub fn strict(
        name: &str,
        argument_types: Vec<CqlType>,
        return_type: CqlType,
        call: impl Fn(&[Bytes], &Evaluation<'_>) -> Result<Option<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        Self::nullable(name, argument_types, return_type, move |arguments, evaluation| {
            match arguments.iter().cloned().collect::<Option<Vec<Bytes>>>() {
                Some(arguments) => call(&arguments, evaluation),
                None => Ok(None),
            }
        })
    }

    /// Creates a strict function that also returns null if an argument is empty and its type has no
    /// empty value.
    pub fn of_values(
        name: &str,
        argument_types: Vec<CqlType>,
        return_type: CqlType,
        call: impl Fn(&[Bytes], &Evaluation<'_>) -> Result<Option<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        let special: Vec<bool> = argument_types.iter().map(CqlType::empty_is_special).collect();
        Self::strict(name, argument_types, return_type, move |values, evaluation| {
            let missing =
                values.iter().zip(&special).any(|(value, special)| *special && value.is_empty());
            if missing { Ok(None) } else { call(values, evaluation) }
        })
    }

    /// Creates a function that handles null arguments itself.
    pub fn nullable(
        name: &str,
        argument_types: Vec<CqlType>,
        return_type: CqlType,
        call: impl Fn(&[Option<Bytes>], &Evaluation<'_>) -> Result<Option<Bytes>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let implementation = Arc::new(call);
        Self {
            name: name.into(),
            argument_types,
            return_type,
            is_pure: true,
            is_constant_time: false,
            implementation,
        }
    }

    /// Marks a function that may give different results for equal arguments.
    pub fn impure(mut self) -> Self {
        self.is_pure = false;
        self
    }

    /// Marks a function that reads only a few bytes of a large argument.
    pub fn in_constant_time(mut self) -> Self {
        self.is_constant_time = true;
        self
    }

    /// Calls the function.
    ///
    /// # Errors
    /// The function has no result for the arguments: a division by zero, for example. Or the row or
    /// statement computes too much ([`charge_bytes`]).
    pub fn call(
        &self,
        arguments: &[Option<Bytes>],
        evaluation: &Evaluation<'_>,
    ) -> Result<Option<Bytes>> {
        let read = arguments.iter().flatten().map(Bytes::len).sum();
        if !self.is_constant_time {
            charge_bytes(read)?;
        }
        let result = (self.implementation)(arguments, evaluation)?;
        let written = result.as_ref().map_or(0, Bytes::len);
        // Most functions write no more than they read.
        charge_bytes(written.saturating_sub(read))?;
        Ok(result)
    }
}

impl fmt::Debug for ResolvedFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> = self.argument_types.iter().map(CqlType::cql_name).collect();
        write!(f, "{}({}) -> {}", self.name, types.join(", "), self.return_type.cql_name())
    }
}
