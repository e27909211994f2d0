//! Checks that bytes are a value of a type.
//!
//! Values are validated once, where they enter the node, and all later code relies on their
//! validity. The rules are those of Cassandra 5.0.9, as measured: zero-length values are valid for
//! all types but `tinyint`, `smallint`, `date`, `time`, `duration`, collections and vectors. Two
//! rules are stricter than Cassandra's: text is UTF-8 as Unicode defines it (no surrogates, no `c0
//! 80`), and no bytes follow the three parts of a duration. Elements of collections and vectors are
//! never null. For a counter, this module checks the value that clients see. The storage engine
//! checks the contexts inside files. This module does not check the order and uniqueness of the
//! elements of sets and the keys of maps.

use crate::duration::Duration;
use crate::{CqlType, ValueError, collection};

impl CqlType {
    /// Checks that `value` is a serialised value of this type: its size, UTF-8 and ASCII, and all
    /// nested values.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first fault.
    pub fn validate(&self, value: &[u8]) -> Result<(), ValueError> {
        match self {
            Self::Blob | Self::Varint => Ok(()),
            Self::Text => match std::str::from_utf8(value) {
                Ok(_) => Ok(()),
                Err(error) => Err(self.broken_text("UTF-8", value, error.valid_up_to())),
            },
            Self::Ascii => match value.iter().position(|byte| !byte.is_ascii()) {
                None => Ok(()),
                Some(at) => Err(self.broken_text("ASCII", value, at)),
            },
            Self::Tinyint => self.length(value, &[1], "1 byte"),
            Self::Smallint => self.length(value, &[2], "2 bytes"),
            Self::Date => self.length(value, &[4], "4 bytes"),
            Self::Time => self.time(value),
            Self::Boolean => self.length(value, &[0, 1], "0 or 1 byte"),
            Self::Int | Self::Float => self.length(value, &[0, 4], "0 or 4 bytes"),
            Self::Bigint | Self::Double | Self::Timestamp => {
                self.length(value, &[0, 8], "0 or 8 bytes")
            }
            Self::Inet => self.length(value, &[0, 4, 16], "0, 4 or 16 bytes"),
            Self::Uuid => self.length(value, &[0, 16], "0 or 16 bytes"),
            Self::Timeuuid => self.timeuuid(value),
            Self::Empty => self.length(value, &[0], "no bytes"),
            Self::Decimal if (1..4).contains(&value.len()) => {
                self.length(value, &[], "0 or at least 4 bytes")
            }
            Self::Decimal => Ok(()),
            Self::Duration => Duration::decode(value).map(drop),
            Self::Counter => self.length(value, &[0, 8], "0 or 8 bytes"),
            Self::List { element, .. } | Self::Set { element, .. } => self.elements(element, value),
            Self::Map { key, value: ty, .. } => self.entries(key, ty, value),
            Self::Tuple(types) => self.fields(types.iter(), value),
            Self::UserDefined { definition, .. } => self.fields(definition.field_types(), value),
            Self::Vector { element, dimension } => self.vector(element, *dimension, value),
            Self::Composite(types) => self.composite(types, value),
            Self::Custom(_) if self.is_legacy_timestamp() => {
                self.length(value, &[0, 8], "0 or 8 bytes")
            }
            Self::Custom(_) if self.is_lexical_uuid() => {
                self.length(value, &[0, 16], "0 or 16 bytes")
            }
            Self::Custom(_) => Ok(()),
        }
    }

    fn length(
        &self,
        value: &[u8],
        allowed: &[usize],
        expected: &'static str,
    ) -> Result<(), ValueError> {
        if allowed.contains(&value.len()) {
            return Ok(());
        }
        Err(ValueError::Length { type_name: self.cql_name(), expected, got: value.len() })
    }

    fn broken_text(&self, encoding: &'static str, value: &[u8], at: usize) -> ValueError {
        let byte = value.get(at).copied().unwrap_or_default();
        ValueError::Invalid {
            type_name: self.cql_name(),
            expected: encoding,
            got: format!("byte {byte:02x} at offset {at}"),
        }
    }

    fn invalid(&self, expected: &'static str, got: impl ToString) -> ValueError {
        ValueError::Invalid { type_name: self.cql_name(), expected, got: got.to_string() }
    }

