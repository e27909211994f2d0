//! Statements that are correct CQL but that this node does not support yet.

use std::fmt;

use super::{Position, QualifiedName};

/// A statement without its content. The parser has checked its syntax to the end, except for
/// statements that only ScyllaDB has.
#[derive(Clone, Debug)]
pub struct Unsupported<'a> {
    /// The feature that it needs.
    pub feature: Feature,
    /// The beginning of the statement, in upper case: `CREATE TRIGGER`.
    pub statement: &'static str,
    /// The name of the view, trigger, function or aggregate, if there is one.
    pub name: Option<QualifiedName<'a>>,
    /// The place where the statement begins.
    pub position: Position,
}

/// A part of CQL that is parsed but not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Feature {
    PrunedViews,
    UserDefinedFunctions,
    UserDefinedAggregates,
    Triggers,
    ServiceLevels,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PrunedViews => "materialized views",
            Self::UserDefinedFunctions => "user-defined functions",
            Self::UserDefinedAggregates => "user-defined aggregates",
            Self::Triggers => "triggers",
            Self::ServiceLevels => "service levels",
        })
    }
}

/// Prints, for example, `CREATE TRIGGER is not supported yet (triggers)`.
impl fmt::Display for Unsupported<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not supported yet ({})", self.statement, self.feature)
    }
}
