//! `espalier sstable stats`: what is known of an SSTable without reading its data.

use std::fmt::Write as _;

use espalier_runtime::file::FileSystem;
use espalier_runtime::time;
use espalier_sstable::dump::write_json;
use espalier_sstable::statistics::estimated_histogram::EstimatedHistogram;
use espalier_sstable::statistics::{CommitLogInterval, CommitLogPosition};
use espalier_sstable::{PageCache, SSTableReader};
use espalier_types::CqlType;
use espalier_types::literal::{print_timestamp, to_cql_literal};
use serde_json::{Map, Value, json};

use super::arguments::StatsArguments;
use super::failures::Failures;
use super::output::Output;
use super::progress::bytes;
use super::schema::{Names, full_name};
use super::{ToolError, paths};

const CACHE_BYTES: usize = 1 << 20;
/// A deletion time that is none.
const NEVER: u32 = u32::MAX;

/// Prints the numbers of all.
pub async fn stats(arguments: &StatsArguments) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let cache = PageCache::new(CACHE_BYTES);
    let names = Names::load(&file_system, &arguments.schema).await?;
    let mut output = Output::new();
    let found = paths::find(&file_system, &arguments.paths.paths).await?;
    let mut failures = Failures::of(&found);
    let descriptors = &found.descriptors;
    for descriptor in descriptors {
        let reader = match names.open(&file_system, descriptor, &cache).await {
            Ok(reader) => reader,
            Err(error) => {
                failures.take(error)?;
                continue;
            }
        };
        let sizes = component_sizes(&file_system, &reader).await?;
        let facts = facts(&reader, &sizes, arguments.gc_grace);
        match arguments.json {
            true => output.buffer().extend_from_slice(format!("{facts}\n").as_bytes()),
            false => output.buffer().extend_from_slice(text(&facts).as_bytes()),
        }
        output.flush_if_large()?;
    }
    output.flush()?;
    failures.told()
}

async fn component_sizes(
    file_system: &FileSystem,
    reader: &SSTableReader,
) -> Result<Vec<(String, u64)>, ToolError> {
    let mut sizes = Vec::new();
    for component in reader.components() {
        let path = reader.descriptor().path(component);
        // A component that is listed and not there is for `verify` to tell.
        if let Ok(metadata) = file_system.metadata(&path).await {
            sizes.push((component.to_string(), metadata.length));
        }
    }
    sizes.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    Ok(sizes)
}

/// Everything, in the names of the JSON form.
fn facts(reader: &SSTableReader, sizes: &[(String, u64)], gc_grace_s: u32) -> Value {
    let statistics = reader.statistics();
    let stats = &statistics.stats;
    let table = reader.table();
    let now_s = u64::try_from(time::now_seconds()).unwrap_or(0);
    let limit_s = now_s.saturating_sub(u64::from(gc_grace_s));
    let drop_times = &stats.drop_times.bins;
    let expiring: u64 = drop_times.iter().map(|(_, count)| u64::from(*count)).sum();
    let droppable = drop_times.iter().filter(|(time, _)| *time < limit_s);
    let droppable: u64 = droppable.map(|(_, count)| u64::from(*count)).sum();
    let cells = estimated_sum(&stats.cell_counts);
    let time_or_none = |time: u32| (time != NEVER).then_some(time);
    // Older versions do not say, and readers have to reckon with some.
    let knows_partition_deletions = reader.features().key_range_in_statistics;
    let columns: Vec<_> = table
        .columns()
        .iter()
        .map(|column| {
            json!({
                "name": column.name,
                "kind": column.kind.name(),
                "type": column.column_type.cql_name(),
                "order": if column.reversed { "desc" } else { "asc" },
            })
        })
        .collect();
    let covered = &stats.covered_clustering;
    let clustering = |values: &[Option<bytes::Bytes>]| -> Value {
        let types = covered.types.iter().map(|(ty, _)| ty);
        let values = values.iter().zip(types);
        values.map(|(value, ty)| value.as_ref().map(|value| json_value(ty, value))).collect()
    };
    let components: Map<String, Value> =
        sizes.iter().map(|(name, size)| (name.clone(), json!(size))).collect();
    let filter = reader.bloom_filter().map(|filter| {
        json!({
            "bytes": filter.memory_size(),
            "hashes": filter.hash_count(),
            "fill": filter.fill(),
            "chance_configured": statistics.bloom_filter_fp_chance,
            "chance_expected": filter.fill().powi(filter.hash_count() as i32),
        })
    });
    let compression = reader.compression().map(|info| {
        json!({
            "class": info.compressor,
            "options": info.options,
            "chunk_bytes": info.chunk_length,
            "chunks": info.chunk_count,
            "ratio": stats.compression_ratio,
        })
    });
    let key = |key: &espalier_mutation::DecoratedKey| {
        json!({
            "key": json_value(&statistics.header.key_type, &key.key),
            "token": key.token.0,
        })
    };
    let name = reader.descriptor().directory.join(reader.descriptor().to_string());
    let what = json!({
        "sstable": name.display().to_string(),
        "table": full_name(&table),
        "version": reader.descriptor().version.to_string(),
        "partitioner": statistics.partitioner,
        "columns": columns,
        "components": components,
        "compression": compression,
        "filter": filter,
        "data_bytes": reader.data_length(),
        "data_bytes_stored": reader.stored_data_length(),
        "first": key(reader.first_key()),
        "last": key(reader.last_key()),
        "min_clustering": clustering(&covered.start.values),
        "max_clustering": clustering(&covered.end.values),
        "token_space_coverage":
            stats.token_space_coverage.is_finite().then_some(stats.token_space_coverage),
    });
    let content = json!({
        "partitions": reader.partition_count(),
        "rows": stats.total_rows,
        "columns_set": stats.total_columns,
        "cells_estimated": cells,
        "partition_bytes": percentiles(&stats.partition_sizes),
        "cells_per_partition": percentiles(&stats.cell_counts),
        "tombstones_and_expiring": expiring,
        "droppable": droppable,
        // What tombstone_threshold is compared with. More than 1 where rows and ranges are deleted, which have no cells.
        "droppable_ratio": if cells == 0 { 0.0 } else { droppable as f64 / cells as f64 },
        "gc_grace_seconds": gc_grace_s,
        "drop_times":
            drop_times.iter().map(|(time, count)| json!([time, count])).collect::<Value>(),
        "has_partition_deletions": knows_partition_deletions.then_some(stats.has_partition_deletions),
    });
    let history = json!({
        "min_timestamp": stats.min_timestamp,
        "max_timestamp": stats.max_timestamp,
        "min_local_deletion_time": time_or_none(stats.min_local_deletion_time),
        "max_local_deletion_time": time_or_none(stats.max_local_deletion_time),
        "min_ttl": stats.min_ttl,
        "max_ttl": stats.max_ttl,
        "level": stats.level,
        "repaired_at_ms": stats.repaired_at,
        "pending_repair": stats.pending_repair.map(|id| id.to_string()),
        "transient": stats.is_transient,
        "originating_host": stats.originating_host_id.map(|id| id.to_string()),
        "commit_log": stats.commit_log_intervals.iter().map(interval).collect::<Value>(),
        "baselines": {
            "timestamp": statistics.header.min_timestamp,
            "local_deletion_time": statistics.header.min_local_deletion_time,
            "ttl": statistics.header.min_ttl,
        },
    });
    let parts = [what, content, history].into_iter();
    parts
        .filter_map(|part| if let Value::Object(part) = part { Some(part) } else { None })
        .flatten()
        .collect::<Map<_, _>>()
        .into()
}

