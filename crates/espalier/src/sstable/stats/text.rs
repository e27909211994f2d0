//! Formats the facts for people.

use std::fmt::Write as _;

use espalier_types::literal::print_timestamp;
use serde_json::Value;

use crate::sstable::progress::bytes;

/// Returns the facts as text.
pub fn text(facts: &Value) -> String {
    let mut out = String::new();
    let number = |name: &str| facts[name].as_u64().unwrap_or(0);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<22} {value}");
    };
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    };
    let micros = |value: &Value| match value.as_i64() {
        Some(time) => format!("{time}  {}", print_timestamp(time.div_euclid(1000))),
        None => "none".to_owned(),
    };
    let seconds = |value: &Value| match value.as_i64() {
        Some(time) => format!("{time}  {}", print_timestamp(time * 1000)),
        None => "none".to_owned(),
    };
    line("table", plain(&facts["table"]));
    line("version", plain(&facts["version"]));
    line("partitions", number("partitions").to_string());
    line("rows", number("rows").to_string());
    line("cells (estimate)", number("cells_estimated").to_string());
    for end in ["first", "last"] {
        let key = &facts[end];
        let reported = match key {
            Value::Null => "not in Statistics.db".to_owned(),
            key => format!("{}  token {}", key["key"], key["token"]),
        };
        line(&format!("{end} key"), reported);
    }
    let stored = number("data_bytes_stored");
    // Null if only Statistics.db could be read.
    let plain_bytes = facts["data_bytes"].as_u64();
    line("data", plain_bytes.map_or("not known".to_owned(), bytes));
    match &facts["compression"] {
        Value::Null if plain_bytes.is_none() => line("compression", "not known".into()),
        Value::Null => line("compression", "none".into()),
        info => line(
            "compression",
            format!(
                "{} in chunks of {} KiB: {} stored, ratio {:.3}",
                plain(&info["class"]),
                info["chunk_bytes"].as_u64().unwrap_or(0) / 1024,
                bytes(stored),
                info["ratio"].as_f64().unwrap_or(0.0)
            ),
        ),
    }
    if let Some(components) = facts["components"].as_object() {
        let mut sizes: Vec<_> =
            components.iter().map(|(name, size)| (size.as_u64().unwrap_or(0), name)).collect();
        sizes.sort_by(|left, right| right.cmp(left));
        for (index, (size, name)) in sizes.iter().enumerate() {
            let title = if index == 0 { "files" } else { "" };
            line(title, format!("{name:<20} {:>10}", bytes(*size)));
        }
    }
    match &facts["filter"] {
        Value::Null if plain_bytes.is_none() => line("filter", "not known".into()),
        Value::Null => line("filter", "none".into()),
        filter => line(
            "filter",
            format!(
                "{}, {} hashes, {:.1} % of bits set: false positives {:.4} % (configured {:.4} %)",
                bytes(filter["bytes"].as_u64().unwrap_or(0)),
                filter["hashes"],
                filter["fill"].as_f64().unwrap_or(0.0) * 100.0,
                filter["chance_expected"].as_f64().unwrap_or(0.0) * 100.0,
                filter["chance_configured"].as_f64().unwrap_or(0.0) * 100.0
            ),
        ),
    }
    line("oldest write", micros(&facts["min_timestamp"]));
    line("newest write", micros(&facts["max_timestamp"]));
    // The time at which a tombstone was written, or at which a value expires.
    let (first, last) = (&facts["min_local_deletion_time"], &facts["max_local_deletion_time"]);
    line("first deletion, expiry", seconds(first));
    match (first, last) {
        (Value::Number(_), Value::Null) => {
            line("last deletion, expiry", "none: some of the data never expires".into());
        }
        _ => line("last deletion, expiry", seconds(last)),
    }
    line("ttl", format!("{} to {} s", facts["min_ttl"], facts["max_ttl"]));
    let assumed = match facts["gc_grace_is_assumed"].as_bool() {
        Some(true) => " assumed: give --gc-grace if the table has another",
        _ => "",
    };
    line(
        "droppable",
        format!(
            "{} of {} deletions and expiries (gc grace {} s{assumed}), {:.3} for each cell",
            facts["droppable"],
            facts["tombstones_and_expiring"],
            facts["gc_grace_seconds"],
            facts["droppable_ratio"].as_f64().unwrap_or(0.0)
        ),
    );
    let deletions = facts["has_partition_deletions"].as_bool();
    line(
        "partition deletions",
        deletions.map_or("not stored in this version".to_owned(), |has| has.to_string()),
    );
    for (title, name) in
        [("partition size", "partition_bytes"), ("cells a partition", "cells_per_partition")]
    {
        let of = &facts[name];
        let shown = |percentile: &str| match (of[percentile].as_u64(), name) {
            (Some(count), "partition_bytes") => bytes(count),
            (Some(count), _) => count.to_string(),
            (None, _) => "beyond".to_owned(),
        };
        let percentiles = ["p50", "p75", "p95", "p99", "max"];
        let text: Vec<_> = percentiles.iter().map(|p| format!("{p} {}", shown(p))).collect();
        line(title, format!("{} (upper ends of buckets)", text.join(", ")));
    }
    if facts["min_clustering"].as_array().is_some_and(|values| !values.is_empty()) {
        line("clusterings", format!("{} to {}", facts["min_clustering"], facts["max_clustering"]));
    }
    line("level", plain(&facts["level"]));
    line(
        "repaired",
        match facts["repaired_at_ms"].as_i64() {
            None | Some(0) => "no".to_owned(),
            Some(time) => print_timestamp(time),
        },
    );
    line("pending repair", plain(&facts["pending_repair"]));
    line("written by host", plain(&facts["originating_host"]));
    for interval in facts["commit_log"].as_array().into_iter().flatten() {
        line("commit log", format!("{} to {}", interval["from"], interval["to"]));
    }
    for (index, column) in facts["columns"].as_array().into_iter().flatten().enumerate() {
        let title = if index == 0 { "columns" } else { "" };
        let order = if column["order"] == "desc" { " desc" } else { "" };
        line(
            title,
            format!(
                "{:<20} {:<13} {}{order}",
                plain(&column["name"]),
                plain(&column["kind"]),
                plain(&column["type"])
            ),
        );
    }
    format!("{}\n{out}", plain(&facts["sstable"]))
}
