//! Decides whether values that were written as one type can be read as another. This covers every
//! change of a column's type by ALTER TABLE and ALTER TYPE, in any version of Cassandra, that left
//! the files as they were. Format: docs/formats/data.md, and `isValueCompatibleWith` of Cassandra's
//! types.
//!
//! Files lose `frozen` inside frozen types (docs/formats/statistics.md), and a user type may have
//! another name or keyspace in the table than in the file. So the comparison ignores `frozen`,
//! names and keyspaces. The caller compares whether a column holds one cell or many.

use espalier_types::CqlType;

/// Returns whether values of `written` are also values of `read`.
pub fn reads_values_of(read: &CqlType, written: &CqlType) -> bool {
    use CqlType::{
        Bigint, Blob, Composite, Custom, Date, Int, List, Map, Set, Time, Timestamp, Tuple,
        UserDefined, Uuid, Varint, Vector,
    };
    match (read, written) {
        (Blob, _) | (Varint, Int | Bigint) | (Bigint, Timestamp) => true,
        (Timestamp | Time, Bigint) | (Date, Int) => true,
        (Bigint | Timestamp, Custom(_)) => written.is_legacy_timestamp(),
        (Custom(_), Bigint | Timestamp) => read.is_legacy_timestamp(),
        (Uuid, CqlType::Timeuuid) => true,
        (Uuid, Custom(_)) => written.is_lexical_uuid(),
        (List { element: read, .. }, List { element: written, .. }) => {
            reads_values_of(read, written)
        }
        (Set { element: read, .. }, Set { element: written, .. }) => sorts_as(read, written),
        (Map { key: read, value, .. }, Map { key: written, value: value_written, .. }) => {
            sorts_as(read, written) && reads_values_of(value, value_written)
        }
        // Cassandra adds fields only at the end.
        (Tuple(read), Tuple(written)) => all_read(read.iter(), written.iter()),
        (Composite(read), Composite(written)) => {
            read.len() == written.len() && all_read(read.iter(), written.iter())
        }
        (UserDefined { definition: read, .. }, UserDefined { definition: written, .. }) => {
            all_read(read.field_types(), written.field_types())
        }
        // The schema keeps the user types of a dropped column as tuples of their fields.
        (Tuple(read), UserDefined { definition, .. }) => {
            all_read(read.iter(), definition.field_types())
        }
        (UserDefined { definition, .. }, Tuple(written)) => {
            all_read(definition.field_types(), written.iter())
        }
        (
            Vector { element: read, dimension },
            Vector { element: written, dimension: dimension_written },
        ) => dimension == dimension_written && reads_values_of(read, written),
        _ => sorts_as_scalar(read, written),
    }
}

/// Returns whether values of `written` are also values of `read` and both types order them equally.
/// A search by order needs both.
pub(crate) fn sorts_as(read: &CqlType, written: &CqlType) -> bool {
    use CqlType::{Ascii, Bigint, Blob, Custom, Date, Int, Text, Time, Timestamp, Uuid, Varint};
    match (read, written) {
        (Blob, Text | Ascii) => true,
        (Blob, _) => read == written,
        // These types order values differently, or have another width in byte-comparable form.
        (Uuid, CqlType::Timeuuid | Custom(_)) | (Varint, Int | Bigint) | (Date, Int) => false,
        (Bigint | Timestamp | Time, Bigint | Timestamp | Custom(_)) => read == written,
        (Custom(_), Bigint | Timestamp) => false,
        _ => reads_values_of(read, written),
    }
}

fn sorts_as_scalar(read: &CqlType, written: &CqlType) -> bool {
    read == written || matches!((read, written), (CqlType::Text, CqlType::Ascii))
}

fn all_read<'a>(
    mut read: impl Iterator<Item = &'a CqlType>,
    mut written: impl Iterator<Item = &'a CqlType>,
) -> bool {
    written.all(|written| read.next().is_some_and(|read| reads_values_of(read, written)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn parse(name: &str) -> CqlType {
        CqlType::parse_marshal(name).unwrap()
    }

    #[test]
    fn altered_types_read_values_of_their_former_types() {
        for (read, written) in [
            ("BytesType", "Int32Type"),
            ("BytesType", "ListType(Int32Type)"),
            ("UTF8Type", "AsciiType"),
            ("IntegerType", "Int32Type"),
            ("IntegerType", "LongType"),
            ("UUIDType", "TimeUUIDType"),
            ("TimestampType", "DateType"),
            ("ListType(UTF8Type)", "ListType(AsciiType)"),
            ("MapType(UTF8Type,BytesType)", "MapType(AsciiType,Int32Type)"),
            ("TupleType(Int32Type,UTF8Type)", "TupleType(Int32Type)"),
            (
                "FrozenType(ListType(FrozenType(SetType(Int32Type))))",
                "ListType(SetType(Int32Type))",
            ),
        ] {
            assert!(reads_values_of(&parse(read), &parse(written)), "{read} of {written}");
            if read != "FrozenType(ListType(FrozenType(SetType(Int32Type))))" {
                assert!(!reads_values_of(&parse(written), &parse(read)) || read == "TimestampType");
            }
        }
    }

    #[test]
    fn incompatible_types_do_not_read_each_others_values() {
        for (read, written) in [
            ("Int32Type", "UTF8Type"),
            ("UTF8Type", "Int32Type"),
            ("AsciiType", "UTF8Type"),
            ("UTF8Type", "BytesType"),
            ("Int32Type", "LongType"),
            ("LongType", "Int32Type"),
            ("LongType", "CounterColumnType"),
            ("TimeUUIDType", "UUIDType"),
            ("DoubleType", "FloatType"),
            ("SetType(UUIDType)", "SetType(TimeUUIDType)"),
            ("MapType(IntegerType,UTF8Type)", "MapType(Int32Type,UTF8Type)"),
            ("ListType(Int32Type)", "SetType(Int32Type)"),
            ("TupleType(Int32Type)", "TupleType(Int32Type,UTF8Type)"),
            ("VectorType(FloatType , 2)", "VectorType(FloatType , 3)"),
        ] {
            assert!(!reads_values_of(&parse(read), &parse(written)), "{read} of {written}");
        }
    }

    #[test]
    fn fields_of_a_user_type_are_added_and_renamed() {
        let of = |names: &[(&str, CqlType)]| CqlType::UserDefined {
            definition: Arc::new(espalier_types::UserType {
                keyspace: "k".into(),
                name: "t".into(),
                fields: names.iter().map(|(name, ty)| ((*name).into(), ty.clone())).collect(),
            }),
            frozen: true,
        };
        let old = of(&[("a", CqlType::Int)]);
        let new = of(&[("renamed", CqlType::Int), ("b", CqlType::Text)]);
        assert!(reads_values_of(&new, &old) && !reads_values_of(&old, &new));
        assert!(!reads_values_of(&of(&[("a", CqlType::Text)]), &old));
    }

    #[test]
    fn order_asks_for_more() {
        assert!(sorts_as(&CqlType::Text, &CqlType::Ascii));
        assert!(sorts_as(&CqlType::Blob, &CqlType::Text));
        assert!(!sorts_as(&CqlType::Blob, &CqlType::Int));
        assert!(!sorts_as(&CqlType::Varint, &CqlType::Int));
        assert!(!sorts_as(&CqlType::Timestamp, &CqlType::Bigint));
        assert!(sorts_as(&CqlType::Timestamp, &CqlType::Timestamp));
    }
}
