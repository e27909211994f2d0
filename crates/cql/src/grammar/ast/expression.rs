//! Terms and selectors. One type serves both, because both consist of literals, bind markers,
//! functions, casts and arithmetic.
//!
//! A *term* (the right side of a relation, a value in `VALUES` or `SET`) never has the variants
//! that read a row: `Column`, `CountRows`, `CellMetadata`, `Field`, `Element`, `Slice`. The parser
//! guarantees that. A *selector* may have any variant.
//!
//! The depth of an expression is bounded by `grammar::MAX_NESTING`. Each operator of
//! `1 + 1 + 1 + ...` counts as a level, although the tree is flat here. So code may recurse over
//! the tree, and over a plan that is made from it.

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
    /// A constant.
    Literal(Literal<'a>),
    /// `null`.
    Null,
    /// `?` or `:name`.
    BindMarker(BindMarker),
    /// `[a, b]`: a list, or a vector if one is expected.
    List(Vec<Expression<'a>>),
    /// `{a, b}`; also `{}`, which is an empty set, map or UDT, whichever is expected.
    Set(Vec<Expression<'a>>),
    /// `{k: v}`. In a selector a key that is a bare `Column` may also be the field of a UDT; the
    /// planner decides by the types.
    Map(Vec<(Expression<'a>, Expression<'a>)>),
    /// `{field: v}`; in terms only, see `Map`.
    UserDefined(Vec<(Name<'a>, Expression<'a>)>),
    /// `(a, b)`. In a selector, a single element may also mean plain parentheses; the planner
    /// decides by the types.
    Tuple(Vec<Expression<'a>>),
    /// `f(a, b)`, `token(a, b)`, `count(a)`; not `count(*)`.
    Function(FunctionCall<'a>),
    /// `(int) x`: states the type of `x` without a conversion.
    TypeHint(TypeName<'a>, Box<Expression<'a>>),
    /// `CAST(x AS t)`: a conversion. The type is always native.
    Cast(Box<Expression<'a>>, TypeName<'a>),
    /// `-x`, where `x` is not a number written next to its sign.
    Negate(Box<Expression<'a>>),
    /// `a + b - c` or `a * b / c % d`.
    Arithmetic(Arithmetic<'a>),

    /// A column. This variant and all that follow occur in selectors only.
    Column(Name<'a>),
    /// `count(*)`.
    CountRows,
    /// `writetime(c)`, `maxwritetime(c)`, `ttl(c)`. `c` is a column, or a field, element or slice
    /// of one.
    CellMetadata(CellMetadata, Box<Expression<'a>>),
    /// `x.field`.
    Field(Box<Expression<'a>>, Name<'a>),
    /// `x[key]`.
    Element(Box<Expression<'a>>, Box<Expression<'a>>),
    /// `x[from..to]`. Either bound may be absent.
    Slice(Box<Expression<'a>>, Option<Box<Expression<'a>>>, Option<Box<Expression<'a>>>),
}

/// A constant as written. Its text has the right form, but is not checked against a type yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal<'a> {
    /// Digits, perhaps with a sign: `-42`.
    Integer(&'a str),
    /// `1.5`, `-2.5e10`, `1e3`; or exactly `NaN`, `Infinity` or `-Infinity` (the sign of NaN is
    /// dropped).
    Float(&'a str),
    /// The content of a `'...'` or `$$...$$` string, with doubled quotes undone.
    String(Cow<'a, str>),
    /// `true` or `false` in any case.
    Boolean(bool),
    /// 8-4-4-4-12 hexadecimal digits.
    Uuid(&'a str),
    /// `0x...` with its prefix; the number of digits may be odd.
    Blob(&'a str),
    /// `1mo2d`, `P1Y2M`, `P0001-02-03T04:05:06`, `P3W`, perhaps with a sign.
    Duration(&'a str),
}

/// A function applied to arguments.
#[derive(Clone, Debug)]
pub struct FunctionCall<'a> {
    /// The function's name, with a keyspace only if one was written.
    pub name: QualifiedName<'a>,
    /// Its arguments in order.
    pub arguments: Vec<Expression<'a>>,
}

/// A chain of operators of one precedence, applied from left to right.
#[derive(Clone, Debug)]
pub struct Arithmetic<'a> {
    /// The leftmost operand.
    pub first: Box<Expression<'a>>,
    /// Each further operand with the operator before it; at least one.
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
    /// Returns the operator as written.
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
