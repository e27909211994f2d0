//! Relations of `WHERE`, and of the `IF` of a lightweight transaction.

use super::{BindMarker, Expression, Name, Position};

/// The relations of a `WHERE`, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct WhereClause<'a> {
    /// The relations, in order. A column may come twice.
    pub relations: Vec<Relation<'a>>,
    /// `expr(index, term)`: queries to a custom index.
    pub custom: Vec<CustomIndexExpression<'a>>,
}

/// `target predicate`.
#[derive(Clone, Debug)]
pub struct Relation<'a> {
    /// The left side.
    pub target: RelationTarget<'a>,
    /// The operator and the right side.
    pub predicate: Predicate<'a>,
    /// The place where the relation begins.
    pub position: Position,
}

/// The left side of a relation.
#[derive(Clone, Debug)]
pub enum RelationTarget<'a> {
    /// `c`.
    Column(Name<'a>),
    /// `(a, b)`, one column or more.
    Columns(Vec<Name<'a>>),
    /// `token(a, b)`.
    Token(Vec<Name<'a>>),
    /// `c[key]`.
    Element(Name<'a>, Expression<'a>),
    /// `c.field`; in `IF` only.
    Field(Name<'a>, Name<'a>),
}

impl<'a> RelationTarget<'a> {
    /// Returns the names of the columns.
    pub fn names(&self) -> &[Name<'a>] {
        match self {
            Self::Column(name) | Self::Element(name, _) | Self::Field(name, _) => {
                std::slice::from_ref(name)
            }
            Self::Columns(names) | Self::Token(names) => names,
        }
    }
}

/// The operator of a relation, with its right side.
#[derive(Clone, Debug)]
pub enum Predicate<'a> {
    /// `= v`, `< v`, ... For `(a, b)`, `v` is a tuple literal or a bind marker.
    Compare(ComparisonOperator, Expression<'a>),
    /// `IN ...`. For `(a, b)`, each member is a tuple literal or a bind marker.
    In(InValues<'a>),
    /// `CONTAINS v`.
    Contains(Expression<'a>),
    /// `CONTAINS KEY k`.
    ContainsKey(Expression<'a>),
    /// `NOT IN ...`. CQL 3.4.8 (Cassandra 6), as the other negations.
    NotIn(InValues<'a>),
    /// `NOT CONTAINS v`.
    NotContains(Expression<'a>),
    /// `NOT CONTAINS KEY k`.
    NotContainsKey(Expression<'a>),
    /// `LIKE v`.
    Like(Expression<'a>),
    /// `BETWEEN low AND high`, as `>= low AND <= high`. CQL 3.4.8 (Cassandra 6).
    Between(Expression<'a>, Expression<'a>),
    /// `IS NOT NULL`.
    IsNotNull,
}

impl Predicate<'_> {
    /// Returns the operator as written.
    pub fn operator(&self) -> &'static str {
        match self {
            Self::Compare(operator, _) => operator.symbol(),
            Self::In(_) => "IN",
            Self::Contains(_) => "CONTAINS",
            Self::ContainsKey(_) => "CONTAINS KEY",
            Self::NotIn(_) => "NOT IN",
            Self::NotContains(_) => "NOT CONTAINS",
            Self::NotContainsKey(_) => "NOT CONTAINS KEY",
            Self::Like(_) => "LIKE",
            Self::Between(..) => "BETWEEN",
            Self::IsNotNull => "IS NOT NULL",
        }
    }
}

/// `= < <= > >= !=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ComparisonOperator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    NotEqual,
}

/// The right side of `IN` and `NOT IN`.
#[derive(Clone, Debug)]
pub enum InValues<'a> {
    /// `IN (a, b)`; may be empty.
    Values(Vec<Expression<'a>>),
    /// `IN ?`: the whole list is bound.
    BindMarker(BindMarker),
}

/// `expr(index, term)`.
#[derive(Clone, Debug)]
pub struct CustomIndexExpression<'a> {
    /// The index.
    pub index: Name<'a>,
    /// The query to the index.
    pub value: Expression<'a>,
    /// The place of `expr`.
    pub position: Position,
}

impl ComparisonOperator {
    /// Returns whether the operator is `>` or `>=`, which set a lower bound.
    pub fn is_greater(self) -> bool {
        matches!(self, Self::Greater | Self::GreaterOrEqual)
    }

    /// Returns whether the operator is `<=` or `>=`, whose bound is part of the range.
    pub fn is_inclusive(self) -> bool {
        matches!(self, Self::LessOrEqual | Self::GreaterOrEqual)
    }

    /// Returns the operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::NotEqual => "!=",
        }
    }
}
