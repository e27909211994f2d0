//! Encodes the [option] that names a type in metadata.

use espalier_types::CqlType;

use super::super::version::ProtocolVersion;
use super::super::writer::WireWrite;

const CUSTOM: u16 = 0x0000;

/// Appends the [option] of `cql_type`. A type without a number in `version` is sent as CUSTOM with
/// the name of its marshal class, as in Cassandra, because drivers understand these names.
pub(super) fn encode(version: ProtocolVersion, cql_type: &CqlType, out: &mut Vec<u8>) {
    let simple = match cql_type {
        CqlType::Ascii => 0x0001,
        CqlType::Bigint => 0x0002,
        CqlType::Blob => 0x0003,
        CqlType::Boolean => 0x0004,
        CqlType::Counter => 0x0005,
        CqlType::Decimal => 0x0006,
        CqlType::Double => 0x0007,
        CqlType::Float => 0x0008,
        CqlType::Int => 0x0009,
        CqlType::Timestamp => 0x000B,
        CqlType::Uuid => 0x000C,
        CqlType::Text => 0x000D,
        CqlType::Varint => 0x000E,
        CqlType::Timeuuid => 0x000F,
        CqlType::Inet => 0x0010,
        CqlType::Date if version >= ProtocolVersion::V4 => 0x0011,
        CqlType::Time if version >= ProtocolVersion::V4 => 0x0012,
        CqlType::Smallint if version >= ProtocolVersion::V4 => 0x0013,
        CqlType::Tinyint if version >= ProtocolVersion::V4 => 0x0014,
        CqlType::Duration if version >= ProtocolVersion::V5 => 0x0015,
        CqlType::List { element, .. } => {
            out.put_u16(0x0020);
            return encode(version, element, out);
        }
        CqlType::Map { key, value, .. } => {
            out.put_u16(0x0021);
            encode(version, key, out);
            return encode(version, value, out);
        }
        CqlType::Set { element, .. } => {
            out.put_u16(0x0022);
            return encode(version, element, out);
        }
        CqlType::UserDefined { definition, .. } => {
            out.put_u16(0x0030);
            out.put_string(&definition.keyspace);
            out.put_string(&definition.name);
            out.put_u16(definition.fields.len() as u16);
            for (name, field) in &definition.fields {
                out.put_string(name);
                encode(version, field, out);
            }
            return;
        }
        CqlType::Tuple(elements) => {
            out.put_u16(0x0031);
            out.put_u16(elements.len() as u16);
            for element in elements.iter() {
                encode(version, element, out);
            }
            return;
        }
        CqlType::Date
        | CqlType::Time
        | CqlType::Smallint
        | CqlType::Tinyint
        | CqlType::Duration
        | CqlType::Empty
        | CqlType::Vector { .. }
        | CqlType::Composite(_)
        | CqlType::Custom(_) => {
            out.put_u16(CUSTOM);
            return out.put_string(&cql_type.marshal_name());
        }
    };
    out.put_u16(simple);
}
