//! `nodetool compactionhistory`: shows the rows of `system.compaction_history`.

use espalier_types::literal::print_timestamp;
use serde_json::Value;

use super::show::{all, columns, number, text};

const HEAD: [&str; 8] = [
    "id",
    "keyspace_name",
    "columnfamily_name",
    "compacted_at",
    "bytes_in",
    "bytes_out",
    "rows_merged",
    "compaction_properties",
];

/// Formats the compactions in the node's order, the newest first.
pub fn show(history: &Value) -> String {
    let lines: Vec<Vec<String>> = all(history).map(line).collect();
    let shown = if lines.is_empty() {
        "There is no compaction history".to_owned()
    } else {
        columns(&HEAD, &lines, " ")
    };
    format!("Compaction History: \n{shown}")
}

fn line(past: &Value) -> Vec<String> {
    vec![
        text(past, "id").to_owned(),
        text(past, "ks").to_owned(),
        text(past, "cf").to_owned(),
        // In UTC, because the time zone of the operator is unknown.
        print_timestamp(past.get("compacted_at").and_then(Value::as_i64).unwrap_or_default()),
        number(past, "bytes_in").to_string(),
        number(past, "bytes_out").to_string(),
        map(past.get("rows_merged")),
        map(past.get("compaction_properties")),
    ]
}

/// Formats a map, as ScyllaDB's API sends it, in the notation of Java.
fn map(entries: Option<&Value>) -> String {
    let word = |entry: &Value, name: &str| match entry.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let entries = all(entries.unwrap_or(&Value::Null));
    let entries = entries.map(|entry| format!("{}:{}", word(entry, "key"), word(entry, "value")));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn compactions_are_shown_as_cassandra_shows_them() {
        let history = json!([{
            "id": "edde9300-5e9c-11ee-a8f6-7d85dcfeb8f4", "ks": "system", "cf": "peers", "compacted_at": 1_695_973_859_380_i64,
            "bytes_in": 11714, "bytes_out": 808, "rows_merged": [{"key": 1, "value": 3}, {"key": 2, "value": 10}],
            "compaction_properties": [{"key": "compaction_type", "value": "COMPACTION"}],
        }]);
        let expected = "\
Compaction History: \nid                                   keyspace_name columnfamily_name compacted_at             bytes_in bytes_out rows_merged compaction_properties
edde9300-5e9c-11ee-a8f6-7d85dcfeb8f4 system        peers             2023-09-29T07:50:59.380Z 11714    808       {1:3, 2:10} {compaction_type:COMPACTION}";
        assert_eq!(show(&history), expected);
        assert_eq!(show(&json!([])), "Compaction History: \nThere is no compaction history");
    }
}
