//! `BEGIN TRANSACTION`, in the syntax of Cassandra 6 (Accord).

use super::{ComparisonOperator, Expression, Modification, Name, Position, Select};

/// `BEGIN TRANSACTION ... COMMIT TRANSACTION`.
///
/// Its terms may be references to rows of `LET`: `x.column`, `x.column[key]` and `x.column.field`,
/// with the trees of selectors.
#[derive(Clone, Debug)]
pub struct Transaction<'a> {
    /// `LET`, in order.
    pub assignments: Vec<Let<'a>>,
    /// `SELECT`.
    pub answer: TransactionAnswer<'a>,
    /// `IF`: all must hold for the updates to be applied. Empty without an `IF`.
    pub conditions: Vec<TransactionCondition<'a>>,
    /// The updates, perhaps none.
    pub updates: Vec<Modification<'a>>,
    /// The place of `BEGIN`.
    pub position: Position,
}

/// `LET name = (SELECT ...)`: a row that the transaction reads.
#[derive(Clone, Debug)]
pub struct Let<'a> {
    /// The name by which the transaction refers to the row.
    pub name: Name<'a>,
    /// The query.
    pub select: Select<'a>,
}

/// The result clause of a transaction.
#[derive(Clone, Debug)]
pub enum TransactionAnswer<'a> {
    /// Nothing.
    None,
    /// `SELECT ... FROM ...`.
    Select(Box<Select<'a>>),
    /// `SELECT x.a, y.b`: references.
    References(Vec<Expression<'a>>),
}

/// `left IS NULL`, `left IS NOT NULL`, or a comparison of a reference with a term, on either side.
#[derive(Clone, Debug)]
pub struct TransactionCondition<'a> {
    /// The left side: a reference, a row (`x`) or a term.
    pub left: Expression<'a>,
    /// The rest.
    pub predicate: TransactionPredicate<'a>,
}

/// The operator of a condition, with its right side.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum TransactionPredicate<'a> {
    IsNull,
    IsNotNull,
    Compare(ComparisonOperator, Expression<'a>),
}
