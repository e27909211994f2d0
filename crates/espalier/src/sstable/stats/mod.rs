//! `espalier sstable stats`: prints the statistics of an SSTable without reading its data.

mod known;
mod text;

use espalier_mutation::{DecoratedKey, schema::TableMetadata};
use espalier_runtime::file::FileSystem;
use espalier_runtime::time;
use espalier_sstable::PageCache;
use espalier_sstable::dump::write_json;
use espalier_sstable::statistics::estimated_histogram::EstimatedHistogram;
use espalier_sstable::statistics::{CommitLogInterval, CommitLogPosition};
use espalier_types::CqlType;
use espalier_types::literal::to_cql_literal;
use serde_json::{Map, Value, json};

use self::{known::Known, text::text};
use super::arguments::StatsArguments;
use super::failures::Failures;
use super::output::Output;
use super::schema::{Names, full_name};
use super::{ToolError, paths};

const CACHE_BYTES: usize = 1 << 20;
/// The default of `gc_grace_seconds`, ten days. SSTables do not store their table's value.
const ASSUMED_GC_GRACE_S: u32 = 864_000;
/// The stored deletion time that means "never".
const NEVER: u32 = u32::MAX;

/// Prints the statistics of all SSTables.
///
/// # Errors
/// Fails if an argument or a path cannot be used, if an SSTable fails, or if the output does.
pub async fn stats(arguments: &StatsArguments) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let cache = PageCache::new(CACHE_BYTES);
    let names = Names::load(&file_system, &arguments.schema).await?;
    let mut output = Output::new();
    let found = paths::find(&file_system, &arguments.paths.paths).await?;
    let mut failures = Failures::of(&found);
    let descriptors = &found.descriptors;
    for descriptor in descriptors {
        let known = match Known::open(&file_system, &names, descriptor, &cache).await {
            Ok(known) => known,
            Err(error) => {
                failures.take(error)?;
                continue;
            }
        };
        let sizes = component_sizes(&file_system, &known).await;
        let facts = facts(&known, &sizes, arguments.gc_grace);
        if arguments.json {
            output.buffer().extend_from_slice(format!("{facts}\n").as_bytes())
        } else {
            output.buffer().extend_from_slice(text(&facts).as_bytes())
        }
        output.flush_if_large()?;
    }
    output.flush()?;
    failures.result()
}

async fn component_sizes(file_system: &FileSystem, known: &Known) -> Vec<(String, u64)> {
    let mut sizes = Vec::new();
    for component in &known.components {
        let path = known.descriptor.path(component);
        // A listed component that does not exist is reported by `verify`.
        if let Ok(metadata) = file_system.metadata(&path).await {
            sizes.push((component.to_string(), metadata.length));
        }
    }
    sizes.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    sizes
}

/// Returns the JSON output for one SSTable.
fn facts(known: &Known, sizes: &[(String, u64)], gc_grace_s: Option<u32>) -> Value {
    let parts = [identity(known, sizes), content(known, gc_grace_s), history(known)].into_iter();
    parts
        .filter_map(|part| if let Value::Object(part) = part { Some(part) } else { None })
        .flatten()
        .collect::<Map<_, _>>()
        .into()
}

/// Returns the name of the SSTable, its table, files and key range.
fn identity(known: &Known, sizes: &[(String, u64)]) -> Value {
    let Known { descriptor, statistics, table, reader, .. } = known;
    let reader = reader.as_ref();
    let stats = &statistics.stats;
    let covered = &stats.covered_clustering;
    let clustering = |values: &[Option<bytes::Bytes>]| -> Value {
        let types = covered.types.iter().map(|(ty, _)| ty);
        let values = values.iter().zip(types);
        values.map(|(value, ty)| value.as_ref().map(|value| json_value(ty, value))).collect()
    };
    let components: Map<String, Value> =
        sizes.iter().map(|(name, size)| (name.clone(), json!(size))).collect();
    let key = |key: Option<DecoratedKey>| {
        key.map(|key| {
            json!({
                "key": json_value(&statistics.header.key_type, &key.key),
                "token": key.token.0,
            })
        })
    };
    let name = descriptor.directory.join(descriptor.to_string());
    json!({
        "sstable": name.display().to_string(),
        "table": full_name(table),
        "version": descriptor.version.to_string(),
        "partitioner": statistics.partitioner,
        "columns": columns(table),
        "components": components,
        "compression": compression(known),
        "filter": filter(known),
        "data_bytes": reader.map(|reader| reader.data_length()),
        "data_bytes_stored": reader.map(|reader| reader.stored_data_length()),
        "first": key(known.first_key()),
        "last": key(known.last_key()),
        "min_clustering": clustering(&covered.start.values),
        "max_clustering": clustering(&covered.end.values),
        "token_space_coverage":
            stats.token_space_coverage.is_finite().then_some(stats.token_space_coverage),
    })
}

