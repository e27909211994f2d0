//! Parses `--key` and `--slice` to keys and clusterings.

use std::sync::Arc;

use bytes::Bytes;
use espalier_cql::offline::{SelectedPartitions, plan_where};
use espalier_mutation::schema::{ColumnDefinition, TableMetadata};
use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringSlice, ClusteringSlices, DecoratedKey, KeyRange,
    build_composite,
};
use espalier_types::CqlType;
use espalier_types::literal::{FieldCount, Json, from_json_value, from_text, parse_json};

use super::{ToolError, arguments::DumpArguments, output::counted, values::from_field};

/// The part of an SSTable to print.
pub struct Selection {
    pub partitions: SelectedPartitions,
    pub slices: Arc<ClusteringSlices>,
}

impl Selection {
    /// Applies the arguments to this table. `is_unnamed` is true if the names of the table's key
    /// columns are invented.
    ///
    /// # Errors
    /// Fails if a key or slice does not fit the table, or if both select partitions.
    pub fn plan(
        table: &Arc<TableMetadata>,
        is_unnamed: bool,
        arguments: &DumpArguments,
    ) -> Result<Self, ToolError> {
        let mut partitions = SelectedPartitions::Range(KeyRange::full());
        let mut slices = ClusteringSlices::all();
        if let Some(slice) = &arguments.slice {
            let wrong = |reason| ToolError::Argument {
                name: "slice",
                reason: format!("'{slice}': {reason}"),
            };
            if is_condition(slice) {
                let selected = plan_where(table, slice)
                    .map_err(|error| wrong(hint(table, is_unnamed, error)))?;
                (partitions, slices) = (selected.partitions, selected.slices);
            } else {
                slices = parse_range(table, slice).map_err(wrong)?;
            }
        }
        if !arguments.key.is_empty() {
            if partitions != SelectedPartitions::Range(KeyRange::full()) {
                let reason = "it selects partitions too; leave out --key".to_owned();
                return Err(ToolError::Argument { name: "slice", reason });
            }
            let keys = arguments
                .key
                .iter()
                .map(|text| parse_key(table, text).map_err(|reason| format!("'{text}': {reason}")));
            let keys = keys
                .collect::<Result<Vec<_>, _>>()
                .map_err(|reason| ToolError::Argument { name: "key", reason })?;
            partitions = SelectedPartitions::Keys(keys);
        }
        if let SelectedPartitions::Keys(keys) = &mut partitions {
            keys.sort();
            keys.dedup();
        }
        Ok(Self { partitions, slices: Arc::new(slices) })
    }
}

fn hint(table: &TableMetadata, is_unnamed: bool, error: espalier_cql::Error) -> String {
    let names: Vec<_> = table.clustering_columns().iter().map(|c| c.name.as_str()).collect();
    let columns = if names.is_empty() {
        "this table has no clustering columns".to_owned()
    } else {
        format!("the clustering columns are {}", names.join(", "))
    };
    if is_unnamed {
        format!(
            "{error} ({columns}; files do not have the names of the key's columns: --schema FILE gives them)"
        )
    } else {
        format!("{error} ({columns})")
    }
}

fn is_condition(text: &str) -> bool {
    let words = || text.split_ascii_whitespace();
    text.contains(['<', '>', '=']) || words().any(|word| word.eq_ignore_ascii_case("in"))
}

/// Parses a partition key.
fn parse_key(table: &TableMetadata, text: &str) -> Result<DecoratedKey, String> {
    let columns = table.partition_key_columns();
    let key = match (columns, text.strip_prefix("0x")) {
        (_, Some(digits)) => {
            from_text(&CqlType::Blob, digits).map_err(|error| error.to_string())?
        }
        ([column], None) => parse_value(column, text)?,
        (columns, None) => {
            let values = parse_values(columns, text)?;
            if values.len() != columns.len() {
                let names: Vec<_> = columns.iter().map(|c| c.name.as_str()).collect();
                return Err(format!(
                    "{} where the partition key has {}: {}; if a value has a colon inside, write a JSON array",
                    counted(values.len() as u64, "value"),
                    columns.len(),
                    names.join(", ")
                ));
            }
            build_composite(&values)
        }
    };
    match key.len() {
        1..=65_535 => Ok(DecoratedKey::new(key)),
        length => Err(format!("the key has {length} bytes; it must have 1 to 65535")),
    }
}

/// Parses `a:b` or a JSON array. There may be fewer values than columns. If there are more, one
/// value too many is returned, so that the caller reports the fault.
fn parse_values(columns: &[ColumnDefinition], text: &str) -> Result<Vec<Bytes>, String> {
    if let Ok(Json::Array(items)) = parse_json(text)
        && columns.len() >= items.len()
    {
        let values = columns.iter().zip(&items).map(|(column, item)| {
            let fields = &mut FieldCount::default();
            let value = from_json_value(&column.column_type, item, fields);
            let value = value.map_err(|error| format!("{}: {error}", column.name))?;
            value.ok_or_else(|| format!("{}: null", column.name))
        });
        return values.collect();
    }
    if columns.len() == 1 {
        return Ok(vec![parse_value(&columns[0], text)?]);
    }
    let mut parts = split_at_colons(text);
    if parts.len() > columns.len() {
        parts.truncate(columns.len() + 1);
        return Ok(parts.into_iter().map(Bytes::from).collect());
    }
    columns.iter().zip(&parts).map(|(column, part)| parse_value(column, part)).collect()
}

