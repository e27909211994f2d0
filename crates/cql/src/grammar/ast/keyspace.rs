//! The syntax tree of `CREATE`, `ALTER` and `DROP KEYSPACE`, and `USE`.

use super::{Name, Position, Property};

/// A `CREATE KEYSPACE`.
#[derive(Clone, Debug)]
pub struct CreateKeyspace<'a> {
    /// Its name.
    pub name: Name<'a>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// `WITH`.
    pub properties: Vec<Property<'a>>,
    /// The place where the statement begins.
    pub position: Position,
}

/// An `ALTER KEYSPACE`.
#[derive(Clone, Debug)]
pub struct AlterKeyspace<'a> {
    /// Its name.
    pub name: Name<'a>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// `WITH`.
    pub properties: Vec<Property<'a>>,
    /// The place where the statement begins.
    pub position: Position,
}

/// A `DROP KEYSPACE`.
#[derive(Clone, Debug)]
pub struct DropKeyspace<'a> {
    /// Its name.
    pub name: Name<'a>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The place where the statement begins.
    pub position: Position,
}

/// A `USE`.
#[derive(Clone, Debug)]
pub struct Use<'a> {
    /// The keyspace.
    pub keyspace: Name<'a>,
    /// The place where the statement begins.
    pub position: Position,
}
