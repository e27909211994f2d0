//! Describes a request for `system_traces.sessions`: names and keys are Cassandra's.
//!
//! Memory: long statements and values are cut, and parameters beyond [`MAX_BYTES`] are dropped.

use espalier_cql::ColumnSpec as BindColumn;
use espalier_cql::auth::obfuscate;
use espalier_types::literal::to_cql_literal;

use crate::connection::Connection;
use crate::protocol::Request;
use crate::protocol::request::{ParametersTail, QueryParameters, StatementRef, Value};

/// Maximum bytes of a statement.
const MAX_STATEMENT_BYTES: usize = 32 << 10;
/// Maximum bytes of a value, as in Cassandra.
const MAX_VALUE_BYTES: usize = 1000;
/// Maximum bytes of all parameters of a request.
const MAX_BYTES: usize = 128 << 10;

#[derive(Default)]
struct Parameters {
    entries: Vec<(String, String)>,
    bytes: usize,
}

/// Returns the name of a request, and its parameters.
pub(super) fn describe(
    connection: &Connection,
    request: &Request<'_>,
) -> (&'static str, Vec<(String, String)>) {
    let mut parameters = Parameters::default();
    let name = match request {
        Request::Query(query) => {
            parameters.statement("query", query.text);
            parameters.execution(&query.parameters);
            "Execute CQL3 query"
        }
        Request::Prepare(prepare) => {
            parameters.statement("query", prepare.text);
            "Preparing CQL3 query"
        }
        Request::Execute(execute) => {
            if let Some(prepared) = connection.server.processor.known(execute.id) {
                parameters.statement("query", &prepared.text);
                let value = |index| execute.parameters.values.get(index);
                let has_masks = |column: &BindColumn| has_masks(connection, column);
                parameters.variables(&prepared.bind.columns, value, has_masks);
            }
            parameters.execution(&execute.parameters);
            "Execute CQL3 prepared query"
        }
        Request::Batch(batch) => {
            parameters.put("consistency_level", batch.consistency.to_string());
            parameters.tail(&batch.tail);
            for (index, statement) in batch.statements.iter().enumerate() {
                let name = format!("query[{index}]");
                match statement.statement {
                    StatementRef::Text(text) => parameters.statement(&name, text),
                    StatementRef::Prepared(id) => {
                        if let Some(prepared) = connection.server.processor.known(id) {
                            parameters.statement(&name, &prepared.text);
                        }
                    }
                }
                if parameters.bytes >= MAX_BYTES {
                    break;
                }
            }
            "Execute batch of CQL3 queries"
        }
        _ => "",
    };
    (name, parameters.entries)
}

/// Returns whether the table of a bind marker has masks. A marker may belong to an element of a
/// column, or to several columns, so one mask hides all values of the table.
fn has_masks(connection: &Connection, marker: &BindColumn) -> bool {
    connection.server.processor.database().store().with_schema(|schema| {
        schema.table(&marker.keyspace, &marker.table).is_some_and(|table| table.has_masks())
    })
}

impl Parameters {
    fn put(&mut self, key: impl Into<String>, value: String) {
        let key = key.into();
        self.bytes += key.len() + value.len();
        if self.bytes <= MAX_BYTES {
            self.entries.push((key, value));
        }
    }

    fn statement(&mut self, key: &str, text: &str) {
        self.put(key, cut(&obfuscate(text), MAX_STATEMENT_BYTES));
    }

