//! The syntax tree of `CREATE`, `ALTER`, `DROP` and `TRUNCATE TABLE`.

use super::{
    ComparisonOperator, Expression, FunctionCall, Name, Position, Property, QualifiedName, TypeName,
};

/// A `CREATE TABLE`.
#[derive(Clone, Debug)]
pub struct CreateTable<'a> {
    /// Its name.
    pub name: QualifiedName<'a>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The columns in order. A name may come twice; the planner refuses that.
    pub columns: Vec<ColumnDefinition<'a>>,
    /// All primary keys of the text, from columns and from clauses. The planner refuses any other
    /// number than one.
    pub primary_keys: Vec<PrimaryKey<'a>>,
    /// `WITH`.
    pub options: TableOptions<'a>,
    /// The place where the statement begins.
    pub position: Position,
}

/// A `CREATE TABLE ... LIKE`.
#[derive(Clone, Debug)]
pub struct CreateTableLike<'a> {
    /// Its name.
    pub name: QualifiedName<'a>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The table that it copies.
    pub source: QualifiedName<'a>,
    /// `WITH INDEXES`, `WITH COMMENTS`, `WITH SECURITY LABELS`: the parts that it copies besides
    /// columns, constraints, masks and options.
    pub copied: Vec<CopiedPart>,
    /// `WITH`: options that replace those of the source.
    pub options: TableOptions<'a>,
}

/// A part of a table that `CREATE TABLE ... LIKE` copies on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CopiedPart {
    Indexes,
    Comments,
    SecurityLabels,
}

impl CopiedPart {
    /// Returns the part as written.
    pub fn text(self) -> &'static str {
        match self {
            Self::Indexes => "INDEXES",
            Self::Comments => "COMMENTS",
            Self::SecurityLabels => "SECURITY LABELS",
        }
    }
}

/// `name type [STATIC] [MASKED WITH ...] [NOT NULL] [CHECK ...]`.
#[derive(Clone, Debug)]
pub struct ColumnDefinition<'a> {
    /// Its name.
    pub name: Name<'a>,
    /// Its type.
    pub type_name: TypeName<'a>,
    /// `STATIC`.
    pub is_static: bool,
    /// `MASKED WITH`.
    pub mask: Option<ColumnMask<'a>>,
    /// `NOT NULL` and `CHECK`: conditions, all of which a written value must satisfy.
    pub checks: Vec<Check<'a>>,
}

/// A condition of a `CHECK`.
#[derive(Clone, Debug)]
pub struct Check<'a> {
    /// The condition.
    pub kind: CheckKind<'a>,
    /// The place where it begins.
    pub position: Position,
}

/// The kinds of conditions of a `CHECK`.
#[derive(Clone, Debug)]
pub enum CheckKind<'a> {
    /// `NOT NULL`.
    NotNull,
    /// `column > value`.
    Column(Name<'a>, ComparisonOperator, Expression<'a>),
    /// `FUNCTION`, `FUNCTION()`, `FUNCTION() > value`.
    Function {
        /// The function.
        name: Name<'a>,
        /// Its arguments.
        arguments: Vec<Expression<'a>>,
        /// The comparison with its result.
        comparison: Option<(ComparisonOperator, Expression<'a>)>,
    },
}

/// `MASKED WITH function(arguments)` or `MASKED WITH DEFAULT`.
#[derive(Clone, Debug)]
pub struct ColumnMask<'a> {
    /// The masking function; `None` for `DEFAULT`.
    pub function: Option<FunctionCall<'a>>,
    /// The place of `MASKED`.
    pub position: Position,
}

/// `PRIMARY KEY ((a, b), c, d)`.
#[derive(Clone, Debug)]
pub struct PrimaryKey<'a> {
    /// The partition key, one column or more.
    pub partition: Vec<Name<'a>>,
    /// The clustering columns, perhaps none.
    pub clustering: Vec<Name<'a>>,
    /// The place of `PRIMARY`.
    pub position: Position,
}

/// The `WITH` of a table.
#[derive(Clone, Debug, Default)]
pub struct TableOptions<'a> {
    /// `name = value`, also `id = <uuid>`.
    pub properties: Vec<Property<'a>>,
    /// `CLUSTERING ORDER BY`: columns, and whether each is descending.
    pub clustering_order: Vec<(Name<'a>, bool)>,
    /// The place of `COMPACT STORAGE`, if it is there.
    pub compact_storage: Option<Position>,
}

/// An `ALTER TABLE`.
#[derive(Clone, Debug)]
pub struct AlterTable<'a> {
    /// Its name.
    pub name: QualifiedName<'a>,
    /// `IF EXISTS`, of the table.
    pub if_exists: bool,
    /// The change.
    pub change: TableChange<'a>,
    /// The place where the statement begins.
    pub position: Position,
}

/// The change of an `ALTER TABLE`.
#[derive(Clone, Debug)]
pub enum TableChange<'a> {
    /// `ADD [IF NOT EXISTS] column, ...`; no column is part of a primary key.
    Add {
        /// `IF NOT EXISTS`, of each column.
        if_not_exists: bool,
        /// The new columns.
        columns: Vec<ColumnDefinition<'a>>,
    },
    /// `DROP [IF EXISTS] column, ... [USING TIMESTAMP t]`.
    Drop {
        /// `IF EXISTS`, of each column.
        if_exists: bool,
        /// The columns.
        columns: Vec<Name<'a>>,
        /// The time of the drop, in microseconds: an integer literal.
        timestamp: Option<Expression<'a>>,
    },
    /// `RENAME [IF EXISTS] a TO b AND ...`.
    Rename {
        /// `IF EXISTS`, of each column.
        if_exists: bool,
        /// Old and new names.
        columns: Vec<(Name<'a>, Name<'a>)>,
    },
    /// `WITH`.
    Options(TableOptions<'a>),
    /// `DROP COMPACT STORAGE`.
    DropCompactStorage,
    /// `ALTER column TYPE t`, which Cassandra has not supported since 3.10.
    ColumnType {
        /// The column.
        column: Name<'a>,
        /// The requested type.
        type_name: TypeName<'a>,
    },
    /// `ALTER [IF EXISTS] column MASKED WITH ...` or `ALTER [IF EXISTS] column DROP MASKED`.
    ColumnMask {
        /// `IF EXISTS`, of the column.
        if_exists: bool,
        /// The column.
        column: Name<'a>,
        /// The new mask, or none.
        mask: Option<ColumnMask<'a>>,
    },
    /// `ALTER [IF EXISTS] column CHECK ...` or `ALTER [IF EXISTS] column DROP CHECK`.
    ColumnCheck {
        /// `IF EXISTS`, of the column.
        if_exists: bool,
        /// The column.
        column: Name<'a>,
        /// The new conditions, or none.
        checks: Vec<Check<'a>>,
    },
}

/// A `DROP TABLE`.
#[derive(Clone, Debug)]
pub struct DropTable<'a> {
    /// Its name.
    pub name: QualifiedName<'a>,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The place where the statement begins.
    pub position: Position,
}

/// A `TRUNCATE`.
#[derive(Clone, Debug)]
pub struct Truncate<'a> {
    /// The table.
    pub table: QualifiedName<'a>,
    /// `USING TIMEOUT` (ScyllaDB): a duration literal or a bind marker.
    pub timeout: Option<Expression<'a>>,
    /// The place where the statement begins.
    pub position: Position,
}
