//! Types as written; user-defined types are not resolved yet.

use std::borrow::Cow;

use espalier_types::CqlType;

use super::{Position, QualifiedName};

/// A type as written in DDL, a cast or a type hint.
#[derive(Clone, Debug)]
pub struct TypeName<'a> {
    /// The form and its parts.
    pub kind: TypeNameKind<'a>,
    /// The place where the type begins.
    pub position: Position,
}

/// The forms of a type.
#[derive(Clone, Debug)]
pub enum TypeNameKind<'a> {
    /// A native type: `int`, `text` (also `varchar`), `counter`, ... It is never a variant of
    /// `CqlType` with parts.
    Native(CqlType),
    /// `list<element>`.
    List(Box<TypeName<'a>>),
    /// `set<element>`.
    Set(Box<TypeName<'a>>),
    /// `map<key, value>`.
    Map(Box<TypeName<'a>>, Box<TypeName<'a>>),
    /// `tuple<a, b, ...>`, one element or more.
    Tuple(Vec<TypeName<'a>>),
    /// `vector<element, dimension>`. The dimension is as written; the planner refuses zero.
    Vector(Box<TypeName<'a>>, i64),
    /// `frozen<inner>`.
    Frozen(Box<TypeName<'a>>),
    /// The name of a user-defined type, `ks.name` or `name`.
    UserDefined(QualifiedName<'a>),
    /// `'org.apache.cassandra.db.marshal.SomeType(...)'`, the text between the quotes.
    Custom(Cow<'a, str>),
}