    /// Adds the bind variables, until the parameters are full. `value` returns the value at an
    /// index, and `has_masks` whether the table of a column has masks.
    fn variables<'a>(
        &mut self,
        columns: &[BindColumn],
        value: impl Fn(usize) -> Option<Value<'a>>,
        has_masks: impl Fn(&BindColumn) -> bool,
    ) {
        let mut last: Option<(&BindColumn, bool)> = None;
        for (index, column) in columns.iter().enumerate() {
            if self.bytes >= MAX_BYTES {
                break;
            }
            let same_table = last.filter(|(other, _)| {
                other.table == column.table && other.keyspace == column.keyspace
            });
            let is_masked = same_table.map_or_else(|| has_masks(column), |(_, masked)| masked);
            last = Some((column, is_masked));
            let text = match value(index) {
                _ if is_masked => "<masked>".to_owned(),
                Some(Value::Set(bytes)) => value_text(&column.column_type, bytes),
                Some(Value::Unset) => "<unset>".to_owned(),
                Some(Value::Null) | None => "null".to_owned(),
            };
            self.put(format!("bound_var_{index}_{}", column.name), text);
        }
    }

    fn execution(&mut self, parameters: &QueryParameters<'_>) {
        self.put("consistency_level", parameters.consistency.to_string());
        if let Some(rows) = parameters.page_size.filter(|rows| *rows > 0) {
            self.put("page_size", rows.to_string());
        }
        self.tail(&parameters.tail);
    }

    fn tail(&mut self, tail: &ParametersTail<'_>) {
        if let Some(consistency) = tail.serial_consistency {
            self.put("serial_consistency_level", consistency.to_string());
        }
        if let Some(timestamp_us) = tail.timestamp_us {
            self.put("default_timestamp", timestamp_us.to_string());
        }
    }
}

fn value_text(column_type: &espalier_types::CqlType, bytes: &[u8]) -> String {
    // A literal is at least as long as its value: a long value is printed only in part, as text if
    // that part is UTF-8, else as a blob.
    if bytes.len() > MAX_VALUE_BYTES {
        let begin = bytes.get(..MAX_VALUE_BYTES / 2).unwrap_or_default();
        // The end of the part may split a character, which is left out.
        let text = std::str::from_utf8(begin).or_else(|error| match error.error_len() {
            None => std::str::from_utf8(&begin[..error.valid_up_to()]),
            Some(_) => Err(error),
        });
        let begin = match text {
            Ok(text) => text.to_owned(),
            Err(_) => to_cql_literal(&espalier_types::CqlType::Blob, begin),
        };
        return format!("{begin}… ({} bytes)", bytes.len());
    }
    cut(&to_cql_literal(column_type, bytes), MAX_VALUE_BYTES)
}

/// Returns the text, or its first `bytes` with a mark that it continues.
fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    // A character of UTF-8 has at most four bytes.
    let begin = (bytes.saturating_sub(3)..=bytes).rev().find_map(|end| text.get(..end));
    format!("{}…", begin.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use espalier_types::CqlType;

    use super::*;

    #[test]
    fn long_texts_and_values_are_cut() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("äöü", 5), "äö…");
        assert_eq!(value_text(&CqlType::Int, &7_i32.to_be_bytes()), "7");
        assert_eq!(value_text(&CqlType::Text, b"it's"), "'it''s'");
        let long = value_text(&CqlType::Blob, &[0xff; 5000]);
        assert!(long.starts_with("0xffff") && long.ends_with("… (5000 bytes)"));
        assert!(long.len() < 1100);
        let long = value_text(&CqlType::Text, "€".repeat(400).as_bytes());
        assert_eq!(long, format!("{}… (1200 bytes)", "€".repeat(166)));
    }

    #[test]
    fn all_parameters_together_are_bounded() {
        let mut parameters = Parameters::default();
        (0..1000).for_each(|index| parameters.statement(&index.to_string(), &"x".repeat(1000)));
        let bytes: usize =
            parameters.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(bytes <= MAX_BYTES && bytes > MAX_BYTES / 2);
    }

    #[test]
    fn variables_are_described_only_until_the_parameters_are_full() {
        let column = |index: usize| BindColumn {
            keyspace: "ks".into(),
            table: if (index / 60).is_multiple_of(2) { "t" } else { "u" }.into(),
            name: "v".to_owned(),
            column_type: CqlType::Blob,
        };
        let columns: Vec<_> = (0..12_000).map(column).collect();
        let (values, tables) = (Cell::new(0), Cell::new(0));
        let value = |_: usize| {
            values.set(values.get() + 1);
            Some(Value::Set(&[7; 500]))
        };
        let has_masks = |column: &BindColumn| {
            tables.set(tables.get() + 1);
            &*column.table == "u"
        };
        let mut parameters = Parameters::default();
        parameters.variables(&columns, value, has_masks);
        let masked = parameters.entries.iter().filter(|(_, text)| text == "<masked>").count();
        assert!((1..=120).contains(&masked), "{masked}");
        assert!(values.get() < 500, "{} values", values.get());
        assert!(tables.get() < 10, "{} look-ups", tables.get());
    }
}
