//! The syntax tree of `COMMENT ON` and `SECURITY LABEL ON`.

use std::borrow::Cow;

use super::{Name, QualifiedName};

/// A `COMMENT ON` or `SECURITY LABEL ON`.
#[derive(Clone, Debug)]
pub struct Annotate<'a> {
    /// True if it is a security label.
    pub is_label: bool,
    /// The object.
    pub target: AnnotateTarget<'a>,
    /// The text; `None` for `NULL`, which removes the stored text.
    pub text: Option<Cow<'a, str>>,
}

/// The object of a `COMMENT ON` or `SECURITY LABEL ON`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum AnnotateTarget<'a> {
    Keyspace(Name<'a>),
    Table(QualifiedName<'a>),
    Column(QualifiedName<'a>, Name<'a>),
    Type(QualifiedName<'a>),
    Field(QualifiedName<'a>, Name<'a>),
}
