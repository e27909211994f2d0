//! Defines the constraints of columns: the conditions of `CHECK`, which written values must
//! satisfy.

/// One condition of a column's `CHECK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnConstraint {
    /// `NOT NULL`: the value is given and is not null.
    NotNull,
    /// `JSON()`: the value is a JSON document.
    Json,
    /// `v > 5`, `LENGTH() <= 10`, `REGEXP() = 'a.*'`.
    Relation {
        /// The left side.
        left: ConstrainedValue,
        /// The operator as CQL writes it.
        operator: String,
        /// The right side as CQL writes it: a string has its quotes.
        right: String,
    },
}

/// The left side of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstrainedValue {
    /// The value itself.
    Column,
    /// Its number of characters, or of bytes for a blob.
    Length,
    /// Its number of bytes.
    OctetLength,
    /// True if a regular expression matches the whole value.
    Regexp,
}

impl ConstrainedValue {
    /// Returns the name of the function; empty for the value itself.
    pub fn name(self) -> &'static str {
        match self {
            Self::Column => "",
            Self::Length => "LENGTH",
            Self::OctetLength => "OCTET_LENGTH",
            Self::Regexp => "REGEXP",
        }
    }
}

impl ColumnConstraint {
    /// Returns the parts with which the schema tables store the constraint: function, operator and
    /// right side.
    pub fn parts(&self) -> [&str; 3] {
        match self {
            Self::NotNull => ["NOT_NULL", "", ""],
            Self::Json => ["JSON", "", ""],
            Self::Relation { left, operator, right } => [left.name(), operator, right],
        }
    }

    /// Returns the constraint with these parts, if there is one.
    pub fn from_parts(function: &str, operator: &str, right: &str) -> Option<Self> {
        use ConstrainedValue::{Column, Length, OctetLength, Regexp};
        match function {
            "NOT_NULL" => return Some(Self::NotNull),
            "JSON" => return Some(Self::Json),
            _ => {}
        }
        let left = [Column, Length, OctetLength, Regexp]
            .into_iter()
            .find(|left| left.name().eq_ignore_ascii_case(function))?;
        Some(Self::Relation { left, operator: operator.into(), right: right.into() })
    }

    /// Returns the text in a `CHECK` of the column with this name, which is quoted if it must be.
    pub fn to_cql(&self, column: &str) -> String {
        match self {
            Self::NotNull => "NOT NULL".into(),
            Self::Json => "JSON".into(),
            Self::Relation { left: ConstrainedValue::Column, operator, right } => {
                format!("{column} {operator} {right}")
            }
            Self::Relation { left, operator, right } => {
                format!("{}() {operator} {right}", left.name())
            }
        }
    }
}
