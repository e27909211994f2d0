//! The syntax tree of `CREATE INDEX`.

use std::borrow::Cow;

use espalier_mutation::schema::IndexPart;

use super::{Name, Position, Property, QualifiedName};

/// A `CREATE [CUSTOM] INDEX`.
#[derive(Clone, Debug)]
pub struct CreateIndex<'a> {
    /// `CUSTOM`.
    pub is_custom: bool,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The name of the index, if it is given.
    pub name: Option<Name<'a>>,
    /// The table.
    pub table: QualifiedName<'a>,
    /// The indexed parts of the table.
    pub targets: Vec<IndexTarget<'a>>,
    /// The class after `USING`.
    pub using: Option<Cow<'a, str>>,
    /// The properties after `WITH`.
    pub properties: Vec<Property<'a>>,
    /// The place where the statement begins.
    pub position: Position,
}

/// `column`, `keys(column)`, ...
#[derive(Clone, Debug)]
pub struct IndexTarget<'a> {
    /// The word before the parentheses; [`IndexPart::Simple`] if there is none.
    pub part: IndexPart,
    /// The column.
    pub column: Name<'a>,
}
