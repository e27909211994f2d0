//! The `IF` of INSERT, UPDATE and DELETE: planned once ([`plan_condition`]), bound to the values of
//! each execution ([`ColumnCondition::bind`]), and tested on the rows that a turn has read
//! ([`BoundCondition::holds`]).
//!
//! Unlike a filter, a condition accepts null: `IF v = null` holds if `v` is null or the row does
//! not exist.

mod bound;
mod plan;

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_types::CqlType;

pub use bound::BoundCondition;
pub use plan::plan_condition;

use crate::{metadata::ColumnSpec, restrictions::FilterOperator, term::Term};

/// The planned `IF` of a modification.
#[derive(Clone, Debug, Default)]
pub enum Condition {
    /// No `IF`.
    #[default]
    None,
    /// `IF NOT EXISTS`.
    NotExists,
    /// `IF EXISTS`.
    Exists,
    /// `IF a AND b`, one condition or more.
    Columns(Vec<ColumnCondition>),
}

/// A condition on the value of a column, or on a part of it.
#[derive(Clone, Debug)]
pub struct ColumnCondition {
    /// The value that is tested.
    pub target: ConditionTarget,
    /// The condition that it must satisfy.
    pub operator: FilterOperator,
}

/// The value that a condition tests.
#[derive(Clone, Debug)]
pub enum ConditionTarget {
    /// `c`.
    Column(ColumnDefinition),
    /// `m[key]`, `l[index]`.
    Element(ColumnDefinition, Term),
    /// `u.field`, by the field's index.
    Field(ColumnDefinition, usize),
}

impl ConditionTarget {
    /// Returns the column.
    pub fn column(&self) -> &ColumnDefinition {
        match self {
            Self::Column(column) | Self::Element(column, _) | Self::Field(column, _) => column,
        }
    }
}

impl Condition {
    /// Returns whether there is no `IF`.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Returns the conditions on columns.
    pub fn columns(&self) -> &[ColumnCondition] {
        match self {
            Self::Columns(columns) => columns,
            _ => &[],
        }
    }

    /// Returns whether it tests a regular column.
    pub fn tests_regular_columns(&self) -> bool {
        self.columns().iter().any(|condition| condition.target.column().kind != ColumnKind::Static)
    }
}

/// The column of the answer that is true if the statement was applied.
const APPLIED: &str = "[applied]";

/// Returns the columns of the answer to an applied statement.
pub fn applied_columns(table: &TableMetadata) -> Vec<ColumnSpec> {
    vec![ColumnSpec::of(table, APPLIED, CqlType::Boolean)]
}
