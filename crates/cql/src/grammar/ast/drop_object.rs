//! `DROP` of indexes, views, functions, aggregates and triggers, and `ALTER MATERIALIZED VIEW`.

use super::{Position, Property, QualifiedName, TypeName};

/// A `DROP INDEX`, `DROP MATERIALIZED VIEW`, `DROP FUNCTION`, `DROP AGGREGATE` or `DROP TRIGGER`.
#[derive(Clone, Debug)]
pub struct DropObject<'a> {
    /// The kind of the dropped object.
    pub kind: ObjectKind<'a>,
    /// The name of the object. A trigger's name has no keyspace, but its table's name may have one.
    pub name: QualifiedName<'a>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The place where the statement begins.
    pub position: Position,
}

/// The kind of a dropped object, with the part of the statement that only this kind has.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum ObjectKind<'a> {
    Index,
    MaterializedView,
    /// `arguments` are the types in parentheses, or `None` if the statement has no parentheses.
    Function {
        arguments: Option<Vec<TypeName<'a>>>,
    },
    /// `arguments` are the types in parentheses, or `None` if the statement has no parentheses.
    Aggregate {
        arguments: Option<Vec<TypeName<'a>>>,
    },
    /// `table` is the name after `ON`.
    Trigger {
        table: QualifiedName<'a>,
    },
}

/// An `ALTER MATERIALIZED VIEW`.
#[derive(Clone, Debug)]
pub struct AlterView<'a> {
    /// The view's name.
    pub name: QualifiedName<'a>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The properties after `WITH`.
    pub properties: Vec<Property<'a>>,
    /// The place where the statement begins.
    pub position: Position,
}
