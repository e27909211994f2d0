//! The syntax tree of `WITH name = value AND ...` of keyspaces and tables.

use std::borrow::Cow;

use super::Name;

/// One option. Like Cassandra's parser, ours refuses two options with the same name in one
/// statement.
#[derive(Clone, Debug)]
pub struct Property<'a> {
    /// The option.
    pub name: Name<'a>,
    /// Its value.
    pub value: PropertyValue<'a>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue<'a> {
    /// A literal or keyword, as text: `'0.1'` and `0.1` are equal.
    Text(Cow<'a, str>),
    /// A map literal of literals, as text, in the order written. The parser refuses a repeated key.
    Map(Vec<(Cow<'a, str>, Cow<'a, str>)>),
}