/// Splits a text at colons, except those after a backslash, as in Cassandra's tools.
fn split_at_colons(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let last = parts.len() - 1;
        match character {
            '\\' if characters.next_if_eq(&':').is_some() => parts[last].push(':'),
            ':' => parts.push(String::new()),
            other => parts[last].push(other),
        }
    }
    parts
}

/// Parses a value written as in a field of CSV, or as a CQL string.
fn parse_value(column: &ColumnDefinition, text: &str) -> Result<Bytes, String> {
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    let plain = quoted.map_or_else(|| text.to_owned(), |inside| inside.replace("''", "'"));
    let value = from_field(&column.column_type, &plain);
    let value = value.map_err(|error| format!("{}: {error}", column.name))?;
    value.ok_or_else(|| format!("{}: null", column.name))
}

/// Parses `FROM..TO`, `FROM..`, `..TO`, or one prefix; each has one value or more.
fn parse_range(table: &TableMetadata, text: &str) -> Result<ClusteringSlices, String> {
    let columns = table.clustering_columns();
    if columns.is_empty() {
        return Err("this table has no clustering columns".to_owned());
    }
    let prefix = |text: &str| -> Result<Box<[Option<Bytes>]>, String> {
        if text.is_empty() {
            return Ok(Box::default());
        }
        let values = parse_values(columns, text)?;
        if values.len() > columns.len() {
            Err(format!("more than {} values", columns.len()))
        } else {
            Ok(values.into_iter().map(Some).collect())
        }
    };
    let slice = match text.split_once("..") {
        None => ClusteringSlice::prefix(prefix(text)?),
        Some((from, to)) => ClusteringSlice {
            start: ClusteringBound { kind: BoundKind::InclusiveStart, values: prefix(from)? },
            end: ClusteringBound { kind: BoundKind::InclusiveEnd, values: prefix(to)? },
        },
    };
    let slices = ClusteringSlices::normalise(vec![slice], table.comparator());
    if slices.slices.is_empty() {
        Err(format!("FROM comes after TO in the order of the file, which is {}", order(columns)))
    } else {
        Ok(slices)
    }
}

/// Formats the clustering order, as in `at DESC, seq ASC`.
fn order(columns: &[ColumnDefinition]) -> String {
    let direction = |column: &ColumnDefinition| if column.reversed { "DESC" } else { "ASC" };
    let columns = columns.iter().map(|column| format!("{} {}", column.name, direction(column)));
    columns.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use espalier_mutation::schema::{TableBuilder, TableId};

    use super::*;

    fn table() -> Arc<TableMetadata> {
        let id = TableId(espalier_runtime::random::uuid_v4());
        let builder = TableBuilder::new("k", "t", id)
            .partition_key("a", CqlType::Int)
            .partition_key("b", CqlType::Text)
            .clustering("c", CqlType::Int, false)
            .clustering("d", CqlType::Text, true);
        Arc::new(builder.build())
    }

    fn key(value: i32, text: &str) -> DecoratedKey {
        let parts = [value.to_be_bytes().to_vec(), text.as_bytes().to_vec()];
        DecoratedKey::new(build_composite(&parts))
    }

    #[test]
    fn keys_of_several_columns() {
        let table = table();
        assert_eq!(parse_key(&table, "5:x"), Ok(key(5, "x")));
        assert_eq!(parse_key(&table, "5:'it''s'"), Ok(key(5, "it's")));
        assert_eq!(parse_key(&table, "5:x\\:y"), Ok(key(5, "x:y")));
        assert_eq!(parse_key(&table, "[5,\"x:y\"]"), Ok(key(5, "x:y")));
        assert_eq!(parse_key(&table, "0x0004000000050000017800"), Ok(key(5, "x")));
        for wrong in ["5", "5:x:y", "x:5", "[5]", "0xzz", ""] {
            assert!(parse_key(&table, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_are_inclusive_and_may_be_open() {
        let table = table();
        let one = |text: &str| parse_range(&table, text).unwrap().slices.remove(0);
        assert!(one("5..").end.is_unbounded());
        assert!(one("..5:x").start.is_unbounded());
        assert_eq!(one("..5:x").end.values.len(), 2);
        assert_eq!(one("5").start.values, one("5").end.values);
        let error = parse_range(&table, "9..5").unwrap_err();
        assert_eq!(error, "FROM comes after TO in the order of the file, which is c ASC, d DESC");
        assert!(parse_range(&table, "5:b..5:a").is_ok());
        assert!(parse_range(&table, "x..").is_err());
    }
}
