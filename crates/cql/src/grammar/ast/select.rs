//! The syntax tree of `SELECT`.

use super::{Expression, Name, Position, QualifiedName, WhereClause};

/// A `SELECT`.
#[derive(Clone, Debug)]
pub struct Select<'a> {
    /// `SELECT JSON`.
    pub json: bool,
    /// `SELECT DISTINCT`.
    pub distinct: bool,
    /// The selected columns or expressions.
    pub selection: Selection<'a>,
    /// `FROM`.
    pub table: QualifiedName<'a>,
    /// `WHERE`, with no relations if it is absent.
    pub where_clause: WhereClause<'a>,
    /// `GROUP BY`: columns, or functions over them.
    pub group_by: Vec<Expression<'a>>,
    /// `ORDER BY`.
    pub order_by: Vec<Ordering<'a>>,
    /// `PER PARTITION LIMIT`: an integer literal or a bind marker.
    pub per_partition_limit: Option<Expression<'a>>,
    /// `LIMIT`: an integer literal or a bind marker.
    pub limit: Option<Expression<'a>>,
    /// `ALLOW FILTERING`.
    pub allow_filtering: bool,
    /// `BYPASS CACHE` (ScyllaDB).
    pub bypass_cache: bool,
    /// `USING TIMEOUT` (ScyllaDB): a duration literal or a bind marker.
    pub timeout: Option<Expression<'a>>,
    /// The place of `SELECT`.
    pub position: Position,
}

/// The result columns of a `SELECT`.
#[derive(Clone, Debug)]
pub enum Selection<'a> {
    /// `*`.
    All,
    /// One selector or more.
    Selectors(Vec<Selector<'a>>),
}

/// `expression [AS alias]`.
#[derive(Clone, Debug)]
pub struct Selector<'a> {
    /// The computed expression. Its `Display` is the name of the result column if there is no
    /// alias.
    pub expression: Expression<'a>,
    /// The name of the result column.
    pub alias: Option<Name<'a>>,
}

/// One member of `ORDER BY`.
#[derive(Clone, Debug)]
pub struct Ordering<'a> {
    /// The column.
    pub column: Name<'a>,
    /// `ANN OF term`: by similarity to a vector.
    pub nearest_to: Option<Expression<'a>>,
    /// `DESC`; false for `ASC` and by default.
    pub descending: bool,
}
