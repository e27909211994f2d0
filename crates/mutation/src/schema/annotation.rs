//! Defines comments and security labels of schema objects: texts that the node keeps and shows.

/// The object that a comment or a security label describes, within its keyspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Annotated {
    /// The keyspace itself.
    Keyspace,
    /// A table. Its comment is an option of the table.
    Table(String),
    /// A column of a table.
    Column(String, String),
    /// A user-defined type.
    Type(String),
    /// A field of a user-defined type.
    Field(String, String),
}

/// The texts of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// `COMMENT ON`; empty if there is none.
    pub comment: String,
    /// `SECURITY LABEL ON`; empty if there is none.
    pub security_label: String,
}

impl Annotation {
    /// Returns whether both texts are empty.
    pub fn is_empty(&self) -> bool {
        self.comment.is_empty() && self.security_label.is_empty()
    }
}

impl Annotated {
    /// Returns the kind, the name and the name of the part, as the schema tables store them.
    pub fn parts(&self) -> [&str; 3] {
        match self {
            Self::Keyspace => ["keyspace", "", ""],
            Self::Table(table) => ["table", table, ""],
            Self::Column(table, column) => ["column", table, column],
            Self::Type(name) => ["type", name, ""],
            Self::Field(name, field) => ["field", name, field],
        }
    }

    /// Returns the object with these parts, if the kind is known.
    pub fn from_parts(kind: &str, name: &str, part: &str) -> Option<Self> {
        Some(match kind {
            "keyspace" => Self::Keyspace,
            "table" => Self::Table(name.into()),
            "column" => Self::Column(name.into(), part.into()),
            "type" => Self::Type(name.into()),
            "field" => Self::Field(name.into(), part.into()),
            _ => return None,
        })
    }
}
