//! `DROP` of indexes, views, functions, aggregates and triggers, and `ALTER MATERIALIZED VIEW`.

use super::{Position, Property, QualifiedName, TypeName};

/// A `DROP INDEX`, `DROP MATERIALIZED VIEW`, `DROP FUNCTION`, `DROP AGGREGATE` or `DROP TRIGGER`.
#[derive(Clone, Debug)]
pub struct DropObject<'a> {
    /// What kind of object goes.
    pub kind: ObjectKind<'a>,
    /// Its name; a trigger's has no keyspace.
    pub name: QualifiedName<'a>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// Where the statement begins.
    pub position: Position,
}

/// The kinds of objects that only `DROP` knows, with the part of the statement that is their own.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum ObjectKind<'a> {
    Index,
    MaterializedView,
    /// `arguments` are those in parentheses, if there are parentheses.
    Function {
        arguments: Option<Vec<TypeName<'a>>>,
    },
    /// `arguments` are those in parentheses, if there are parentheses.
    Aggregate {
        arguments: Option<Vec<TypeName<'a>>>,
    },
    /// `table` is the one behind `ON`.
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
    /// What stands behind `WITH`.
    pub properties: Vec<Property<'a>>,
    /// Where the statement begins.
    pub position: Position,
}