fn interval(interval: &CommitLogInterval) -> Value {
    let place = |place: CommitLogPosition| json!([place.segment, place.offset]);
    json!({ "from": place(interval.start), "to": place(interval.end) })
}

fn json_value(ty: &CqlType, value: &[u8]) -> Value {
    let mut text = Vec::new();
    write_json(ty, value, &mut text);
    serde_json::from_slice(&text).unwrap_or_else(|_| json!(to_cql_literal(ty, value)))
}

/// The sum of what was counted, each value taken as the middle of its bucket.
fn estimated_sum(histogram: &EstimatedHistogram) -> u64 {
    let mut below = 0u64;
    let mut sum = 0f64;
    for (index, count) in histogram.counts.iter().enumerate() {
        let end = histogram.offsets.get(index).copied().unwrap_or(below);
        sum += *count as f64 * (below as f64 + end as f64 + 1.0).floor() / 2.0;
        below = end;
    }
    sum as u64
}

/// Upper ends of the buckets in which the percentiles fall.
fn percentiles(histogram: &EstimatedHistogram) -> Value {
    let total = histogram.total();
    let at = |part: f64| {
        let wanted = (total as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0u64;
        let found = histogram.non_empty().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= wanted
        });
        found.and_then(|(end, _)| end)
    };
    json!({
        "p50": at(0.5), "p75": at(0.75), "p95": at(0.95), "p99": at(0.99), "max": at(1.0),
        "histogram": histogram.non_empty().map(|(end, count)| json!([end, count])).collect::<Value>(),
    })
}

/// The form for people.
fn text(facts: &Value) -> String {
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
        line(&format!("{end} key"), format!("{}  token {}", key["key"], key["token"]));
    }
    let (plain_bytes, stored) = (number("data_bytes"), number("data_bytes_stored"));
    line("data", bytes(plain_bytes));
    match &facts["compression"] {
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
    // When a tombstone was made, or something that expires does so.
    let (first, last) = (&facts["min_local_deletion_time"], &facts["max_local_deletion_time"]);
    line("first deletion, expiry", seconds(first));
    match (first, last) {
        (Value::Number(_), Value::Null) => {
            line("last deletion, expiry", "none: some of it is live for good".into());
        }
        _ => line("last deletion, expiry", seconds(last)),
    }
    line("ttl", format!("{} to {} s", facts["min_ttl"], facts["max_ttl"]));
    line(
        "droppable",
        format!(
            "{} of {} deletions and expiries (gc grace {} s), {:.3} for each cell",
            facts["droppable"],
            facts["tombstones_and_expiring"],
            facts["gc_grace_seconds"],
            facts["droppable_ratio"].as_f64().unwrap_or(0.0)
        ),
    );
    let deletions = facts["has_partition_deletions"].as_bool();
    line(
        "partition deletions",
        deletions.map_or("not told by this version".to_owned(), |has| has.to_string()),
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
