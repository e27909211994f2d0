//! Defines the type of a column or a value.
//!
//! A `CqlType` is cheap to clone (nested types are shared) and `Send + Sync`. `frozen` belongs to
//! the type, as in Cassandra: a collection or UDT that is not frozen is stored cell by cell
//! ("multi-cell", "complex"). Types nested inside a frozen type, a tuple or a vector are always
//! frozen themselves.

use std::{collections::HashMap, sync::Arc};

/// A CQL type. Sources: the specification of CQL 3.4.7; `org.apache.cassandra.db.marshal` for the
/// marshal names.
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
    /// A marshal class without a CQL name (`DateType`, `LexicalUUIDType`, ...), by its full marshal
    /// name.
    Custom(Arc<str>),
}

/// A user-defined type. Two of them are equal if their keyspaces, names, field names and field
/// types are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    /// The keyspace that owns the type.
    pub keyspace: String,
    /// The name without quotes, in its stored case.
    pub name: String,
    /// Field names and types in their order of declaration. New fields are only appended.
    pub fields: Vec<(String, CqlType)>,
}

impl CqlType {
    /// Returns whether a column of this type is stored as one cell for each element (a non-frozen
    /// collection or UDT).
    pub fn is_multi_cell(&self) -> bool {
        match self {
            Self::List { frozen, .. }
            | Self::Set { frozen, .. }
            | Self::Map { frozen, .. }
            | Self::UserDefined { frozen, .. } => !frozen,
            _ => false,
        }
    }

    /// Returns the types directly inside this type: elements, keys and values, and the parts of
    /// tuples, composites and user types.
    pub fn parts(&self) -> impl Iterator<Item = &CqlType> {
        let (first, second) = match self {
            Self::List { element, .. } | Self::Set { element, .. } => (Some(element), None),
            Self::Vector { element, .. } => (Some(element), None),
            Self::Map { key, value, .. } => (Some(key), Some(value)),
            _ => (None, None),
        };
        let types: &[CqlType] = match self {
            Self::Tuple(types) | Self::Composite(types) => types,
            _ => &[],
        };
        let fields: &[(String, CqlType)] = match self {
            Self::UserDefined { definition, .. } => &definition.fields,
            _ => &[],
        };
        let elements = first.into_iter().chain(second).map(Arc::as_ref);
        elements.chain(types).chain(fields.iter().map(|(_, ty)| ty))
    }
}

impl UserType {
    /// Returns the field types in their order of declaration.
    pub fn field_types(&self) -> impl ExactSizeIterator<Item = &CqlType> + Clone {
        self.fields.iter().map(|(_, ty)| ty)
    }

    /// Returns the index and the type of the field with this name.
    pub fn field(&self, name: &str) -> Option<(usize, &CqlType)> {
        let index = self.fields.iter().position(|(field, _)| field == name)?;
        Some((index, &self.fields[index].1))
    }

    /// Returns the index of each field by its name, for values that name many fields.
    pub fn field_indexes(&self) -> HashMap<&str, usize> {
        self.fields.iter().map(|(name, _)| name.as_str()).zip(0..).collect()
    }
}

impl CqlType {
    /// Returns the length in bytes of all non-empty values, if cells and clusterings omit the
    /// length ("inline" values).
    ///
    /// `None` for types whose values are written behind their length, which includes some of fixed
    /// size (`smallint`, `date`).
    pub fn fixed_length(&self) -> Option<usize> {
        match self {
            Self::Boolean => Some(1),
            Self::Int | Self::Float => Some(4),
            Self::Bigint | Self::Double | Self::Timestamp => Some(8),
            Self::Uuid | Self::Timeuuid => Some(16),
            Self::Empty => Some(0),
            Self::Vector { element, dimension } => element.fixed_length()?.checked_mul(*dimension),
            Self::Custom(_) if self.is_legacy_timestamp() => Some(8),
            Self::Custom(_) if self.is_lexical_uuid() => Some(16),
            _ => None,
        }
    }

