//! The syntax tree of `CREATE MATERIALIZED VIEW`.

use super::{Position, PrimaryKey, QualifiedName, Selection, TableOptions, WhereClause};

/// A `CREATE MATERIALIZED VIEW`.
#[derive(Clone, Debug)]
pub struct CreateView<'a> {
    /// The name of the view.
    pub name: QualifiedName<'a>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// `SELECT`: the columns of the view.
    pub selection: Selection<'a>,
    /// `FROM`: the base table.
    pub base: QualifiedName<'a>,
    /// `WHERE`, with no relations if it is absent.
    pub where_clause: WhereClause<'a>,
    /// The primary key.
    pub primary_key: PrimaryKey<'a>,
    /// `WITH`.
    pub options: TableOptions<'a>,
    /// The place where the statement begins.
    pub position: Position,
}
