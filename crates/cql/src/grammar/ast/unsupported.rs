//! Statements that are correct CQL, and that this node does not carry out yet.

use std::fmt;

use super::{Position, QualifiedName};

/// A statement whose syntax was checked to its end, and whose content was dropped.
#[derive(Clone, Debug)]
pub struct Unsupported<'a> {
    /// What it would need.
    pub feature: Feature,
    /// How it begins, in upper case: `CREATE INDEX`.
    pub statement: &'static str,
    /// The index, view, function or aggregate it names, if it names one.
    pub name: Option<QualifiedName<'a>>,
    /// Where the statement begins.
    pub position: Position,
}

/// A part of CQL that is parsed but not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Feature {
    SecondaryIndexes,
    MaterializedViews,
    UserDefinedFunctions,
    UserDefinedAggregates,
    Triggers,
    Roles,
    Permissions,
    Identities,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SecondaryIndexes => "secondary indexes",
            Self::MaterializedViews => "materialized views",
            Self::UserDefinedFunctions => "user-defined functions",
            Self::UserDefinedAggregates => "user-defined aggregates",
            Self::Triggers => "triggers",
            Self::Roles => "roles",
            Self::Permissions => "permissions",
            Self::Identities => "identities",
        })
    }
}

/// `CREATE INDEX is not supported yet (secondary indexes)`.
impl fmt::Display for Unsupported<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not supported yet ({})", self.statement, self.feature)
    }
}
