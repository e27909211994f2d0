//! This module prints content in the form of Cassandra's `sstabledump`, as far as two prints can be
//! compared: times are numbers, and positions and facts that depend on the day are left out.
//!
//! The tool omits values that equal the row's liveness (timestamp, TTL). It prints keys and paths
//! as text, and values as JSON.

use espalier_mutation::{
    BoundKind, Cell, ColumnData, DeletionTime, Liveness, PartitionHeader, RangeTombstoneMarker,
    Row, Unfiltered,
    schema::{ColumnDefinition, TableMetadata},
    split_composite,
};
use espalier_sstable::dump::write_json;
use espalier_types::{
    CqlType,
    calendar::{CivilDate, days_from_civil},
    collection,
    literal::to_text,
};
use serde_json::{Map, Value, json};

/// A partition with all its rows and markers.
pub type Content = (PartitionHeader, Vec<Unfiltered>);

/// Compares content with the print of `sstabledump`.
pub fn assert_same_as_sstabledump(
    name: &str,
    table: &TableMetadata,
    content: &[Content],
    text: &str,
) {
    let expected: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(!expected.is_empty(), "{name}: the print is empty");
    assert_eq!(content.len(), expected.len(), "{name}: number of partitions");
    for (number, (ours, expected)) in content.iter().zip(expected).enumerate() {
        let (ours, expected) = (partition(table, ours), normalise(expected, None));
        if ours == expected {
            continue;
        }
        let rows = |value: &Value| value["rows"].as_array().cloned().unwrap_or_default();
        let differing = rows(&ours).into_iter().zip(rows(&expected)).find(|(a, b)| a != b);
        match differing {
            Some((a, b)) => {
                panic!("{name}, partition {number}\n    ours: {a}\nexpected: {b}")
            }
            None => panic!("{name}, partition {number}\n    ours: {ours}\nexpected: {expected}"),
        }
    }
}

/// Fields that are printed as an instant and compared in microseconds.
const INSTANTS: [&str; 4] = ["tstamp", "marked_deleted", "local_delete_time", "expires_at"];

/// Normalises the tool's print: removes positions and flags that depend on the day, and converts
/// instants to microseconds.
fn normalise(value: Value, field: Option<&str>) -> Value {
    match value {
        Value::Object(fields) => {
            let ignored = ["position", "expired", "table kind"];
            let is_kept = |name: &str, value: &Value| match name {
                // A column may have this name.
                "position" => !value.is_number(),
                _ => !ignored.contains(&name),
            };
            let fields = fields.into_iter().filter(|(name, value)| is_kept(name, value));
            fields
                .map(|(name, value)| {
                    let value = normalise(value, Some(&name));
                    (name, value)
                })
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => {
            items.into_iter().map(|item| normalise(item, None)).collect::<Vec<_>>().into()
        }
        Value::String(text) if field.is_some_and(|name| INSTANTS.contains(&name)) => {
            json!(micros(&text))
        }
        other => other,
    }
}

/// Parses `2018-05-03T22:11:47.816568Z` with any number of digits after the point, or microseconds.
fn micros(text: &str) -> i64 {
    if let Ok(number) = text.parse() {
        return number;
    }
    let (date, time) = text.trim_end_matches('Z').split_once('T').unwrap();
    let (year, day) = date.rsplit_once('-').unwrap();
    let (year, month) = year.rsplit_once('-').unwrap();
    let (year, month, day) = (year.parse().unwrap(), month.parse().unwrap(), day.parse().unwrap());
    let days = days_from_civil(CivilDate { year, month, day });
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.split(':').map(|part| part.parse::<i64>().unwrap());
    let mut seconds = 0;
    for _ in 0..3 {
        seconds = seconds * 60 + parts.next().unwrap_or(0);
    }
    let fraction: i64 = format!("{fraction:0<6}").parse().unwrap();
    (days * 86_400 + seconds) * 1_000_000 + fraction
}

fn seconds(seconds: u32) -> i64 {
    i64::from(seconds) * 1_000_000
}

fn partition(table: &TableMetadata, (header, unfiltereds): &Content) -> Value {
    let key = &header.key.key;
    let columns = table.partition_key_columns();
    let key: Vec<_> = match columns {
        [single] => vec![key_text(&single.column_type, key)],
        several => {
            let values = split_composite(key, several.len()).unwrap();
            several.iter().zip(&values).map(|(c, value)| key_text(&c.column_type, value)).collect()
        }
    };
    let mut partition = json!({ "key": key });
    if !header.deletion.is_live() {
        partition["deletion_info"] = deletion(header.deletion);
    }
    let mut rows = Vec::new();
    if let Some(row) = header.static_row.as_ref().filter(|row| !row.is_empty()) {
        rows.push(self::row(table, row, true));
    }
    rows.extend(unfiltereds.iter().map(|unfiltered| match unfiltered {
        Unfiltered::Row(row) => self::row(table, row, false),
        Unfiltered::Marker(at) => marker(table, at),
    }));
    json!({ "partition": partition, "rows": rows })
}

/// Prints a value as `getString` of its type does: blobs and collections in hex, tuples with
/// colons.
fn key_text(ty: &CqlType, value: &[u8]) -> String {
    match ty {
        CqlType::Blob | CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => {
            value.iter().map(|byte| format!("{byte:02x}")).collect()
        }
        CqlType::Tuple(types) => {
            let mut fields = collection::fields(value);
            let parts: Vec<_> = types
                .iter()
                .map(|ty| match fields.next().and_then(|field| field.unwrap()) {
                    Some(field) => key_text(ty, field).replace(':', "\\:").replace('@', "\\@"),
                    None => "@".into(),
                })
                .collect();
            parts.join(":")
        }
        _ => to_text(ty, value),
    }
}

fn value(ty: &CqlType, value: &[u8]) -> Value {
    if matches!(ty, CqlType::Counter) {
        // The tool prints the first eight bytes of the context as if they were the count.
        return json!(value.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes)));
    }
    let mut text = Vec::new();
    write_json(ty, value, &mut text);
    serde_json::from_slice(&text).unwrap()
}

