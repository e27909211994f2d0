//! The report as one JSON document. Its members are described in docs/bench-tool.md.

use serde_json::{Value, json};

use super::ratios::{Goal, Ratio};
use crate::arguments::MemtableArguments;
use crate::machine::{Machine, program_json};
use crate::memtable::latency::{LatencyFigure, Percentiles};
use crate::memtable::memory::MemoryFigure;
use crate::memtable::record::{Record, Series};
use crate::watch::Round;

/// Returns the whole document.
pub fn document(
    record: &Record,
    ratios: &[Ratio],
    machine: &Machine,
    arguments: &MemtableArguments,
) -> String {
    let document = json!({
        "program": program_json(),
        "machine": machine.json(),
        "arguments": self::arguments(arguments),
        "measurements": record.series.iter().map(series).collect::<Vec<_>>(),
        "memory": record.memory.iter().map(memory).collect::<Vec<_>>(),
        "latencies": record.latencies.iter().map(latency).collect::<Vec<_>>(),
        "ratios": ratios.iter().map(ratio).collect::<Vec<_>>(),
        "notes": record.notes,
    });
    format!("{document:#}\n")
}

fn arguments(arguments: &MemtableArguments) -> Value {
    json!({
        "partitions": arguments.partitions,
        "reads": arguments.reads,
        "rounds": arguments.rounds,
        "kinds": arguments.kinds,
        "keys": arguments.keys.iter().map(|shape| shape.name()).collect::<Vec<_>>(),
        "rows": arguments.rows,
        "value_bytes": arguments.value_bytes,
        "dominating": arguments.dominating,
        "readers": arguments.readers,
        "seconds": arguments.seconds,
        "seed": arguments.seed,
    })
}

fn series(series: &Series) -> Value {
    let round = |round: &Round| {
        json!({
            "operations": round.operations,
            "clock_s": round.lap.clock.as_secs_f64(),
            "core_s": round.lap.core.as_secs_f64(),
        })
    };
    json!({
        "keys": series.keys,
        "of": series.kind,
        "measure": series.measure.name(),
        "unit": series.measure.unit(),
        "best_per_s": series.best().per_s(),
        "best_per_core_s": series.best_per_core_s(),
        "median_per_s": series.median().per_s(),
        "written_bytes": series.bytes,
        "rounds": series.rounds.iter().map(round).collect::<Vec<_>>(),
    })
}

fn memory(figure: &MemoryFigure) -> Value {
    let memory = &figure.memory;
    json!({
        "keys": figure.keys,
        "of": figure.kind,
        "partitions": memory.partitions,
        "rows": memory.rows,
        "is_split": figure.is_split,
        "structure_bytes": memory.structure_bytes,
        "content_bytes": memory.content_bytes,
        "free_bytes": memory.free_bytes,
        "bytes_per_partition": figure.per_partition(),
        "bytes_per_row": figure.per_row(),
        "resident_bytes": figure.resident_bytes,
    })
}

fn percentiles(percentiles: &Percentiles) -> Value {
    json!({
        "p50_us": percentiles.p50_us,
        "p99_us": percentiles.p99_us,
        "p999_us": percentiles.p999_us,
        "max_us": percentiles.max_us,
    })
}

fn latency(figure: &LatencyFigure) -> Value {
    let part =
        |(at_s, part): &(f64, Percentiles)| json!({ "at_s": at_s, "latency": percentiles(part) });
    json!({
        "read": figure.what,
        "of": figure.kind,
        "readers": figure.readers,
        "reads": figure.samples.len(),
        "writes_per_s": figure.writes_per_s,
        "latency": percentiles(&figure.latency()),
        "service": percentiles(&figure.service()),
        "over_time": figure.over_time().iter().map(part).collect::<Vec<_>>(),
    })
}

fn ratio(ratio: &Ratio) -> Value {
    json!({
        "what": ratio.what,
        "this": ratio.ours,
        "that": ratio.theirs,
        "unit": ratio.unit,
        "by_clock": ratio.ratio,
        "by_core": ratio.core_ratio,
        "at_least": ratio.goal.and_then(|goal| match goal { Goal::AtLeast(least) => Some(least), Goal::AtMost(_) => None }),
        "at_most": ratio.goal.and_then(|goal| match goal { Goal::AtMost(most) => Some(most), Goal::AtLeast(_) => None }),
        "is_met": ratio.goal.map(|goal| goal.is_met(ratio.ratio)),
    })
}