    fn time(&self, value: &[u8]) -> Result<(), ValueError> {
        self.length(value, &[8], "8 bytes")
    }

    fn timeuuid(&self, value: &[u8]) -> Result<(), ValueError> {
        self.length(value, &[0, 16], "0 or 16 bytes")?;
        match value.get(6) {
            Some(byte) if byte >> 4 != 1 => {
                Err(self.invalid("a UUID of version 1", format!("version {}", byte >> 4)))
            }
            _ => Ok(()),
        }
    }

    fn elements(&self, element: &CqlType, value: &[u8]) -> Result<(), ValueError> {
        if value.is_empty() {
            return self.length(value, &[], "at least 4 bytes");
        }
        let mut elements = collection::elements(value).map_err(|error| self.named(error))?;
        for (index, item) in elements.by_ref().enumerate() {
            let item = item.map_err(|error| self.named(error))?.ok_or_else(|| self.null())?;
            element.validate(item).map_err(|error| self.part("element", index, error))?;
        }
        self.nothing_behind(elements.rest())
    }

    fn entries(&self, key: &CqlType, ty: &CqlType, value: &[u8]) -> Result<(), ValueError> {
        if value.is_empty() {
            return self.length(value, &[], "at least 4 bytes");
        }
        let mut entries = collection::entries(value).map_err(|error| self.named(error))?;
        for (index, entry) in entries.by_ref().enumerate() {
            let (k, v) = entry.map_err(|error| self.named(error))?;
            key.validate(k).map_err(|error| self.part("key", index, error))?;
            ty.validate(v).map_err(|error| self.part("value", index, error))?;
        }
        self.nothing_behind(entries.rest())
    }

    fn fields<'t>(
        &self,
        types: impl Iterator<Item = &'t CqlType>,
        value: &[u8],
    ) -> Result<(), ValueError> {
        let mut fields = collection::fields(value);
        for (index, ty) in types.enumerate() {
            match fields.next() {
                None => return Ok(()),
                Some(Err(error)) => return Err(self.named(error)),
                Some(Ok(None)) => {}
                Some(Ok(Some(field))) => {
                    ty.validate(field).map_err(|error| self.part("field", index, error))?
                }
            }
        }
        self.nothing_behind(fields.rest())
    }

    fn vector(&self, element: &CqlType, dimension: usize, value: &[u8]) -> Result<(), ValueError> {
        let mut elements = collection::vector_elements(element, dimension, value);
        for (index, item) in elements.by_ref().enumerate() {
            let item = item.map_err(|error| self.named(error))?;
            element.validate(item).map_err(|error| self.part("element", index, error))?;
        }
        self.nothing_behind(elements.rest())
    }

    fn composite(&self, types: &[CqlType], value: &[u8]) -> Result<(), ValueError> {
        let (_, mut components) = collection::composite_components(value);
        for (index, ty) in types.iter().enumerate() {
            let Some(component) = components.next() else { return Ok(()) };
            let component = component.map_err(|error| self.named(error))?;
            ty.validate(component.value).map_err(|error| self.part("component", index, error))?;
        }
        self.nothing_behind(components.rest())
    }

    fn nothing_behind(&self, rest: &[u8]) -> Result<(), ValueError> {
        if rest.is_empty() {
            return Ok(());
        }
        Err(ValueError::Trailing { type_name: self.cql_name(), got: rest.len() })
    }

    fn null(&self) -> ValueError {
        ValueError::Null { type_name: self.cql_name() }
    }

    fn part(&self, part: &'static str, index: usize, error: ValueError) -> ValueError {
        ValueError::Part {
            type_name: self.cql_name(),
            part: format!("{part} {index}"),
            source: Box::new(error),
        }
    }

    /// Adds this type's name to the error of an iterator, which does not know the type.
    fn named(&self, error: ValueError) -> ValueError {
        match error {
            ValueError::Truncated { expected, got, .. } => {
                ValueError::Truncated { type_name: self.cql_name(), expected, got }
            }
            ValueError::Invalid { expected, got, .. } => {
                ValueError::Invalid { type_name: self.cql_name(), expected, got }
            }
            ValueError::Null { .. } => self.null(),
            other => other,
        }
    }
}
