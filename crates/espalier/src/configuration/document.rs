//! Parses YAML into a flat list of entries: nested keys are joined with dots
//! (`sstable.selected_format`), and each entry has its line.
//!
//! The document is small and comes from the operator, so it is held in memory. The parser's own
//! limits bound the expansion of aliases.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::error::{ConfigurationError, Origin};

/// A YAML value without types: scalars are text. A number or boolean without quotes is the text
/// that Rust prints for it: `0x10` becomes `16`, `yes` becomes `true`.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// Text, a number or a boolean.
    Scalar(String),
    /// A list.
    List(Vec<Value>),
    /// Keys with their lines, and values.
    Map(Vec<(String, u64, Value)>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key; nested keys are joined with dots.
    pub key: String,
    /// The value of the key; never a map.
    pub value: Value,
    /// The place at which the operator gave it.
    pub origin: Origin,
}

/// Parses the entries of a file.
///
/// # Errors
/// Fails if the file is not UTF-8, or is not YAML with keys and values.
pub fn parse_file(path: &Path, content: &[u8]) -> Result<Vec<Entry>, ConfigurationError> {
    let text = std::str::from_utf8(content).map_err(|error| ConfigurationError::NotUtf8 {
        path: path.to_owned(),
        offset: error.valid_up_to(),
    })?;
    let not_yaml = |message: String| ConfigurationError::NotYaml { path: path.to_owned(), message };
    let parsed: Option<Value> = serde_saphyr::from_str(text).map_err(|error| {
        let message = reason(&error);
        not_yaml(message)
    })?;
    let mut entries = Vec::new();
    match parsed.unwrap_or(Value::Null) {
        Value::Null => {}
        Value::Map(keys) => {
            flatten("", keys, &mut entries, &|line| Origin::File { path: path.to_owned(), line });
        }
        _ => {
            let line = 1 + text.lines().take_while(|line| !is_without_key(line)).count();
            let message = format!("line {line}: expected lines of the form key: value");
            return Err(not_yaml(message));
        }
    }
    Ok(entries)
}

/// Returns whether a line has content, but no key.
fn is_without_key(line: &str) -> bool {
    let content = line.trim_start();
    let has_key = line.contains(": ") || line.trim_end().ends_with(':');
    !(content.is_empty() || content.starts_with('#') || content.starts_with("---") || has_key)
}

/// Describes the fault of a document in one line and without advice to programmers.
fn reason(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string().replace('\n', " ");
    text.replace(", set DuplicateKeyPolicy in Options if acceptable", "")
}

/// Parses the entries of one `--set KEY=VALUE`. The value is YAML too.
///
/// # Errors
/// Fails if `=` is missing or the value is not YAML.
pub fn parse_set(argument: &str) -> Result<Vec<Entry>, ConfigurationError> {
    let bad =
        |message: String| ConfigurationError::BadSet { argument: argument.to_owned(), message };
    let Some((key, text)) = argument.split_once('=') else {
        return Err(bad("expected KEY=VALUE".to_owned()));
    };
    let value: Option<Value> = serde_saphyr::from_str(text).map_err(|error| bad(reason(&error)))?;
    let mut entries = Vec::new();
    let keys = vec![(key.trim().to_owned(), 0, value.unwrap_or(Value::Null))];
    flatten("", keys, &mut entries, &|_| Origin::Set);
    Ok(entries)
}

fn flatten(
    prefix: &str,
    keys: Vec<(String, u64, Value)>,
    entries: &mut Vec<Entry>,
    origin: &dyn Fn(u64) -> Origin,
) {
    for (key, line, value) in keys {
        let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Value::Map(nested) => flatten(&key, nested, entries, origin),
            value => entries.push(Entry { key, value, origin: origin(line) }),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => formatter.write_str("nothing"),
            Value::Scalar(text) => formatter.write_str(text),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(formatter, "[{}]", items.join(", "))
            }
            Value::Map(_) => formatter.write_str("{…}"),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value, a list or keys with values")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut keys = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, Value>()? {
            keys.push((key.value, key.referenced.line(), value));
        }
        Ok(if keys.is_empty() { Value::Null } else { Value::Map(keys) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> Vec<String> {
        let entries = parse_file(Path::new("c.yaml"), text.as_bytes()).unwrap();
        let show = |entry: &Entry| format!("{} {} = {}", entry.origin, entry.key, entry.value);
        entries.iter().map(show).collect()
    }

    #[test]
    fn nested_keys_are_joined_and_lines_are_kept() {
        let text = "# a comment\ncluster_name: 'Test Cluster'\nport: 9042\nempty:\nmap: {}\nsstable:\n  \
                    selected_format: bti\n  more:\n    deep: 0.5\ndirectories: [/a, /b]\non: true\n\
                    seeds:\n  - class: x\n    list: ['a']\n";
        assert_eq!(
            show(text),
            [
                "c.yaml:2 cluster_name = Test Cluster",
                "c.yaml:3 port = 9042",
                "c.yaml:4 empty = nothing",
                "c.yaml:5 map = nothing",
                "c.yaml:7 sstable.selected_format = bti",
                "c.yaml:9 sstable.more.deep = 0.5",
                "c.yaml:10 directories = [/a, /b]",
                "c.yaml:11 on = true",
                "c.yaml:12 seeds = [{…}]",
            ]
        );
    }

    #[test]
    fn a_file_of_comments_has_no_entries() {
        assert!(show("").is_empty());
        assert!(show("# nothing\n---\n").is_empty());
    }

    #[test]
    fn invalid_yaml_is_reported_in_one_line() {
        let error = |content: &[u8]| {
            let error = parse_file(Path::new("c.yaml"), content).unwrap_err().to_string();
            assert!(error.starts_with("c.yaml: ") && !error.contains('\n'), "{error}");
            error
        };
        assert!(error(b"a: [1, 2\nb: 3\n").contains("line"));
        assert!(error(b"just text").contains("key: value"));
        assert!(error(b"a: 1\na: 2\n").contains("uplicate"));
        assert_eq!(error(b"a: \xff"), "c.yaml: not UTF-8, from byte 3 on");
    }

    #[test]
    fn set_takes_yaml_values() {
        let entries = parse_set("data_file_directories=[/a, /b]").unwrap();
        assert_eq!(entries[0].value.to_string(), "[/a, /b]");
        assert_eq!(entries[0].origin.to_string(), "--set");
        let entries = parse_set("sstable={selected_format: bti}").unwrap();
        assert_eq!(entries[0].key, "sstable.selected_format");
        assert_eq!(parse_set("x=").unwrap()[0].value, Value::Null);
        assert!(parse_set("x").is_err());
        assert!(parse_set("x=[").is_err());
    }
}
