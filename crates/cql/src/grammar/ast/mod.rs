//! The syntax tree of a statement, as the parser returns it.
//!
//! The tree borrows names and literals from the statement's text. The planner checks it against a
//! schema, and reports errors with the `Position` of a node. A tree is dropped as soon as it is
//! planned. A prepared statement keeps its text and its plan.

mod annotate;
mod bind_marker;
mod describe;
mod drop_object;
mod expression;
mod index;
mod keyspace;
mod modification;
mod name;
mod position;
mod property;
mod relation;
mod role;
mod select;
mod table;
mod transaction;
mod type_name;
mod unsupported;
mod user_type;
mod view;

pub use annotate::{Annotate, AnnotateTarget};
pub use bind_marker::{BindMarker, BindMarkers};
pub use describe::{Describe, DescribeTarget};
pub use drop_object::{AlterView, DropObject, ObjectKind};
pub use expression::{
    Arithmetic, ArithmeticOperator, CellMetadata, Expression, ExpressionKind, FunctionCall, Literal,
};
pub use index::{CreateIndex, IndexTarget};
pub use keyspace::{AlterKeyspace, CreateKeyspace, DropKeyspace, Use};
pub use modification::{
    Assignment, AssignmentOperation, Batch, BatchKind, Condition, Delete, DeleteTarget, Insert,
    InsertSource, Modification, Update, Using,
};
pub use name::{Name, QualifiedName};
pub use position::{LineColumn, Position};
pub use property::{Property, PropertyValue};
pub use relation::{
    ComparisonOperator, CustomIndexExpression, InValues, Predicate, Relation, RelationTarget,
    WhereClause,
};
pub use role::{
    Access, DefineRole, Grant, ListPermissions, Password, Permissions, Resource, RoleOptions,
    RoleStatement,
};
pub use select::{Ordering, Select, Selection, Selector};
pub use table::{
    AlterTable, Check, CheckKind, ColumnDefinition, ColumnMask, CopiedPart, CreateTable,
    CreateTableLike, DropTable, PrimaryKey, TableChange, TableOptions, Truncate,
};
pub use transaction::{
    Let, Transaction, TransactionAnswer, TransactionCondition, TransactionPredicate,
};
pub use type_name::{TypeName, TypeNameKind};
pub use unsupported::{Feature, Unsupported};
pub use user_type::{AlterType, CreateType, DropType, TypeChange};
pub use view::CreateView;

/// A statement and its bind markers.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// The statement.
    pub statement: Statement<'a>,
    /// Its bind markers, in the order of the text.
    pub bind_markers: BindMarkers<'a>,
}

/// A statement of CQL.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Statement<'a> {
    Select(Select<'a>),
    Modification(Modification<'a>),
    Batch(Batch<'a>),
    Transaction(Box<Transaction<'a>>),
    Use(Use<'a>),
    Describe(Describe<'a>),
    CreateKeyspace(CreateKeyspace<'a>),
    AlterKeyspace(AlterKeyspace<'a>),
    DropKeyspace(DropKeyspace<'a>),
    CreateTable(CreateTable<'a>),
    CreateTableLike(CreateTableLike<'a>),
    AlterTable(AlterTable<'a>),
    DropTable(DropTable<'a>),
    Truncate(Truncate<'a>),
    CreateType(CreateType<'a>),
    AlterType(AlterType<'a>),
    DropType(DropType<'a>),
    CreateIndex(Box<CreateIndex<'a>>),
    DropObject(DropObject<'a>),
    CreateView(Box<CreateView<'a>>),
    AlterView(AlterView<'a>),
    /// Roles, permissions and identities.
    Role(Box<RoleStatement<'a>>),
    Annotate(Annotate<'a>),
    /// Correct CQL for a feature that is not supported yet.
    Unsupported(Unsupported<'a>),
}
