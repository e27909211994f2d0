//! Terms: expressions without a row, typed when the statement is prepared and evaluated when it
//! runs.
//!
//! A constant is parsed once, at preparation. A bind marker is an index into the bound values. The
//! bytes of a bound value are checked against the marker's type before any other code reads them.

mod assignment;
mod borrow;
mod composite;
mod custom_type;
mod evaluate;
mod hint;
mod prepare;
mod reference;

use bytes::Bytes;
use espalier_types::CqlType;

pub use assignment::{Assignable, is_assignable, literal_fits, natural_type};
pub use borrow::{BorrowedBound, borrow_values};
pub use composite::{prepare_parts, values_by_field};
pub use evaluate::{Bound, Evaluation, bind_valid_values, bind_values, build_literal, check_count};
pub use prepare::{Preparation, prepare_compared, prepare_term, resolve_type};
pub use reference::{Reference, References, ReferredRow};

use crate::functions::{ResolvedFunction, json::JsonColumn};

/// A typed term.
#[derive(Clone, Debug)]
pub enum Term {
    /// A constant; `None` is null.
    Constant(Option<Bytes>),
    /// A bind marker by its index.
    Bind(u16),
    /// A literal that contains terms which are not constant.
    Composite(CompositeTerm),
    /// A function applied to terms.
    Call(Box<ResolvedFunction>, Vec<Term>),
    /// A value of a row that a transaction has read, by the index of the reference.
    Reference(u16),
    /// A column's value in the document of INSERT JSON.
    JsonColumn(Box<JsonColumn>),
}

/// A collection, tuple, UDT or vector literal with parts that are evaluated at execution.
#[derive(Clone, Debug)]
pub struct CompositeTerm {
    /// The literal's type.
    pub column_type: CqlType,
    /// The elements in the order written; for maps key, value, key, value; for UDTs every field in
    /// order of declaration.
    pub parts: Vec<Term>,
}

impl Term {
    /// Returns whether the term is the same at every execution.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }

    /// The null constant.
    pub const NULL: Term = Term::Constant(None);
}
