//! Reads and prints CQL type names as `system_schema.columns` and `DESCRIBE` have them.

use std::fmt::Write;
use std::sync::Arc;

use crate::type_name::quote_if_needed;
use crate::type_name::scanner::Scanner;
use crate::{CqlType, TypeParseError, UserType};

/// The names of the types without parameters.
const SIMPLE: [(&str, CqlType); 22] = [
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::Bigint),
    ("blob", CqlType::Blob),
    ("boolean", CqlType::Boolean),
    ("counter", CqlType::Counter),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
    ("empty", CqlType::Empty),
    ("float", CqlType::Float),
    ("inet", CqlType::Inet),
    ("int", CqlType::Int),
    ("smallint", CqlType::Smallint),
    ("text", CqlType::Text),
    ("varchar", CqlType::Text),
    ("time", CqlType::Time),
    ("timestamp", CqlType::Timestamp),
    ("timeuuid", CqlType::Timeuuid),
    ("tinyint", CqlType::Tinyint),
    ("uuid", CqlType::Uuid),
    ("varint", CqlType::Varint),
];

impl CqlType {
    /// Returns the name in CQL, as Cassandra prints it.
    ///
    /// `frozen<...>` surrounds everything that is stored in one cell, tuples included. A UDT has
    /// its name without the keyspace, quoted if needed. A class without a CQL name is in single
    /// quotes.
    pub fn cql_name(&self) -> String {
        let mut out = String::new();
        self.print_cql(&mut out);
        out
    }

    fn print_cql(&self, out: &mut String) {
        let frozen = matches!(self, Self::Tuple(_))
            || !self.is_multi_cell() && (self.is_collection() || self.is_user_defined());
        if frozen {
            out.push_str("frozen<");
        }
        match self {
            Self::List { element, .. } => print_parameters("list", [&**element], out),
            Self::Set { element, .. } => print_parameters("set", [&**element], out),
            Self::Map { key, value, .. } => print_parameters("map", [&**key, &**value], out),
            Self::Tuple(types) => print_parameters("tuple", types.iter(), out),
            Self::UserDefined { definition, .. } => {
                // A UDT may be called "int".
                let ambiguous = SIMPLE.iter().any(|(name, _)| *name == definition.name);
                let name = quote_if_needed(&definition.name);
                let name = if ambiguous { format!("\"{name}\"").into() } else { name };
                out.push_str(&name);
            }
            Self::Vector { element, dimension } => {
                out.push_str("vector<");
                element.print_cql(out);
                let _ = write!(out, ", {dimension}>");
            }
            Self::Composite(_) | Self::Custom(_) => {
                let _ = write!(out, "'{}'", self.marshal_name().replace('\'', "''"));
            }
            simple => {
                let name = SIMPLE.iter().find(|(_, ty)| ty == simple).map_or("", |(name, _)| name);
                out.push_str(name);
            }
        }
        if frozen {
            out.push('>');
        }
    }

    /// Reads a type as [`CqlType::cql_name`] prints it (`system_schema.columns`,
    /// `system_schema.types`).
    ///
    /// `resolve` looks up a UDT by its name alone. In `text`, the name may follow `keyspace` and a
    /// dot. `frozen` may be left out inside frozen types, tuples and vectors, where everything is
    /// frozen, but not inside a collection that is not frozen.
    ///
    /// # Errors
    ///
    /// Returns an error for a wrong syntax, an unknown type, a user type of another keyspace, a
    /// non-frozen collection or UDT inside a collection, and a type beyond the limits of nesting or
    /// of vectors.
    pub fn parse_cql(
        text: &str,
        keyspace: &str,
        resolve: &dyn Fn(&str) -> Option<Arc<UserType>>,
    ) -> Result<Self, TypeParseError> {
        let mut parser = Parser { scanner: Scanner::new(text), keyspace, resolve };
        let ty = parser.parse()?;
        parser.scanner.expect_end()?;
        // `frozen`, `tuple` and `vector` have frozen their parts. So only the parts of a non-frozen
        // collection at the top can be wrong.
        let nested: &[&Arc<Self>] = match &ty {
            Self::List { element, frozen: false } | Self::Set { element, frozen: false } => {
                &[element]
            }
            Self::Map { key, value, frozen: false } => &[key, value],
            _ => &[],
        };
        match nested.iter().find(|ty| ty.is_multi_cell()) {
            None => Ok(ty),
            Some(inner) => {
                let name = inner.cql_name();
                Err(parser.scanner.error(format!("{name} inside a collection must be frozen")))
            }
        }
    }

