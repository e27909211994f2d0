//! The syntax tree of `INSERT`, `UPDATE`, `DELETE` and `BATCH`.

use super::{Expression, Name, Position, QualifiedName, Relation, WhereClause};

/// A statement that writes rows, and that a batch may contain.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Modification<'a> {
    Insert(Insert<'a>),
    Update(Update<'a>),
    Delete(Delete<'a>),
}

impl<'a> Modification<'a> {
    /// Returns the table that the statement writes.
    pub fn table(&self) -> &QualifiedName<'a> {
        match self {
            Self::Insert(insert) => &insert.table,
            Self::Update(update) => &update.table,
            Self::Delete(delete) => &delete.table,
        }
    }

    /// Returns the options of the statement.
    pub fn using(&self) -> &Using<'a> {
        match self {
            Self::Insert(insert) => &insert.using,
            Self::Update(update) => &update.using,
            Self::Delete(delete) => &delete.using,
        }
    }
}

/// An `INSERT`.
#[derive(Clone, Debug)]
pub struct Insert<'a> {
    /// `INTO`.
    pub table: QualifiedName<'a>,
    /// The inserted values.
    pub source: InsertSource<'a>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// `USING`.
    pub using: Using<'a>,
    /// The place of `INSERT`.
    pub position: Position,
}

/// The source of the values of an `INSERT`.
#[derive(Clone, Debug)]
pub enum InsertSource<'a> {
    /// `(columns) VALUES (values)`. The counts may differ; the planner refuses that.
    Values {
        /// The columns.
        columns: Vec<Name<'a>>,
        /// Their values.
        values: Vec<Expression<'a>>,
    },
    /// `JSON document`.
    Json {
        /// A string literal or a bind marker.
        document: Expression<'a>,
        /// `DEFAULT UNSET`: columns that the document omits keep their values. Otherwise (`DEFAULT
        /// NULL`) they are deleted.
        default_unset: bool,
    },
}

/// An `UPDATE`.
#[derive(Clone, Debug)]
pub struct Update<'a> {
    /// The table.
    pub table: QualifiedName<'a>,
    /// `USING`.
    pub using: Using<'a>,
    /// `SET`, one assignment or more.
    pub assignments: Vec<Assignment<'a>>,
    /// `WHERE`.
    pub where_clause: WhereClause<'a>,
    /// `IF`.
    pub condition: Condition<'a>,
    /// The place of `UPDATE`.
    pub position: Position,
}

/// One assignment of an `UPDATE`.
#[derive(Clone, Debug)]
pub struct Assignment<'a> {
    /// The column that changes. Its position is that of the assignment.
    pub column: Name<'a>,
    /// The change.
    pub operation: AssignmentOperation<'a>,
}

/// The change that an assignment makes to its column `c`.
#[derive(Clone, Debug)]
pub enum AssignmentOperation<'a> {
    /// `c = v`.
    Set(Expression<'a>),
    /// `c = c + v` or `c += v`: a counter, number, list (append), set, map or string.
    Add(Expression<'a>),
    /// `c = c - v` or `c -= v`: a counter, number, list, set, or keys of a map.
    Subtract(Expression<'a>),
    /// `c = v + c`: prepends to a list.
    Prepend(Expression<'a>),
    /// `c[key] = v`.
    SetElement(Expression<'a>, Expression<'a>),
    /// `c.field = v`.
    SetField(Name<'a>, Expression<'a>),
}

/// A `DELETE`.
#[derive(Clone, Debug)]
pub struct Delete<'a> {
    /// The deleted columns, elements and fields; empty for whole rows or partitions.
    pub targets: Vec<DeleteTarget<'a>>,
    /// `FROM`.
    pub table: QualifiedName<'a>,
    /// `USING`: a timestamp or a timeout.
    pub using: Using<'a>,
    /// `WHERE`.
    pub where_clause: WhereClause<'a>,
    /// `IF`.
    pub condition: Condition<'a>,
    /// The place of `DELETE`.
    pub position: Position,
}

/// A part of a row that a `DELETE` deletes.
#[derive(Clone, Debug)]
pub enum DeleteTarget<'a> {
    /// `c`.
    Column(Name<'a>),
    /// `c[key]`.
    Element(Name<'a>, Expression<'a>),
    /// `c.field`.
    Field(Name<'a>, Name<'a>),
}

/// The condition of a lightweight transaction.
#[derive(Clone, Debug, Default)]
pub enum Condition<'a> {
    /// No `IF`.
    #[default]
    None,
    /// `IF EXISTS`.
    Exists,
    /// `IF a AND b`, one relation or more. The targets are columns, elements and fields.
    Relations(Vec<Relation<'a>>),
}

/// The options of a write.
#[derive(Clone, Debug, Default)]
pub struct Using<'a> {
    /// `TIMESTAMP`, in microseconds: an integer literal or a bind marker.
    pub timestamp: Option<Expression<'a>>,
    /// `TTL`, in seconds: an integer literal or a bind marker.
    pub time_to_live: Option<Expression<'a>>,
    /// `TIMEOUT` (ScyllaDB): a duration literal or a bind marker.
    pub timeout: Option<Expression<'a>>,
}

/// A `BATCH`.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// `LOGGED` (the default), `UNLOGGED` or `COUNTER`.
    pub kind: BatchKind,
    /// `USING`, for all its statements.
    pub using: Using<'a>,
    /// Its statements, perhaps none.
    pub statements: Vec<Modification<'a>>,
    /// The place of `BEGIN`.
    pub position: Position,
}

/// The kinds of batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}
