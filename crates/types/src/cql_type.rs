//! The type of a column or a value.
//!
//! A `CqlType` is cheap to clone (nested types are shared) and `Send + Sync`. `frozen` belongs to the type, as in
//! Cassandra: a collection or UDT that is not frozen is stored cell by cell ("multi-cell", "complex"). Types nested
//! inside a frozen type, a tuple or a vector are always frozen themselves.

use std::sync::Arc;

/// A CQL type. Sources: CQL 3.4.7 specification; `org.apache.cassandra.db.marshal` for the marshal names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CqlType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    /// Marshal `EmptyType`: a column without a value (compact tables).
    Empty,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varint,
    List {
        element: Arc<CqlType>,
        frozen: bool,
    },
    Set {
        element: Arc<CqlType>,
        frozen: bool,
    },
    Map {
        key: Arc<CqlType>,
        value: Arc<CqlType>,
        frozen: bool,
    },
    Tuple(Arc<[CqlType]>),
    UserDefined {
        definition: Arc<UserType>,
        frozen: bool,
    },
    Vector {
        element: Arc<CqlType>,
        dimension: usize,
    },
    /// Marshal `CompositeType`: the serialised form of a partition key of several columns.
    Composite(Arc<[CqlType]>),
    /// A marshal class that has no CQL name here (`DateType`, `LexicalUUIDType`, ...): its full marshal name.
    Custom(Arc<str>),
}

/// A user-defined type. Two of them are equal if keyspace, name, field names and field types are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    /// Keyspace that owns the type.
    pub keyspace: String,
    /// Name without quotes, in its stored case.
    pub name: String,
    /// Field names and types in their order of declaration. A new field is appended only.
    pub fields: Vec<(String, CqlType)>,
}

impl CqlType {
    /// Whether a column of this type is stored as one cell for each element (non-frozen collection or UDT).
    pub fn is_multi_cell(&self) -> bool {
        match self {
            Self::List { frozen, .. }
            | Self::Set { frozen, .. }
            | Self::Map { frozen, .. }
            | Self::UserDefined { frozen, .. } => !frozen,
            _ => false,
        }
    }
}