    fn is_user_defined(&self) -> bool {
        matches!(self, Self::UserDefined { .. })
    }
}

fn print_parameters<'t>(
    name: &str,
    types: impl IntoIterator<Item = &'t CqlType>,
    out: &mut String,
) {
    out.push_str(name);
    for (index, ty) in types.into_iter().enumerate() {
        out.push_str(if index == 0 { "<" } else { ", " });
        ty.print_cql(out);
    }
    out.push('>');
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    keyspace: &'a str,
    resolve: &'a dyn Fn(&str) -> Option<Arc<UserType>>,
}

impl Parser<'_> {
    fn parse(&mut self) -> Result<CqlType, TypeParseError> {
        match self.scanner.peek() {
            Some('\'') => {
                let start = self.scanner.at();
                let name = self.scanner.quoted('\'')?;
                CqlType::parse_marshal(&name).map_err(|error| TypeParseError {
                    text: error.text,
                    at: start + 1 + error.at,
                    reason: error.reason,
                })
            }
            Some('"') => {
                let name = self.scanner.quoted('"')?;
                self.user_type(name)
            }
            _ => {
                let word = self.word()?;
                if self.scanner.peek() == Some('<') {
                    return self.parametric(&word);
                }
                match SIMPLE.iter().find(|(name, _)| **name == word) {
                    Some((_, ty)) if self.scanner.peek() != Some('.') => Ok(ty.clone()),
                    _ => self.user_type(word),
                }
            }
        }
    }

    fn word(&mut self) -> Result<String, TypeParseError> {
        let word = self.scanner.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if word.is_empty() {
            return Err(self.scanner.error("expected a type"));
        }
        Ok(word.to_ascii_lowercase())
    }

    fn parametric(&mut self, name: &str) -> Result<CqlType, TypeParseError> {
        self.scanner.expect('<')?;
        let ty = match name {
            "frozen" => self.parameter()?.freeze(),
            "list" => CqlType::List { element: Arc::new(self.parameter()?), frozen: false },
            "set" => CqlType::Set { element: Arc::new(self.parameter()?), frozen: false },
            "map" => {
                let key = Arc::new(self.parameter()?);
                self.scanner.expect(',')?;
                CqlType::Map { key, value: Arc::new(self.parameter()?), frozen: false }
            }
            "tuple" => {
                let mut types = vec![self.parameter()?.freeze()];
                while self.scanner.accept(',') {
                    types.push(self.parameter()?.freeze());
                }
                CqlType::Tuple(types.into())
            }
            "vector" => {
                let element = Arc::new(self.parameter()?.freeze());
                self.scanner.expect(',')?;
                let dimension = self.scanner.dimension()?;
                self.scanner.vector(element, dimension)?
            }
            _ => return Err(self.scanner.error(format!("'{name}' takes no parameters"))),
        };
        self.scanner.expect('>')?;
        Ok(ty)
    }

    fn parameter(&mut self) -> Result<CqlType, TypeParseError> {
        self.scanner.enter()?;
        let parsed = self.parse()?;
        self.scanner.leave();
        Ok(parsed)
    }

    fn user_type(&mut self, first: String) -> Result<CqlType, TypeParseError> {
        let mut name = first;
        if self.scanner.accept('.') {
            if name != self.keyspace {
                let reason =
                    format!("a type of keyspace '{name}' cannot be used in '{}'", self.keyspace);
                return Err(self.scanner.error(reason));
            }
            name = match self.scanner.peek() {
                Some('"') => self.scanner.quoted('"')?,
                _ => self.word()?,
            };
        }
        match (self.resolve)(&name) {
            Some(definition) => Ok(CqlType::UserDefined { definition, frozen: false }),
            None => {
                let reason = format!("unknown type '{}.{name}'", self.keyspace);
                Err(self.scanner.error(reason))
            }
        }
    }
}
