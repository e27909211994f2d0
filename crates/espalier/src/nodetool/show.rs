//! Formats answers of a node for people.

use std::fmt::Write as _;

use serde_json::Value;

pub fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub fn number(of: &Value, name: &str) -> u64 {
    of.get(name).and_then(Value::as_u64).unwrap_or_default()
}

pub fn all(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

/// Formats a table: each column is as wide as its widest cell, with a separator between columns.
pub fn columns(head: &[&str], lines: &[Vec<String>], separator: &str) -> String {
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let width = |column: usize| {
        let cells = lines.iter().chain([&head]).filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for line in [&head].into_iter().chain(lines) {
        let mut shown = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(shown, "{cell:width$}{separator}");
        }
        let _ = writeln!(out, "{}", shown.trim_end());
    }
    out.trim_end().to_owned()
}

/// Formats the remaining time like Cassandra's nodetool.
fn remaining(one: &Value) -> String {
    match one.get("remaining_seconds").and_then(Value::as_u64) {
        Some(s) => format!("{}h{:02}m{:02}s", s / 3600, s / 60 % 60, s % 60),
        None => "n/a".to_owned(),
    }
}

/// Formats the running and the pending compactions.
pub fn compactions(pending: &Value, running: &Value) -> String {
    let waiting: u64 = all(pending).map(|one| number(one, "task")).sum();
    let mut out = format!("pending tasks: {waiting}");
    for one in all(pending) {
        let _ = write!(out, "\n- {}.{}: {}", text(one, "ks"), text(one, "cf"), number(one, "task"));
    }
    let lines: Vec<Vec<String>> = all(running)
        .map(|one| {
            let (completed, total) = (number(one, "completed"), number(one, "total"));
            let progress = completed as f64 * 100.0 / total.max(1) as f64;
            [
                text(one, "id"),
                text(one, "task_type"),
                text(one, "ks"),
                text(one, "cf"),
                &completed.to_string(),
                &total.to_string(),
                text(one, "unit"),
                &format!("{progress:.2}%"),
                &remaining(one),
            ]
            .map(str::to_owned)
            .to_vec()
        })
        .collect();
    if !lines.is_empty() {
        let head = [
            "id",
            "compaction type",
            "keyspace",
            "table",
            "completed",
            "total",
            "unit",
            "progress",
            "remaining",
        ];
        let _ = write!(out, "\n{}", columns(&head, &lines, " "));
    }
    out
}

/// Formats the snapshots, one line for each table of each snapshot.
pub fn snapshots(found: &Value) -> String {
    let mut lines = Vec::new();
    for snapshot in all(found) {
        let tables = snapshot.get("value").unwrap_or(&Value::Null);
        lines.extend(all(tables).map(|of| {
            let (tag, keyspace, name) = (text(snapshot, "key"), text(of, "ks"), text(of, "cf"));
            let sizes = [number(of, "live"), number(of, "total")].map(size);
            [tag, keyspace, name, &sizes[0], &sizes[1]].map(str::to_owned).to_vec()
        }));
    }
    if lines.is_empty() {
        return "There are no snapshots".to_owned();
    }
    let head =
        ["Snapshot name", "Keyspace name", "Column family name", "True size", "Size on disk"];
    format!("Snapshot Details:\n{}", columns(&head, &lines, " "))
}

/// Formats the directories of tables that the schema does not have, one line each.
pub fn orphans(found: &Value) -> String {
    let lines: Vec<String> = all(found).map(orphan).collect();
    if lines.is_empty() { "There are no orphaned directories".to_owned() } else { lines.join("\n") }
}

/// Formats a directory of a table that the schema does not have.
pub fn orphan(one: &Value) -> String {
    let (files, bytes) = (number(one, "files"), size(number(one, "bytes")));
    let copies = match one.get("has_copies").and_then(Value::as_bool) {
        Some(true) => ", and snapshots or backups, which are kept",
        _ => "",
    };
    format!("{}: {files} files, {bytes}{copies}", text(one, "path"))
}

/// Formats a size like Cassandra.
pub fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut shown = format!("{bytes} bytes");
    for unit in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        shown = format!("{value:.2} {unit}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn compactions_are_shown_with_their_progress() {
        let pending = json(r#"[{"ks":"a","cf":"t","task":2},{"ks":"a","cf":"u","task":1}]"#);
        let running = json(
            r#"[{"id":"1-2","task_type":"Compaction","unit":"bytes","ks":"a","cf":"t","completed":25,"total":100,"remaining_seconds":4205}]"#,
        );
        let shown = compactions(&pending, &running);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[..3], ["pending tasks: 3", "- a.t: 2", "- a.u: 1"]);
        assert!(lines[3].starts_with("id  compaction type keyspace table completed"), "{shown}");
        let first = "1-2 Compaction      a        t     25        100   bytes 25.00%   1h10m05s";
        assert_eq!(lines[4], first);
        assert_eq!(compactions(&json("[]"), &json("[]")), "pending tasks: 0");
    }

    #[test]
    fn snapshots_are_shown_with_their_sizes() {
        let found = json(
            r#"[{"key":"monday","value":[{"ks":"a","cf":"t","total":2048,"live":10},{"ks":"a","cf":"u","total":3221225472,"live":0}]}]"#,
        );
        let shown = snapshots(&found);
        assert!(
            shown.contains("monday        a             t                  10 bytes  2.00 KiB"),
            "{shown}"
        );
        assert!(shown.contains("0 bytes   3.00 GiB"), "{shown}");
        assert_eq!(snapshots(&json("[]")), "There are no snapshots");
    }

    #[test]
    fn orphans_are_shown_a_line_each() {
        let found = json(r#"[{"path":"d/ks/t-0a","files":2,"bytes":5,"has_copies":true}]"#);
        let expected = "d/ks/t-0a: 2 files, 5 bytes, and snapshots or backups, which are kept";
        assert_eq!(orphans(&found), expected);
        assert_eq!(orphans(&json("[]")), "There are no orphaned directories");
    }
}