    /// Returns the type as it is inside `frozen<...>`: itself and everything nested in it is stored
    /// in one cell.
    pub fn freeze(&self) -> Self {
        match self {
            Self::List { element, .. } => {
                Self::List { element: shared_freeze(element), frozen: true }
            }
            Self::Set { element, .. } => {
                Self::Set { element: shared_freeze(element), frozen: true }
            }
            Self::Map { key, value, .. } => {
                Self::Map { key: shared_freeze(key), value: shared_freeze(value), frozen: true }
            }
            Self::Tuple(types) => Self::Tuple(types.iter().map(Self::freeze).collect()),
            Self::UserDefined { definition, .. } => {
                let definition = if definition.field_types().all(Self::is_deeply_frozen) {
                    definition.clone()
                } else {
                    Arc::new(UserType {
                        keyspace: definition.keyspace.clone(),
                        name: definition.name.clone(),
                        fields: definition
                            .fields
                            .iter()
                            .map(|(name, ty)| (name.clone(), ty.freeze()))
                            .collect(),
                    })
                };
                Self::UserDefined { definition, frozen: true }
            }
            Self::Vector { element, dimension } => {
                Self::Vector { element: shared_freeze(element), dimension: *dimension }
            }
            other => other.clone(),
        }
    }

    /// Returns the type with user types replaced by tuples of their fields. A dropped column keeps
    /// such a type, because its user types may be dropped later.
    pub fn without_user_types(&self) -> Self {
        let inner = |part: &Arc<CqlType>| Arc::new(part.without_user_types());
        match self {
            Self::List { element, frozen } => {
                Self::List { element: inner(element), frozen: *frozen }
            }
            Self::Set { element, frozen } => Self::Set { element: inner(element), frozen: *frozen },
            Self::Map { key, value, frozen } => {
                Self::Map { key: inner(key), value: inner(value), frozen: *frozen }
            }
            Self::Vector { element, dimension } => {
                Self::Vector { element: inner(element), dimension: *dimension }
            }
            Self::Tuple(parts) => Self::Tuple(parts.iter().map(Self::without_user_types).collect()),
            Self::UserDefined { definition, .. } => {
                let fields = definition.field_types();
                Self::Tuple(fields.map(|field| field.without_user_types().freeze()).collect())
            }
            other => other.clone(),
        }
    }

    /// Returns whether neither this type nor one nested in it is stored cell by cell.
    pub(crate) fn is_deeply_frozen(&self) -> bool {
        // `freeze` leaves composites as they are.
        let is_composite = matches!(self, Self::Composite(_));
        !self.is_multi_cell() && (is_composite || self.parts().all(Self::is_deeply_frozen))
    }

    /// Returns whether this is the type of counters.
    pub fn is_counter(&self) -> bool {
        matches!(self, Self::Counter)
    }

    /// Returns whether this is a list, set or map, frozen or not.
    pub fn is_collection(&self) -> bool {
        matches!(self, Self::List { .. } | Self::Set { .. } | Self::Map { .. })
    }

    /// Returns whether a zero-length value is special: not a number, a date or a sequence.
    ///
    /// A special empty value sorts before all other values, and its byte-comparable form is a
    /// separator of its own. In the other types (`text`, `blob`, ...), the empty value is an
    /// ordinary value.
    pub fn empty_is_special(&self) -> bool {
        match self {
            Self::Ascii | Self::Text | Self::Blob | Self::Inet | Self::Duration | Self::Counter => {
                false
            }
            Self::Custom(_) => self.is_legacy_timestamp() || self.is_lexical_uuid(),
            _ => true,
        }
    }

    /// Returns whether this is marshal `DateType`: a timestamp of Cassandra 1, ordered by its
    /// unsigned bytes.
    pub fn is_legacy_timestamp(&self) -> bool {
        matches!(self, Self::Custom(name) if &**name == "org.apache.cassandra.db.marshal.DateType")
    }

    /// Returns whether this is marshal `LexicalUUIDType`: a UUID ordered by its halves as signed
    /// integers.
    pub fn is_lexical_uuid(&self) -> bool {
        matches!(self, Self::Custom(name) if &**name == "org.apache.cassandra.db.marshal.LexicalUUIDType")
    }
}

fn shared_freeze(ty: &Arc<CqlType>) -> Arc<CqlType> {
    if ty.is_deeply_frozen() { ty.clone() } else { Arc::new(ty.freeze()) }
}
