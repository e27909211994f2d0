//! Writes the report as a JSON document.

use serde_json::{Value, json};

use super::super::Record;
use super::super::arguments::IndexFormatsArguments;
use super::super::figures::{ContenderFigure, LoadFigure, TestFigure};
use super::super::files::Sizes;
use super::super::published;
use super::super::wide::WideFigure;
use super::verdict::Verdict;
use crate::machine::{Machine, build};
use crate::memtable::latency::Percentiles;

/// Returns the whole document.
pub fn document(record: &Record, machine: &Machine, arguments: &IndexFormatsArguments) -> String {
    let document = json!({
        "program": { "version": env!("CARGO_PKG_VERSION"), "build": build() },
        "machine": {
            "processor": machine.processor,
            "cpus": machine.cpus,
            "memory_bytes": machine.memory_bytes,
            "kernel": machine.kernel,
            "time_s": machine.time_s,
        },
        "parameters": {
            "rows": arguments.rows,
            "legacy": arguments.legacy,
            "trie": arguments.trie,
            "sstable_summary_ratio": arguments.sstable_summary_ratio,
            "memory_percent": arguments.memory_percent,
            "enable_cache": arguments.enable_cache,
            "compression": format!("{:?}", arguments.compression).to_lowercase(),
            "p99_ms": arguments.p99_ms,
            "seconds": arguments.seconds,
            "concurrency": arguments.concurrency,
            "seed": arguments.seed,
        },
        "tests": record.tests.iter().map(test).collect::<Vec<_>>(),
        "wide_partition": record.wide.iter().map(wide).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn test(figure: &TestFigure) -> Value {
    let published = published::of(figure.population.test).map(|published| {
        json!({
            "throughput": { "legacy": published.throughput.0, "trie": published.throughput.1 },
            "p99_ms": { "legacy": published.p99_ms.0, "trie": published.p99_ms.1 },
            "ratio": published.ratio,
        })
    });
    let verdict = Verdict::of(figure);
    json!({
        "test": figure.population.test.name(),
        "rows": figure.population.entries.count,
        "partitions": figure.population.partitions,
        "memory_bytes": figure.memory_bytes,
        "row_cache_bytes": figure.row_cache_bytes,
        "device_reads_per_s": figure.device_reads_per_s,
        "published": published,
        "throughput_ratio": verdict.throughput,
        "p99_change": verdict.p99_change,
        "index_bytes_ratio": verdict.index_bytes,
        "contenders": figure.contenders.iter().map(contender).collect::<Vec<_>>(),
    })
}

fn files(sizes: &Sizes) -> Value {
    sizes.iter().map(|(name, bytes)| ((*name).to_owned(), json!(bytes))).collect()
}

fn contender(figure: &ContenderFigure) -> Value {
    json!({
        "name": figure.name,
        "version": figure.version,
        "has_trie": figure.has_trie,
        "files_bytes": files(&figure.files),
        "closed_loop": load(&figure.closed),
        "search": figure.steps.iter().map(load).collect::<Vec<_>>(),
        "highest": figure.highest.as_ref().map(load),
        "equal_load": figure.equal.as_ref().map(load),
    })
}

fn load(figure: &LoadFigure) -> Value {
    let cost = &figure.cost;
    json!({
        "rate_per_s": figure.rate,
        "done_per_s": figure.done_per_s(),
        "reads": figure.reads,
        "gave_up": figure.gave_up,
        "latency_us": percentiles(&figure.latency),
        "clock_s": cost.clock.as_secs_f64(),
        "core_s": cost.core.as_secs_f64(),
        "index": part(&cost.index),
        "data": part(&cost.data),
        "row_cache_hits": cost.row_hits,
    })
}

fn part(metrics: &espalier_sstable::PartMetrics) -> Value {
    json!({
        "page_hits": metrics.hits,
        "page_misses": metrics.misses,
        "disk_reads": metrics.reads,
        "disk_bytes": metrics.read_bytes,
    })
}

fn percentiles(latency: &Percentiles) -> Value {
    json!({
        "p50": latency.p50_us,
        "p99": latency.p99_us,
        "p999": latency.p999_us,
        "max": latency.max_us,
    })
}

fn wide(figure: &WideFigure) -> Value {
    json!({
        "name": figure.name,
        "has_trie": figure.has_trie,
        "column_index_kib": figure.column_index_kib,
        "files_bytes": files(&figure.files),
        "index_pages": { "mean": figure.index_pages.0, "most": figure.index_pages.1 },
        "data_reads": { "mean": figure.data_reads.0, "most": figure.data_reads.1 },
        "data_bytes": { "mean": figure.data_bytes.0, "most": figure.data_bytes.1 },
        "latency_us": percentiles(&figure.latency),
    })
}
