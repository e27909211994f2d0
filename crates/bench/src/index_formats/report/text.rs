//! Writes the report as text.

use std::fmt::Write as _;

use super::super::Record;
use super::super::arguments::IndexFormatsArguments;
use super::super::figures::TestFigure;
use super::super::published;
use super::columns::{HEADS, LOADS, cells};
use super::text_wide;
use super::verdict::Verdict;
use crate::machine::{Machine, build};

/// Returns the whole report.
pub fn report(record: &Record, machine: &Machine, arguments: &IndexFormatsArguments) -> String {
    let mut out = format!(
        "espalier {} ({}) on {}\nlegacy {} against trie {}, compression {:?}, every row was \
         compared with the written one\n",
        env!("CARGO_PKG_VERSION"),
        build(),
        machine.line(),
        arguments.legacy,
        arguments.trie,
        arguments.compression,
    );
    if let Some(notice) = &machine.notice {
        let _ = writeln!(out, "{notice}");
    }
    for test in &record.tests {
        one(test, &mut out);
    }
    text_wide::report(&record.wide, &mut out);
    out
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn one(test: &TestFigure, out: &mut String) {
    let population = &test.population;
    let title = published::of(population.test).map_or("", |published| published.title);
    let _ = writeln!(
        out,
        "\n{title}\n{} rows in {} partitions, {:.1} MiB of memory, of which rows may take {:.1}",
        population.entries.count,
        population.partitions,
        mebibytes(test.memory_bytes),
        mebibytes(test.row_cache_bytes)
    );
    for one in &test.contenders {
        let files: Vec<_> = one
            .files
            .iter()
            .map(|(name, bytes)| format!("{name} {:.1}", mebibytes(*bytes)))
            .collect();
        let _ = writeln!(out, "  {:<16} MiB: {}", one.name, files.join(", "));
    }
    for line in 0..2 {
        let _ = write!(out, "{:<18}", "");
        for (top, bottom) in HEADS {
            let _ = write!(out, " {:>8}", if line == 0 { top } else { bottom });
        }
        out.push('\n');
    }
    for (what, pick) in LOADS {
        let _ = writeln!(out, "{what}");
        for one in &test.contenders {
            let _ = write!(out, "  {:<16}", one.name);
            match pick(one) {
                None => out.push_str("     none"),
                Some(figure) => {
                    for cell in cells(&figure, test) {
                        let _ = write!(out, " {cell:>8}");
                    }
                }
            }
            out.push('\n');
        }
    }
    ratios(test, out);
}

fn ratios(test: &TestFigure, out: &mut String) {
    let verdict = Verdict::of(test);
    let published = published::of(test.population.test);
    if let (Some(ratio), Some(published)) = (verdict.throughput, published) {
        let _ = writeln!(
            out,
            "trie : legacy  {ratio:.2} x throughput (published {:.2} x: {} k/s and {} k/s)",
            published.ratio,
            published.throughput.0 / 1000,
            published.throughput.1 / 1000
        );
    }
    if let Some(change) = verdict.p99_change {
        let _ = writeln!(out, "at equal load  p99 {:+.0} %", 100.0 * change);
    }
    if let Some(ratio) = verdict.index_bytes {
        let published = published::INDEX_BYTES;
        let _ = writeln!(
            out,
            "               index bytes from the disk {ratio:.1} : 1 (published {published} : 1)"
        );
    }
    if let Some((legacy, trie)) = verdict.disk_reads {
        let _ = writeln!(
            out,
            "               reads from the disk for each row {legacy:.2} and {trie:.2}"
        );
    }
    let _ = writeln!(
        out,
        "the disk gives {:.0} random reads of 4 KiB a second to this core",
        test.device_reads_per_s
    );
}