fn columns(table: &TableMetadata) -> Vec<Value> {
    let columns = table.columns().iter().map(|column| {
        json!({
            "name": column.name,
            "kind": column.kind.name(),
            "type": column.column_type.cql_name(),
            "order": if column.reversed { "desc" } else { "asc" },
        })
    });
    columns.collect()
}

fn filter(known: &Known) -> Option<Value> {
    let filter = known.reader.as_ref()?.bloom_filter()?;
    Some(json!({
        "bytes": filter.memory_size(),
        "hashes": filter.hash_count(),
        "fill": filter.fill(),
        "chance_configured": known.statistics.bloom_filter_fp_chance,
        "chance_expected": filter.fill().powi(filter.hash_count() as i32),
    }))
}

fn compression(known: &Known) -> Option<Value> {
    let info = known.reader.as_ref()?.compression()?;
    Some(json!({
        "class": info.compressor,
        "options": info.options,
        "chunk_bytes": info.chunk_length,
        "chunks": info.chunk_count,
        "ratio": known.statistics.stats.compression_ratio,
    }))
}

/// Returns the numbers of partitions, rows, cells and tombstones, and of tombstones that can be
/// dropped.
fn content(known: &Known, gc_grace_s: Option<u32>) -> Value {
    let is_assumed = gc_grace_s.is_none();
    let gc_grace_s = gc_grace_s.unwrap_or(ASSUMED_GC_GRACE_S);
    let stats = &known.statistics.stats;
    let now_s = u64::try_from(time::now_seconds()).unwrap_or(0);
    let limit_s = now_s.saturating_sub(u64::from(gc_grace_s));
    let drop_times = &stats.drop_times.bins;
    let expiring: u64 = drop_times.iter().map(|(_, count)| u64::from(*count)).sum();
    let droppable = drop_times.iter().filter(|(time, _)| *time < limit_s);
    let droppable: u64 = droppable.map(|(_, count)| u64::from(*count)).sum();
    let cells = estimated_sum(&stats.cell_counts);
    // Older versions do not store whether there are partition deletions.
    let knows_partition_deletions = known.features.key_range_in_statistics;
    json!({
        "partitions": known.partition_count(),
        "rows": stats.total_rows,
        "columns_set": stats.total_columns,
        "cells_estimated": cells,
        "partition_bytes": percentiles(&stats.partition_sizes),
        "cells_per_partition": percentiles(&stats.cell_counts),
        "tombstones_and_expiring": expiring,
        "droppable": droppable,
        // Compactions compare this ratio with tombstone_threshold. It can exceed 1, because
        // deletions of rows and ranges have no cells.
        "droppable_ratio": if cells == 0 { 0.0 } else { droppable as f64 / cells as f64 },
        "gc_grace_seconds": gc_grace_s,
        "gc_grace_is_assumed": is_assumed,
        "drop_times":
            drop_times.iter().map(|(time, count)| json!([time, count])).collect::<Value>(),
        "has_partition_deletions": knows_partition_deletions.then_some(stats.has_partition_deletions),
    })
}

/// Returns the times of the writes, and the origin of the SSTable.
fn history(known: &Known) -> Value {
    let header = &known.statistics.header;
    let stats = &known.statistics.stats;
    let time_or_none = |time: u32| (time != NEVER).then_some(time);
    json!({
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
            "timestamp": header.min_timestamp,
            "local_deletion_time": header.min_local_deletion_time,
            "ttl": header.min_ttl,
        },
    })
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

/// Sums the counted values, each taken as the middle of its bucket.
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

/// Returns percentiles, each as the upper end of its bucket.
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
