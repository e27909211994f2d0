//! The figures as text, in the form of perf-simple-query, and as JSON.

use espalier_runtime::perf::InstructionCounter;
use serde_json::json;

use super::arguments::SimpleQueryArguments;
use super::figures::{Iteration, Throughput};
use crate::BenchError;
use crate::machine::{Machine, build, program_json};
use crate::print_line;
use espalier_runtime::file::FileSystem;

/// If the shards' threads were on a core for less than this share of the time, other work used the
/// core or a thread waited for the disk.
const UNDISTURBED: f64 = 0.97;

/// Prints the head: the parameters of the measurement.
pub fn begin(arguments: &SimpleQueryArguments, machine: &Machine) -> Result<(), BenchError> {
    let SimpleQueryArguments { partitions, columns, value_bytes, .. } = arguments;
    print_line(format_args!(
        "espalier {} ({}) on {}\n{}{} of random rows, {partitions} partitions with {columns} \
         columns of {value_bytes} bytes, \
         sstable_format {}, compression {:?}, concurrency {}, {} shards",
        env!("CARGO_PKG_VERSION"),
        build(),
        machine.line(),
        operation(arguments),
        if arguments.absent { " (of keys that are not there)" } else { "" },
        arguments.sstable_format,
        arguments.compression,
        arguments.concurrency,
        arguments.smp,
    ))?;
    if let Err(error) = InstructionCounter::of_this_thread() {
        print_line(format_args!(
            "instructions are not counted: {error}; bench/instructions_per_query.sh counts them \
             with callgrind"
        ))?;
    }
    Ok(())
}

fn operation(arguments: &SimpleQueryArguments) -> &'static str {
    if arguments.write {
        "INSERT"
    } else if arguments.conditional {
        "UPDATE ... IF"
    } else if arguments.update {
        "UPDATE"
    } else {
        "SELECT"
    }
}

fn instructions(iteration: &Iteration) -> String {
    match iteration.instructions {
        Some(count) => format!("{:7.0} insns/op", iteration.per_operation(count)),
        None => "insns/op not counted".to_owned(),
    }
}

/// Prints the line of an iteration.
pub fn iteration(iteration: &Iteration, shards: usize) -> Result<(), BenchError> {
    print_line(format_args!("{}", line(iteration, shards)))
}

fn line(iteration: &Iteration, shards: usize) -> String {
    format!(
        "{:.2} tps ({:5.2} allocs/op, {:6.3} page reads/op, {:6.2} page hits/op, {:5.1}% of pages \
         hit, {}, {:3.0}% busy, {:6.0} ns of core/op, \
         0 errors)",
        iteration.tps(),
        iteration.per_operation(iteration.allocations),
        iteration.per_operation(iteration.page_reads),
        iteration.per_operation(iteration.page_hits),
        100.0 * iteration.hit_rate(),
        instructions(iteration),
        100.0 * iteration.busy(shards),
        iteration.core.as_secs_f64() * 1e9 / iteration.operations.max(1) as f64,
    )
}

/// Prints the statistics of all iterations, and writes the JSON file.
pub async fn end(
    arguments: &SimpleQueryArguments,
    machine: &Machine,
    iterations: &[Iteration],
) -> Result<(), BenchError> {
    let throughput = Throughput::of(iterations.iter().map(Iteration::tps));
    let shards = usize::from(arguments.smp);
    let nearest = iterations.iter().min_by(|a, b| {
        let distance = |one: &Iteration| (one.tps() - throughput.median).abs();
        distance(a).total_cmp(&distance(b))
    });
    if let Some(nearest) = nearest {
        print_line(format_args!("\nmedian {}", line(nearest, shards)))?;
    }
    print_line(format_args!("median: {:.2}", throughput.median))?;
    print_line(format_args!(
        "median absolute deviation: {:.2}",
        throughput.median_absolute_deviation
    ))?;
    print_line(format_args!(
        "maximum: {:.2}\nminimum: {:.2}",
        throughput.maximum, throughput.minimum
    ))?;
    if iterations.iter().any(|one| one.page_reads == 0 && one.busy(shards) < UNDISTURBED) {
        print_line(format_args!(
            "other work ran on a core during the measurement; repeat it on an \
             idle machine"
        ))?;
    }
    let Some(path) = &arguments.json_result else { return Ok(()) };
    let document = document(arguments, machine, iterations, &throughput);
    let written = FileSystem::real().write_atomically(path, document).await;
    written.map_err(|error| BenchError::Output { path: path.clone(), error })
}

fn document(
    arguments: &SimpleQueryArguments,
    machine: &Machine,
    iterations: &[Iteration],
    throughput: &Throughput,
) -> String {
    let shards = usize::from(arguments.smp);
    let each = |one: &Iteration| {
        json!({
            "tps": one.tps(),
            "operations": one.operations,
            "clock_s": one.clock.as_secs_f64(),
            "core_s": one.core.as_secs_f64(),
            "busy": one.busy(shards),
            "allocs_per_op": one.per_operation(one.allocations),
            "page_reads_per_op": one.per_operation(one.page_reads),
            "page_hits_per_op": one.per_operation(one.page_hits),
            "instructions_per_op": one.instructions.map(|count| one.per_operation(count)),
            "errors": 0,
        })
    };
    let document = json!({
        "program": program_json(),
        "machine": machine.json(),
        "parameters": {
            "partitions": arguments.partitions,
            "duration": arguments.duration,
            "operations_per_shard": arguments.operations_per_shard,
            "concurrency": arguments.concurrency,
            "smp": arguments.smp,
            "memory": arguments.memory,
            "file_cache_size": arguments.file_cache_size,
            "write": arguments.write,
            "update": arguments.update,
            "conditional": arguments.conditional,
            "flush": arguments.flush,
            "absent": arguments.absent,
            "enable_cache": arguments.enable_cache,
            "enable_index_cache": arguments.enable_index_cache,
            "bypass_cache": arguments.bypass_cache,
            "sstable_format": arguments.sstable_format,
            "sstable_summary_ratio": arguments.sstable_summary_ratio,
            "compression": format!("{:?}", arguments.compression).to_lowercase(),
            "columns": arguments.columns,
            "value_bytes": arguments.value_bytes,
            "random_seed": arguments.random_seed,
        },
        "stats": {
            "median tps": throughput.median,
            "mad tps": throughput.median_absolute_deviation,
            "max tps": throughput.maximum,
            "min tps": throughput.minimum,
        },
        "iterations": iterations.iter().map(each).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}
