//! `DESCRIBE`, which the server answers since Cassandra 4.0.

use super::{Name, Position, QualifiedName};

/// A `DESCRIBE`.
#[derive(Clone, Debug)]
pub struct Describe<'a> {
    /// The described object or objects.
    pub target: DescribeTarget<'a>,
    /// `WITH INTERNALS`.
    pub with_internals: bool,
    /// The place where the statement begins.
    pub position: Position,
}

/// The target of a `DESCRIBE`. A plural lists names. `SCHEMA` and a singular return statements,
/// except `CLUSTER`, which returns facts about the cluster.
#[derive(Clone, Debug)]
pub enum DescribeTarget<'a> {
    /// `CLUSTER`.
    Cluster,
    /// `[FULL] SCHEMA`; full includes system keyspaces.
    Schema {
        /// `FULL`.
        full: bool,
    },
    /// `KEYSPACES`.
    Keyspaces,
    /// `[ONLY] KEYSPACE [name]`; without a name, the session's.
    Keyspace {
        /// The keyspace.
        name: Option<Name<'a>>,
        /// `ONLY`: the keyspace without its tables and other contents.
        only: bool,
    },
    /// `TABLES`.
    Tables,
    /// `TABLE name`.
    Table(QualifiedName<'a>),
    /// `INDEX name`.
    Index(QualifiedName<'a>),
    /// `MATERIALIZED VIEW name`.
    MaterializedView(QualifiedName<'a>),
    /// `TYPES`.
    Types,
    /// `TYPE name`.
    Type(QualifiedName<'a>),
    /// `FUNCTIONS`.
    Functions,
    /// `FUNCTION name`.
    Function(QualifiedName<'a>),
    /// `AGGREGATES`.
    Aggregates,
    /// `AGGREGATE name`.
    Aggregate(QualifiedName<'a>),
    /// A bare name: the keyspace, index, table or view with this name.
    Any(QualifiedName<'a>),
}
