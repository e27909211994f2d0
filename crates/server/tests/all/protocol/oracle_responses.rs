//! Converts our responses to the types of the reference implementation.

use cassandra_protocol::frame::message_result::{
    CTuple, CUdt, ColSpec, ColType, ColTypeOption, ColTypeOptionValue, TableSpec,
};
use espalier_server::protocol::ProtocolVersion;
use espalier_types::CqlType;

/// A column: keyspace, table, name, type.
pub type Column = (String, String, String, CqlType);

pub fn table_spec(column: &Column) -> TableSpec {
    TableSpec { ks_name: column.0.clone(), table_name: column.1.clone() }
}

/// Returns the table of all columns, if they share one.
pub fn global_table(columns: &[Column]) -> Option<TableSpec> {
    let first = columns.first()?;
    columns.iter().all(|column| table_spec(column) == table_spec(first)).then(|| table_spec(first))
}

pub fn columns(version: ProtocolVersion, columns: &[Column]) -> Vec<ColSpec> {
    let global = global_table(columns).is_some();
    let spec = |column: &Column| ColSpec {
        table_spec: (!global).then(|| table_spec(column)),
        name: column.2.clone(),
        col_type: type_option(version, &column.3),
    };
    columns.iter().map(spec).collect()
}

fn type_option(version: ProtocolVersion, cql_type: &CqlType) -> ColTypeOption {
    let inner = |cql_type| Box::new(type_option(version, cql_type));
    let all = |elements: &mut dyn Iterator<Item = &CqlType>| {
        elements.map(|element| type_option(version, element)).collect::<Vec<_>>()
    };
    let (id, value) = match cql_type {
        CqlType::Ascii => (ColType::Ascii, None),
        CqlType::Bigint => (ColType::Bigint, None),
        CqlType::Blob => (ColType::Blob, None),
        CqlType::Boolean => (ColType::Boolean, None),
        CqlType::Counter => (ColType::Counter, None),
        CqlType::Date => (ColType::Date, None),
        CqlType::Decimal => (ColType::Decimal, None),
        CqlType::Double => (ColType::Double, None),
        CqlType::Duration if version == ProtocolVersion::V5 => (ColType::Duration, None),
        CqlType::Duration => {
            let name = "org.apache.cassandra.db.marshal.DurationType".to_owned();
            (ColType::Custom, Some(ColTypeOptionValue::CString(name)))
        }
        CqlType::Float => (ColType::Float, None),
        CqlType::Inet => (ColType::Inet, None),
        CqlType::Int => (ColType::Int, None),
        CqlType::Smallint => (ColType::Smallint, None),
        CqlType::Text => (ColType::Varchar, None),
        CqlType::Time => (ColType::Time, None),
        CqlType::Timestamp => (ColType::Timestamp, None),
        CqlType::Timeuuid => (ColType::Timeuuid, None),
        CqlType::Tinyint => (ColType::Tinyint, None),
        CqlType::Uuid => (ColType::Uuid, None),
        CqlType::Varint => (ColType::Varint, None),
        CqlType::List { element, .. } => {
            (ColType::List, Some(ColTypeOptionValue::CList(inner(element))))
        }
        CqlType::Set { element, .. } => {
            (ColType::Set, Some(ColTypeOptionValue::CSet(inner(element))))
        }
        CqlType::Map { key, value, .. } => {
            (ColType::Map, Some(ColTypeOptionValue::CMap(inner(key), inner(value))))
        }
        CqlType::Tuple(elements) => {
            let types = all(&mut elements.iter());
            (ColType::Tuple, Some(ColTypeOptionValue::TupleType(CTuple { types })))
        }
        CqlType::UserDefined { definition, .. } => {
            let types = all(&mut definition.fields.iter().map(|(_, field)| field));
            let names = definition.fields.iter().map(|(name, _)| name.clone());
            let udt = CUdt {
                ks: definition.keyspace.clone(),
                udt_name: definition.name.clone(),
                descriptions: names.zip(types).collect(),
            };
            (ColType::Udt, Some(ColTypeOptionValue::UdtType(udt)))
        }
        CqlType::Vector { dimension, .. } => {
            let package = "org.apache.cassandra.db.marshal";
            let name = format!("{package}.VectorType({package}.FloatType , {dimension})");
            (ColType::Custom, Some(ColTypeOptionValue::CString(name)))
        }
        CqlType::Custom(name) => {
            (ColType::Custom, Some(ColTypeOptionValue::CString(name.to_string())))
        }
        CqlType::Empty | CqlType::Composite(_) => panic!("not a column's type"),
    };
    ColTypeOption { id, value }
}
