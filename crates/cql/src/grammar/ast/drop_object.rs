//! `DROP` of indexes, views, functions, aggregates and triggers, and `ALTER MATERIALIZED VIEW`.

use super::{Position, Property, QualifiedName, TypeName};

/// A `DROP INDEX`, `DROP MATERIALIZED VIEW`, `DROP FUNCTION`, `DROP AGGREGATE` or `DROP TRIGGER`.
#[derive(Clone, Debug)]
pub struct DropObject<'a> {
    /// The kind of the dropped object.
    pub kind: ObjectKind<'a>,
    /// Its name; a trigger's has no keyspace.
    pub name: QualifiedName<'a>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The place where the statement begins.
    pub position: Position,
}

/// Kinds of objects that only `DROP` knows, each with its own part of the statement.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum ObjectKind<'a> {
    Index,
    MaterializedView,
    /// `arguments` are the types in parentheses; `None` without parentheses.
    Function {
        arguments: Option<Vec<TypeName<'a>>>,
    },
    /// `arguments` are the types in parentheses; `None` without parentheses.
    Aggregate {
        arguments: Option<Vec<TypeName<'a>>>,
    },
    /// `table` follows `ON`.
    Trigger {
        table: QualifiedName<'a>,
    },
}

/// An `ALTER MATERIALIZED VIEW`.
#[derive(Clone, Debug)]
pub struct AlterView<'a> {
    /// Its name.
    pub name: QualifiedName<'a>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The properties behind `WITH`.
    pub properties: Vec<Property<'a>>,
    /// The place where the statement begins.
    pub position: Position,
}
