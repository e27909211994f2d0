//! Reads and prints marshal names: the Java classes of Cassandra, as in SSTable headers and the
//! native protocol's custom types.
//!
//! The names print as in Cassandra: inside a frozen type, `FrozenType` is left out, because
//! everything there is frozen.

use std::fmt::Write;
use std::sync::Arc;

use crate::type_name::scanner::Scanner;
use crate::{CqlType, TypeParseError, UserType};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// The classes without parameters that have a CQL name.
const SIMPLE: [(&str, CqlType); 21] = [
    ("AsciiType", CqlType::Ascii),
    ("BooleanType", CqlType::Boolean),
    ("ByteType", CqlType::Tinyint),
    ("BytesType", CqlType::Blob),
    ("CounterColumnType", CqlType::Counter),
    ("DecimalType", CqlType::Decimal),
    ("DoubleType", CqlType::Double),
    ("DurationType", CqlType::Duration),
    ("EmptyType", CqlType::Empty),
    ("FloatType", CqlType::Float),
    ("InetAddressType", CqlType::Inet),
    ("Int32Type", CqlType::Int),
    ("IntegerType", CqlType::Varint),
    ("LongType", CqlType::Bigint),
    ("ShortType", CqlType::Smallint),
    ("SimpleDateType", CqlType::Date),
    ("TimeType", CqlType::Time),
    ("TimestampType", CqlType::Timestamp),
    ("TimeUUIDType", CqlType::Timeuuid),
    ("UTF8Type", CqlType::Text),
    ("UUIDType", CqlType::Uuid),
];

impl CqlType {
    /// Returns the full marshal name.
    pub fn marshal_name(&self) -> String {
        let mut out = String::new();
        self.print_marshal(false, &mut out);
        out
    }

    fn print_marshal(&self, inside_frozen: bool, out: &mut String) {
        let frozen = !inside_frozen
            && !self.is_multi_cell()
            && (self.is_collection() || matches!(self, Self::UserDefined { .. }));
        if frozen {
            out.push_str(PACKAGE);
            out.push_str("FrozenType(");
        }
        if !matches!(self, Self::Custom(_)) {
            out.push_str(PACKAGE);
        }
        let inner = inside_frozen || frozen;
        match self {
            Self::List { element, .. } => print_types("ListType", [&**element], inner, out),
            Self::Set { element, .. } => print_types("SetType", [&**element], inner, out),
            Self::Map { key, value, .. } => print_types("MapType", [&**key, &**value], inner, out),
            Self::Tuple(types) => print_types("TupleType", types.iter(), true, out),
            Self::Composite(types) => print_types("CompositeType", types.iter(), inner, out),
            Self::Vector { element, dimension } => {
                out.push_str("VectorType(");
                element.print_marshal(inner, out);
                let _ = write!(out, " , {dimension})");
            }
            Self::UserDefined { definition, .. } => {
                let _ = write!(out, "UserType({},", definition.keyspace);
                print_hex(&definition.name, out);
                for (name, ty) in &definition.fields {
                    out.push(',');
                    print_hex(name, out);
                    out.push(':');
                    ty.print_marshal(inner, out);
                }
                out.push(')');
            }
            Self::Custom(name) => out.push_str(name),
            simple => {
                let name = SIMPLE.iter().find(|(_, ty)| ty == simple).map_or("", |(name, _)| name);
                out.push_str(name);
            }
        }
        if frozen {
            out.push(')');
        }
    }

    /// Reads a marshal name.
    ///
    /// Classes of Cassandra's package may omit the package, and blanks are ignored. A class without
    /// a CQL name becomes [`CqlType::Custom`], with its parameters. Collections and UDTs are
    /// multi-cell unless `FrozenType` surrounds them or they are nested in a collection, tuple or
    /// vector, where ScyllaDB used to leave out `FrozenType`.
    ///
    /// # Errors
    ///
    /// Returns an error for a wrong syntax, for a type beyond the limits of nesting or of vectors,
    /// and for `ReversedType`, which is not a type of values (see
    /// [`CqlType::parse_marshal_maybe_reversed`]).
    pub fn parse_marshal(text: &str) -> Result<Self, TypeParseError> {
        match Self::parse_marshal_maybe_reversed(text)? {
            (ty, false) => Ok(ty),
            (_, true) => Err(Scanner::new(text).error("a reversed type is not allowed here")),
        }
    }

    /// Reads the marshal name of a clustering column's type. The flag says whether the column is
    /// reversed (`ReversedType(...)`).
    ///
    /// # Errors
    ///
    /// Returns an error for a wrong syntax, and for a type beyond the limits of nesting or of
    /// vectors.
    pub fn parse_marshal_maybe_reversed(text: &str) -> Result<(Self, bool), TypeParseError> {
        let mut scanner = Scanner::new(text);
        let parsed = match class(&mut scanner)? {
            "ReversedType" => {
                scanner.expect('(')?;
                let ty = parse(&mut scanner)?;
                scanner.expect(')')?;
                (ty, true)
            }
            name => (parse_class(&mut scanner, name, 0)?, false),
        };
        scanner.expect_end()?;
        Ok(parsed)
    }
}