fn deletion(deletion: DeletionTime) -> Value {
    json!({
        "marked_deleted": deletion.marked_for_delete_at,
        "local_delete_time": seconds(deletion.local_deletion_time),
    })
}

fn clustering(table: &TableMetadata, values: &[Option<bytes::Bytes>]) -> Vec<Value> {
    let columns = table.clustering_columns();
    columns
        .iter()
        .enumerate()
        .map(|(index, column)| match values.get(index) {
            Some(Some(bytes)) => value(&column.column_type, bytes),
            Some(None) => Value::Null,
            None => json!("*"),
        })
        .collect()
}

fn row(table: &TableMetadata, row: &Row, is_static: bool) -> Value {
    let mut shown = json!({ "type": if is_static { "static_block" } else { "row" } });
    if !row.clustering.values.is_empty() {
        shown["clustering"] = clustering(table, &row.clustering.values).into();
    }
    let live = &row.liveness;
    if !live.is_none() {
        shown["liveness_info"] = json!({ "tstamp": live.timestamp });
        if live.is_expiring() {
            shown["liveness_info"]["ttl"] = json!(live.ttl);
            shown["liveness_info"]["expires_at"] = json!(seconds(live.local_expiration));
        }
    }
    if !row.deletion.is_live() {
        shown["deletion_info"] = deletion(row.deletion);
    }
    let mut cells = Vec::new();
    for (id, data) in &row.columns {
        let column = table.column_by_id(*id).unwrap();
        match data {
            ColumnData::Simple(cell) => cells.push(self::cell(column, None, cell, live)),
            ColumnData::Complex(complex) => {
                if !complex.deletion.is_live() {
                    let reported = deletion(complex.deletion);
                    cells.push(json!({ "name": column.name, "deletion_info": reported }));
                }
                for (path, cell) in &complex.cells {
                    cells.push(self::cell(column, Some(path), cell, live));
                }
            }
        }
    }
    shown["cells"] = cells.into();
    shown
}

fn cell(column: &ColumnDefinition, path: Option<&[u8]>, cell: &Cell, live: &Liveness) -> Value {
    let mut shown = json!({ "name": column.name });
    let empty = CqlType::Empty;
    let (path_type, value_type) = match &column.column_type {
        CqlType::List { element, .. } if path.is_some() => (CqlType::Timeuuid, &**element),
        CqlType::Set { element, .. } if path.is_some() => ((**element).clone(), &empty),
        CqlType::Map { key, value, .. } if path.is_some() => ((**key).clone(), &**value),
        simple => (CqlType::Blob, simple),
    };
    let field = match (&column.column_type, path) {
        (CqlType::UserDefined { definition, .. }, Some([high, low])) => {
            definition.fields.get(usize::from(u16::from_be_bytes([*high, *low])))
        }
        _ => None,
    };
    if let Some(path) = path {
        let text = field.map_or_else(|| key_text(&path_type, path), |(name, _)| name.clone());
        shown["path"] = json!([text]);
    }
    if cell.is_tombstone() {
        shown["deletion_info"] = json!({ "local_delete_time": seconds(cell.local_deletion_time) });
    } else {
        let ty = field.map_or(value_type, |(_, ty)| ty);
        shown["value"] = match ty {
            CqlType::Empty => json!(""),
            ty => value(ty, &cell.value),
        };
    }
    if live.is_none() || cell.timestamp != live.timestamp {
        shown["tstamp"] = json!(cell.timestamp);
    }
    if cell.is_expiring() && (live.is_none() || cell.ttl != live.ttl) {
        shown["ttl"] = json!(cell.ttl);
        shown["expires_at"] = json!(seconds(cell.local_deletion_time));
    }
    shown
}

fn marker(table: &TableMetadata, marker: &RangeTombstoneMarker) -> Value {
    let kind = marker.position.kind;
    let bound = |is_start: bool, reported: DeletionTime| {
        let is_inclusive = match kind {
            BoundKind::ExclusiveEndInclusiveStart => is_start,
            BoundKind::InclusiveEndExclusiveStart => !is_start,
            other => matches!(other, BoundKind::InclusiveStart | BoundKind::InclusiveEnd),
        };
        let mut bound = json!({
            "type": if is_inclusive { "inclusive" } else { "exclusive" },
            "deletion_info": deletion(reported),
        });
        if !marker.position.values.is_empty() {
            bound["clustering"] = clustering(table, &marker.position.values).into();
        }
        bound
    };
    let name = if kind.is_boundary() { "boundary" } else { "bound" };
    let mut shown = json!({ "type": format!("range_tombstone_{name}") });
    if !marker.before.is_live() {
        shown["end"] = bound(false, marker.before);
    }
    if !marker.after.is_live() {
        shown["start"] = bound(true, marker.after);
    }
    shown
}
