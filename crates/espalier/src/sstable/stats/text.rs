//! Formats the output of `sstable stats` as text.

use std::fmt::{self, Write as _};

use espalier_types::literal::print_timestamp;
use serde_json::Value;

use crate::sstable::progress::bytes;

/// Returns the statistics as text. `facts` is the output in JSON.
pub fn text(facts: &Value) -> String {
    let mut text = Text { facts, lines: String::new() };
    text.add_identity();
    text.add_data();
    text.add_filter();
    text.add_times();
    text.add_droppable();
    text.add_partitions();
    text.add_history();
    text.add_columns();
    format!("{}\n{}", plain(&facts["sstable"]), text.lines)
}

/// The statistics, and the lines written so far.
struct Text<'a> {
    facts: &'a Value,
    lines: String,
}

impl Text<'_> {
    fn line(&mut self, name: &str, value: impl fmt::Display) {
        let _ = writeln!(self.lines, "  {name:<22} {value}");
    }

    /// Adds a line with an unformatted value.
    fn plain_line(&mut self, name: &str, fact: &str) {
        self.line(name, plain(&self.facts[fact]));
    }

    fn number(&self, fact: &str) -> u64 {
        self.facts[fact].as_u64().unwrap_or(0)
    }

    /// Returns whether the whole SSTable could be opened, and not only Statistics.db.
    fn has_data(&self) -> bool {
        self.facts["data_bytes"].is_u64()
    }

    fn add_identity(&mut self) {
        self.plain_line("table", "table");
        self.plain_line("version", "version");
        self.line("partitions", self.number("partitions"));
        self.line("rows", self.number("rows"));
        self.line("cells (estimate)", self.number("cells_estimated"));
        for end in ["first", "last"] {
            let reported = match &self.facts[end] {
                Value::Null => "not in Statistics.db".to_owned(),
                key => format!("{}  token {}", key["key"], key["token"]),
            };
            self.line(&format!("{end} key"), reported);
        }
    }

    fn add_data(&mut self) {
        let facts = self.facts;
        self.line("data", facts["data_bytes"].as_u64().map_or("not known".to_owned(), bytes));
        let compression = match &facts["compression"] {
            Value::Null if !self.has_data() => "not known".to_owned(),
            Value::Null => "none".to_owned(),
            info => format!(
                "{} in chunks of {} KiB: {} stored, ratio {:.3}",
                plain(&info["class"]),
                info["chunk_bytes"].as_u64().unwrap_or(0) / 1024,
                bytes(self.number("data_bytes_stored")),
                info["ratio"].as_f64().unwrap_or(0.0)
            ),
        };
        self.line("compression", compression);
        let Some(components) = facts["components"].as_object() else { return };
        let mut sizes: Vec<_> =
            components.iter().map(|(name, size)| (size.as_u64().unwrap_or(0), name)).collect();
        sizes.sort_by(|left, right| right.cmp(left));
        for (index, (size, name)) in sizes.iter().enumerate() {
            let title = if index == 0 { "files" } else { "" };
            self.line(title, format_args!("{name:<20} {:>10}", bytes(*size)));
        }
    }

    fn add_filter(&mut self) {
        let filter = match &self.facts["filter"] {
            Value::Null if !self.has_data() => "not known".to_owned(),
            Value::Null => "none".to_owned(),
            filter => format!(
                "{}, {} hashes, {:.1} % of bits set: false positives {:.4} % (configured {:.4} %)",
                bytes(filter["bytes"].as_u64().unwrap_or(0)),
                filter["hashes"],
                filter["fill"].as_f64().unwrap_or(0.0) * 100.0,
                filter["chance_expected"].as_f64().unwrap_or(0.0) * 100.0,
                filter["chance_configured"].as_f64().unwrap_or(0.0) * 100.0
            ),
        };
        self.line("filter", filter);
    }

    fn add_times(&mut self) {
        let facts = self.facts;
        self.line("oldest write", time(&facts["min_timestamp"], Unit::Micros));
        self.line("newest write", time(&facts["max_timestamp"], Unit::Micros));
        // `local_deletion_time` is the time at which a tombstone was written or a value expires.
        let (first, last) = (&facts["min_local_deletion_time"], &facts["max_local_deletion_time"]);
        self.line("first deletion, expiry", time(first, Unit::Seconds));
        let last = match (first, last) {
            (Value::Number(_), Value::Null) => "none: some of the data never expires".to_owned(),
            _ => time(last, Unit::Seconds),
        };
        self.line("last deletion, expiry", last);
        self.line("ttl", format_args!("{} to {} s", facts["min_ttl"], facts["max_ttl"]));
    }

    fn add_droppable(&mut self) {
        let facts = self.facts;
        let assumed = match facts["gc_grace_is_assumed"].as_bool() {
            Some(true) => " assumed: give --gc-grace if the table has another",
            _ => "",
        };
        self.line(
            "droppable",
            format_args!(
                "{} of {} deletions and expiries (gc grace {} s{assumed}), {:.3} for each cell",
                facts["droppable"],
                facts["tombstones_and_expiring"],
                facts["gc_grace_seconds"],
                facts["droppable_ratio"].as_f64().unwrap_or(0.0)
            ),
        );
        let deletions = facts["has_partition_deletions"].as_bool();
        self.line(
            "partition deletions",
            deletions.map_or("not stored in this version".to_owned(), |has| has.to_string()),
        );
    }

    fn add_partitions(&mut self) {
        let facts = self.facts;
        for (title, name) in
            [("partition size", "partition_bytes"), ("cells per partition", "cells_per_partition")]
        {
            let of = &facts[name];
            let shown = |percentile: &str| match (of[percentile].as_u64(), name) {
                (Some(count), "partition_bytes") => bytes(count),
                (Some(count), _) => count.to_string(),
                (None, _) => "above the last bucket".to_owned(),
            };
            let percentiles = ["p50", "p75", "p95", "p99", "max"];
            let text: Vec<_> = percentiles.iter().map(|p| format!("{p} {}", shown(p))).collect();
            self.line(title, format_args!("{} (upper ends of buckets)", text.join(", ")));
        }
        let (first, last) = (&facts["min_clustering"], &facts["max_clustering"]);
        if first.as_array().is_some_and(|values| !values.is_empty()) {
            self.line("clusterings", format_args!("{first} to {last}"));
        }
    }

    fn add_history(&mut self) {
        let facts = self.facts;
        self.plain_line("level", "level");
        let repaired = match facts["repaired_at_ms"].as_i64() {
            None | Some(0) => "no".to_owned(),
            Some(time) => print_timestamp(time),
        };
        self.line("repaired", repaired);
        self.plain_line("pending repair", "pending_repair");
        self.plain_line("written by host", "originating_host");
        for interval in facts["commit_log"].as_array().into_iter().flatten() {
            self.line("commit log", format_args!("{} to {}", interval["from"], interval["to"]));
        }
    }

    fn add_columns(&mut self) {
        let columns = self.facts["columns"].as_array();
        for (index, column) in columns.into_iter().flatten().enumerate() {
            let title = if index == 0 { "columns" } else { "" };
            let order = if column["order"] == "desc" { " desc" } else { "" };
            self.line(
                title,
                format_args!(
                    "{:<20} {:<13} {}{order}",
                    plain(&column["name"]),
                    plain(&column["kind"]),
                    plain(&column["type"])
                ),
            );
        }
    }
}

fn plain(fact: &Value) -> String {
    match fact {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

/// The unit of a time since 1970.
enum Unit {
    Seconds,
    Micros,
}

fn time(fact: &Value, unit: Unit) -> String {
    let Some(time) = fact.as_i64() else { return "none".to_owned() };
    let millis = match unit {
        Unit::Seconds => time * 1000,
        Unit::Micros => time.div_euclid(1000),
    };
    format!("{time}  {}", print_timestamp(millis))
}
