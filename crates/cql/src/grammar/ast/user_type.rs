//! The syntax tree of `CREATE`, `ALTER` and `DROP TYPE`.

use super::{Name, Position, QualifiedName, TypeName};

/// A `CREATE TYPE`.
#[derive(Clone, Debug)]
pub struct CreateType<'a> {
    /// Its name.
    pub name: QualifiedName<'a>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Its fields in order. A name may come twice; the planner refuses that.
    pub fields: Vec<(Name<'a>, TypeName<'a>)>,
    /// The place where the statement begins.
    pub position: Position,
}

/// An `ALTER TYPE`.
#[derive(Clone, Debug)]
pub struct AlterType<'a> {
    /// Its name.
    pub name: QualifiedName<'a>,
    /// `IF EXISTS`, of the type.
    pub if_exists: bool,
    /// The change.
    pub change: TypeChange<'a>,
    /// The place where the statement begins.
    pub position: Position,
}

/// The change of an `ALTER TYPE`.
#[derive(Clone, Debug)]
pub enum TypeChange<'a> {
    /// `ADD [IF NOT EXISTS] field type`.
    Add {
        /// `IF NOT EXISTS`, of the field.
        if_not_exists: bool,
        /// The field.
        field: Name<'a>,
        /// Its type.
        type_name: TypeName<'a>,
    },
    /// `RENAME [IF EXISTS] a TO b AND ...`.
    Rename {
        /// `IF EXISTS`, of each field.
        if_exists: bool,
        /// Old and new names.
        fields: Vec<(Name<'a>, Name<'a>)>,
    },
    /// `ALTER field TYPE t`, which Cassandra has not supported since 3.10.
    FieldType {
        /// The field.
        field: Name<'a>,
        /// The requested type.
        type_name: TypeName<'a>,
    },
}

/// A `DROP TYPE`.
#[derive(Clone, Debug)]
pub struct DropType<'a> {
    /// Its name.
    pub name: QualifiedName<'a>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The place where the statement begins.
    pub position: Position,
}
