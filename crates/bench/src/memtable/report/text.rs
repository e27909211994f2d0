//! Writes the report as text.

use std::fmt::Write as _;

use super::ratios::{Goal, Ratio, memory_goal};
use crate::arguments::MemtableArguments;
use crate::machine::{Machine, build};

use crate::memtable::record::{Record, Series};

/// Below this share of time on a core, the thread had to share the core.
const UNDISTURBED: f64 = 0.97;

/// Returns the whole report.
pub fn report(
    record: &Record,
    ratios: &[Ratio],
    machine: &Machine,
    arguments: &MemtableArguments,
) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "espalier {} ({}) on {}\n{} entries, {} reads, {} rounds, values of {} bytes, seed {}",
        env!("CARGO_PKG_VERSION"),
        build(),
        machine.line(),
        thousands(arguments.partitions as f64),
        thousands(arguments.reads as f64),
        arguments.rounds,
        arguments.value_bytes,
        arguments.seed,
    );
    measures(record, &mut out);
    memory(record, &mut out);
    latencies(record, &mut out);
    if !ratios.is_empty() {
        self::ratios(ratios, &mut out);
    }
    notes(record, machine, &mut out);
    out
}

fn measures(record: &Record, out: &mut String) {
    let _ = writeln!(
        out,
        "\n{:<12} {:<11} {:<20} {:>11} {:>11} {:>9} {:>9} {:>6} {:>7}",
        "keys", "measure", "of", "best /s", "median /s", "ns", "core ns", "busy", "MB/s"
    );
    for series in &record.series {
        let (best, median) = (series.best(), series.median());
        let _ = write!(
            out,
            "{:<12} {:<11} {:<20} {:>11} {:>11} {:>9} {:>9} {:>6}",
            series.keys,
            series.measure.name(),
            series.kind,
            thousands(best.per_s()),
            thousands(median.per_s()),
            short(1e9 / best.per_s()),
            series.best_per_core_s().map_or("–".into(), |per_s| short(1e9 / per_s)),
            if best.lap.core.is_zero() {
                "–".into()
            } else {
                format!("{:.0} %", 100.0 * best.busy())
            },
        );
        if series.bytes > 0 {
            let seconds = best.lap.clock.as_secs_f64();
            let _ = write!(out, " {:>7.0}", series.bytes as f64 / 1e6 / seconds);
        }
        out.push('\n');
    }
    out.push_str(
        "best: the fastest round by the clock; ns: its time for each; busy: the part of it on the \
         core. core ns: time on the core, the least of all rounds.\n",
    );
}

fn memory(record: &Record, out: &mut String) {
    if record.memory.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:<12} {:<20} {:>11} {:>11} {:>10} {:>9} {:>8} {:>13} {:>9} {:>9}",
        "memory",
        "of",
        "partitions",
        "rows",
        "structure",
        "content",
        "B/row",
        "B/partition",
        "free MB",
        "RSS MB"
    );
    for figure in &record.memory {
        let rows = figure.memory.rows.max(1) as f64;
        let part = |bytes: u64| {
            if figure.is_split { format!("{:.1}", bytes as f64 / rows) } else { "–".into() }
        };
        let _ = writeln!(
            out,
            "{:<12} {:<20} {:>11} {:>11} {:>10} {:>9} {:>8.1} {:>13} {:>9.1} {:>9.1}{}",
            figure.keys,
            figure.kind,
            thousands(figure.memory.partitions as f64),
            thousands(rows),
            part(figure.memory.structure_bytes),
            part(figure.memory.content_bytes),
            figure.per_row(),
            short(figure.per_partition()),
            figure.memory.free_bytes as f64 / 1e6,
            figure.resident_bytes as f64 / 1e6,
            goal(memory_goal(figure), figure.per_row()),
        );
    }
    out.push_str(
        "structure, content: bytes for each row, B/row: both. RSS: growth of the process \
         while it was written.\n",
    );
}

fn latencies(record: &Record, out: &mut String) {
    if record.latencies.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:<10} {:<16} {:>8} {:>8} {:>11} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}",
        "read",
        "of",
        "readers",
        "reads",
        "writes /s",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "read p50",
        "read p99"
    );
    for figure in &record.latencies {
        let (latency, service) = (figure.latency(), figure.service());
        let _ = writeln!(
            out,
            "{:<10} {:<16} {:>8} {:>8} {:>11} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>10.1} {:>10.1}",
            figure.what,
            figure.kind,
            figure.readers,
            thousands(figure.samples.len() as f64),
            thousands(figure.writes_per_s),
            latency.p50_us,
            latency.p99_us,
            latency.p999_us,
            latency.max_us,
            service.p50_us,
            service.p99_us,
        );
    }
    out.push_str(
        "p50 to max: by the clock, from when a read was due, each reader one row every ms or one \
         page every 10 ms, while one task never stops writing. read: without the wait.\n",
    );
}

fn ratios(ratios: &[Ratio], out: &mut String) {
    let _ = writeln!(
        out,
        "\n{:<72} {:>12} {:>12} {:>9} {:>9}",
        "ratio", "this", "that", "by clock", "by core"
    );
    for ratio in ratios {
        let figure = |value: f64| match ratio.unit {
            "/s" => format!("{}/s", thousands(value)),
            unit => format!("{value:.1} {unit}"),
        };
        let by_core = ratio.core_ratio.map_or("–".into(), |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            out,
            "{:<72} {:>12} {:>12} {:>9.2} {:>9}{}",
            ratio.what,
            figure(ratio.ours),
            figure(ratio.theirs),
            ratio.ratio,
            by_core,
            goal(ratio.goal, ratio.ratio)
        );
    }
    out.push_str(
        "ratios of the best rounds; use by clock if all were busy on the core, else by \
         core.\n",
    );
}

fn goal(goal: Option<Goal>, value: f64) -> String {
    let Some(goal) = goal else { return String::new() };
    let bound = match goal {
        Goal::AtLeast(bound) => format!("≥ {bound}"),
        Goal::AtMost(bound) => format!("≤ {bound}"),
    };
    let verdict = if goal.is_met(value) { "met" } else { "MISSED" };
    format!("  goal {bound}: {verdict}")
}

fn notes(record: &Record, machine: &Machine, out: &mut String) {
    if build() == "debug" {
        out.push_str("\nnote: this is a debug build; its figures mean nothing\n");
    }
    let is_disturbed = |series: &&Series| {
        series.bytes == 0 && !series.best().lap.core.is_zero() && series.best().busy() < UNDISTURBED
    };
    let disturbed = record.series.iter().filter(is_disturbed).count();
    if disturbed > 0 {
        let _ = writeln!(
            out,
            "\nnote: in {disturbed} measures even the best round had to share the core: use by \
             core there, not by clock"
        );
    }
    for note in machine.notice.iter().chain(&record.notes) {
        let _ = writeln!(out, "\nnote: {note}");
    }
}

/// Formats a number; below 1000 with one decimal.
fn short(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { thousands(value) }
}

/// Formats a number as `1,234,567`.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let all = [0.0, 999.4, 1000.0, 1_234_567.0].map(thousands);
        assert_eq!(all, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn goals_are_judged() {
        assert_eq!(goal(Some(Goal::AtLeast(8.0)), 7.9), "  goal ≥ 8: MISSED");
        assert_eq!(goal(Some(Goal::AtMost(96.0)), 96.0), "  goal ≤ 96: met");
        assert_eq!(goal(None, 1.0), "");
    }
}
