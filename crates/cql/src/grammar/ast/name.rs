//! Identifiers: names of keyspaces, tables, columns, types, fields, functions.

use std::borrow::Cow;
use std::fmt;

use super::Position;

/// An identifier in its stored case: lower case if it was written without quotes, otherwise as
/// written between the quotes.
///
/// The text is borrowed from the statement unless lower-casing or a doubled quote forced a copy.
#[derive(Clone, Debug)]
pub struct Name<'a> {
    /// The name without quotes.
    pub text: Cow<'a, str>,
    /// The place where the name begins.
    pub position: Position,
}

/// A name that may be preceded by its keyspace: `ks.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName<'a> {
    /// The keyspace, if written.
    pub keyspace: Option<Name<'a>>,
    /// The name in the keyspace.
    pub name: Name<'a>,
}

impl Name<'_> {
    /// Returns the name without quotes, in its stored case.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Names are equal if their stored forms are; the place does not matter.
impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Name<'_> {}

impl PartialEq<str> for Name<'_> {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl QualifiedName<'_> {
    /// Returns the keyspace: the one that is written, or else that of the session.
    pub fn keyspace_or<'n>(&'n self, session: Option<&'n str>) -> Option<&'n str> {
        self.keyspace.as_ref().map(Name::as_str).or(session)
    }

    /// Returns the place where the whole name begins.
    pub fn position(&self) -> Position {
        self.keyspace.as_ref().map_or(self.name.position, |keyspace| keyspace.position)
    }
}

/// Prints the name without quotes, as results name columns. The CQL style of `print` quotes names
/// where necessary.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for QualifiedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        write!(f, "{}", self.name)
    }
}
