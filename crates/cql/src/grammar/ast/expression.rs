//! Terms and selectors. They share one type, because both consist of literals, bind markers,
//! functions, casts and arithmetic.
//!
//! A *term* is the right side of a relation, or a value in `VALUES` or `SET`. The parser guarantees
//! that a term has none of the variants that read a row: `Column`, `CountRows`, `CellMetadata`,
//! `Field`, `Element`, `Slice`. Only in a transaction, a term may be a reference, which is a
//! `Field` or an `Element` over a `Column`. A *selector* may have any variant, except
//! `UserDefined`.
//!
//! `grammar::MAX_NESTING` bounds the depth of an expression, so that code may recurse over the tree
//! and over a plan of it. Each operator of `1 + 1 + 1 + ...` counts as a level, because the plan is
//! deep although the tree is flat.

use std::borrow::Cow;

use super::{BindMarker, Name, Position, QualifiedName, TypeName};

/// A term or a selector.
#[derive(Clone, Debug)]
pub struct Expression<'a> {
    /// The form and its parts.
    pub kind: ExpressionKind<'a>,
    /// The place where the expression begins.
    pub position: Position,
}

/// The forms of a term or selector.
#[derive(Clone, Debug)]
pub enum ExpressionKind<'a> {
    /// A constant other than `null`.
    Literal(Literal<'a>),
    /// `null`.
    Null,
    /// `?` or `:name`.
    BindMarker(BindMarker),
    /// `[a, b]`: a vector if the expected type is one, else a list.
    List(Vec<Expression<'a>>),
    /// `{a, b}` or `{}`. The expected type decides whether `{}` is an empty set, map or UDT.
    Set(Vec<Expression<'a>>),
    /// `{k: v}`. In a selector, `k` may be a column or the name of a UDT's field. The planner
    /// decides by the types; the parser makes a `Column`.
    Map(Vec<(Expression<'a>, Expression<'a>)>),
    /// `{field: v}` in a term, where a bare name cannot be a column. A selector has `Map` instead.
    UserDefined(Vec<(Name<'a>, Expression<'a>)>),
    /// `(a, b)`. In a selector, `(a)` is a tuple of one element or just `a` in parentheses; the
    /// planner decides by the types.
    Tuple(Vec<Expression<'a>>),
    /// `f(a, b)`, which includes `token(a, b)` and `count(a)`. `count(*)` is `CountRows`.
    Function(FunctionCall<'a>),
    /// `(int) x`: states the type of `x` without a conversion.
    TypeHint(TypeName<'a>, Box<Expression<'a>>),
    /// `CAST(x AS t)`: converts `x` to the native type `t`.
    Cast(Box<Expression<'a>>, TypeName<'a>),
    /// `-x`, unless `x` is a number that follows the sign without a blank: `-1` is a `Literal`.
    Negate(Box<Expression<'a>>),
    /// `a + b - c` or `a * b / c % d`.
    Arithmetic(Arithmetic<'a>),

    // The variants from here on occur only in selectors and in the references of transactions.
    /// A column.
    Column(Name<'a>),
    /// `count(*)`.
    CountRows,
    /// `writetime(c)`, `maxwritetime(c)` or `ttl(c)`, where `c` is a column or a field, element or
    /// slice of a column.
    CellMetadata(CellMetadata, Box<Expression<'a>>),
    /// `x.field`.
    Field(Box<Expression<'a>>, Name<'a>),
    /// `x[key]`.
    Element(Box<Expression<'a>>, Box<Expression<'a>>),
    /// `x[from..to]`. Either bound may be absent.
    Slice(Box<Expression<'a>>, Option<Box<Expression<'a>>>, Option<Box<Expression<'a>>>),
}

/// A constant as it is written. The parser checks its form; the planner later checks it against a
/// type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal<'a> {
    /// Digits with an optional sign: `-42`.
    Integer(&'a str),
    /// A number such as `1.5`, `-2.5e10` or `1e3`. The other values are `NaN`, `Infinity` and
    /// `-Infinity` in this spelling; the parser drops the sign of `-NaN`.
    Float(&'a str),
    /// The content of a `'...'` or `$$...$$` string. In the former, `''` in the text is `'` here.
    String(Cow<'a, str>),
    /// `true` or `false` in any case.
    Boolean(bool),
    /// 8-4-4-4-12 hexadecimal digits.
    Uuid(&'a str),
    /// `0x...`, prefix included. The number of digits may be odd.
    Blob(&'a str),
    /// `1mo2d`, `P1Y2M`, `P0001-02-03T04:05:06` or `P3W`, with an optional sign.
    Duration(&'a str),
}

/// A function applied to arguments.
#[derive(Clone, Debug)]
pub struct FunctionCall<'a> {
    /// The function's name, with a keyspace only if the text has one.
    pub name: QualifiedName<'a>,
    /// The arguments in order.
    pub arguments: Vec<Expression<'a>>,
}

/// A chain of operators of one precedence, applied from left to right.
#[derive(Clone, Debug)]
pub struct Arithmetic<'a> {
    /// The leftmost operand.
    pub first: Box<Expression<'a>>,
    /// Each further operand with the operator before it. There is at least one.
    pub rest: Vec<(ArithmeticOperator, Expression<'a>)>,
}

/// `+ - * / %`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// The metadata of a cell that a selector may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CellMetadata {
    WriteTime,
    MaximumWriteTime,
    TimeToLive,
}

impl ArithmeticOperator {
    /// Returns the operator's character.
    pub fn symbol(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Modulo => '%',
        }
    }
}

impl CellMetadata {
    /// Returns the function's name in lower case.
    pub fn function_name(self) -> &'static str {
        match self {
            Self::WriteTime => "writetime",
            Self::MaximumWriteTime => "maxwritetime",
            Self::TimeToLive => "ttl",
        }
    }
}