fn print_types<'t>(
    name: &str,
    types: impl IntoIterator<Item = &'t CqlType>,
    inside_frozen: bool,
    out: &mut String,
) {
    out.push_str(name);
    for (index, ty) in types.into_iter().enumerate() {
        out.push(if index == 0 { '(' } else { ',' });
        ty.print_marshal(inside_frozen, out);
    }
    out.push(')');
}

fn print_hex(name: &str, out: &mut String) {
    for byte in name.bytes() {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Reads a class name, without Cassandra's package.
fn class<'a>(scanner: &mut Scanner<'a>) -> Result<&'a str, TypeParseError> {
    let name = scanner.word(|c| c.is_ascii_alphanumeric() || "_.$-+".contains(c));
    if name.is_empty() {
        return Err(scanner.error("expected the name of a class"));
    }
    Ok(name.strip_prefix(PACKAGE).unwrap_or(name))
}

fn parse(scanner: &mut Scanner<'_>) -> Result<CqlType, TypeParseError> {
    scanner.skip_blanks();
    let start = scanner.at();
    scanner.enter()?;
    let name = class(scanner)?;
    let ty = parse_class(scanner, name, start)?;
    scanner.leave();
    Ok(ty)
}

/// Reads the parameters of class `name`, which began at `start`.
fn parse_class(
    scanner: &mut Scanner<'_>,
    name: &str,
    start: usize,
) -> Result<CqlType, TypeParseError> {
    if let Some((_, ty)) = SIMPLE.iter().find(|(simple, _)| *simple == name) {
        return Ok(ty.clone());
    }
    match name {
        "FrozenType" => Ok(one(scanner)?.freeze()),
        "ListType" => {
            Ok(CqlType::List { element: Arc::new(one(scanner)?.freeze()), frozen: false })
        }
        "SetType" => Ok(CqlType::Set { element: Arc::new(one(scanner)?.freeze()), frozen: false }),
        "MapType" => {
            scanner.expect('(')?;
            let key = Arc::new(parse(scanner)?.freeze());
            scanner.expect(',')?;
            let value = Arc::new(parse(scanner)?.freeze());
            scanner.expect(')')?;
            Ok(CqlType::Map { key, value, frozen: false })
        }
        "TupleType" => Ok(CqlType::Tuple(many(scanner)?.iter().map(CqlType::freeze).collect())),
        "CompositeType" => Ok(CqlType::Composite(many(scanner)?.into())),
        "VectorType" => {
            scanner.expect('(')?;
            let element = Arc::new(parse(scanner)?.freeze());
            scanner.expect(',')?;
            scanner.skip_blanks();
            let dimension = scanner.dimension()?;
            scanner.expect(')')?;
            scanner.vector(element, dimension)
        }
        "UserType" => user_type(scanner),
        "ReversedType" => Err(scanner.error("a reversed type is not allowed here")),
        _ => custom(scanner, name, start),
    }
}

fn one(scanner: &mut Scanner<'_>) -> Result<CqlType, TypeParseError> {
    scanner.expect('(')?;
    let ty = parse(scanner)?;
    scanner.expect(')')?;
    Ok(ty)
}

fn many(scanner: &mut Scanner<'_>) -> Result<Vec<CqlType>, TypeParseError> {
    scanner.expect('(')?;
    let mut types = vec![parse(scanner)?];
    while scanner.accept(',') {
        types.push(parse(scanner)?);
    }
    scanner.expect(')')?;
    Ok(types)
}

/// Reads `(keyspace,hexname,hexfield:type,...)`.
fn user_type(scanner: &mut Scanner<'_>) -> Result<CqlType, TypeParseError> {
    scanner.expect('(')?;
    let keyspace = scanner.word(|c| c.is_ascii_alphanumeric() || c == '_').to_owned();
    scanner.expect(',')?;
    let name = hex_text(scanner)?;
    let mut fields = Vec::new();
    while scanner.accept(',') {
        let field = hex_text(scanner)?;
        scanner.expect(':')?;
        fields.push((field, parse(scanner)?));
    }
    scanner.expect(')')?;
    let definition = Arc::new(UserType { keyspace, name, fields });
    Ok(CqlType::UserDefined { definition, frozen: false })
}

fn hex_text(scanner: &mut Scanner<'_>) -> Result<String, TypeParseError> {
    let hex = scanner.word(|c| c.is_ascii_alphanumeric());
    let digits: Option<Vec<u32>> = hex.chars().map(|digit| digit.to_digit(16)).collect();
    digits
        .filter(|digits| digits.len() % 2 == 0)
        .map(|digits| digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| scanner.error(format!("'{hex}' is not a name in hex digits")))
}

/// Reads the parameters of a class without a CQL name, and keeps the text of the class.
fn custom(scanner: &mut Scanner<'_>, name: &str, start: usize) -> Result<CqlType, TypeParseError> {
    if scanner.peek() == Some('(') {
        let mut depth = 0usize;
        loop {
            scanner.word(|c| c != '(' && c != ')');
            if scanner.accept('(') {
                depth += 1;
            } else {
                scanner.expect(')')?;
                depth -= 1;
            }
            if depth == 0 {
                break;
            }
        }
    }
    let text = scanner.since(start);
    let full = if name.contains('.') || text.starts_with(PACKAGE) {
        text.to_owned()
    } else {
        format!("{PACKAGE}{text}")
    };
    Ok(CqlType::Custom(full.into()))
}
