//! The report as one HTML file: the published table beside the measured one, and drawings for each
//! test.

use std::fmt::Write as _;

use super::super::Record;
use super::super::arguments::IndexFormatsArguments;
use super::super::figures::TestFigure;
use super::super::published;
use super::super::wide::{PUBLISHED, WideFigure};
use super::columns::{HEADS, LOADS, cells};
use super::plots;
use super::verdict::Verdict;
use crate::machine::{Machine, build};

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:900px;margin:2em auto;padding:0 \
                     1em;color:#222}\
table{border-collapse:collapse;margin:1em 0;font-size:13px}\
th,td{border-bottom:1px solid #ddd;padding:.25em .6em;text-align:right}\
th:first-child,td:first-child{text-align:left}.met{color:#2f7d4f}.missed{color:#b8404f}svg{max-width:100%;height:auto}";

/// Returns the whole document.
pub fn document(record: &Record, machine: &Machine, arguments: &IndexFormatsArguments) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Index \
         formats</title><style>{STYLE}</style></head><body>\n\
         <h1>Legacy index against trie</h1>\n<p>espalier {} ({}) on {}. Legacy {}, trie {}, \
         compression {:?}; {} seconds for each load; a load is good \
         enough with a 99th percentile of at most {} ms. One shard in one process on one core, \
         without sockets, its load generator on the same core; \
         only the typical test has a row cache. Every row that was read was compared with the row \
         that was written.</p>\n",
        env!("CARGO_PKG_VERSION"),
        build(),
        escape(&machine.line()),
        escape(&arguments.legacy),
        escape(&arguments.trie),
        arguments.compression,
        arguments.seconds,
        arguments.p99_ms,
    );
    if !record.tests.is_empty() {
        summary(record, &mut out);
    }
    for test in &record.tests {
        one(test, arguments, &mut out);
    }
    if !record.wide.is_empty() {
        wide(&record.wide, &mut out);
    }
    out.push_str("</body></html>\n");
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn table(heads: &[&str], rows: &[Vec<String>], out: &mut String) {
    out.push_str("<table><tr>");
    for head in heads {
        let _ = write!(out, "<th>{head}</th>");
    }
    for row in rows {
        out.push_str("</tr>\n<tr>");
        for cell in row {
            let _ = write!(out, "<td>{cell}</td>");
        }
    }
    out.push_str("</tr></table>\n");
}

/// Formats a figure, green if it is as good as the published one.
fn judged(
    value: Option<f64>,
    is_met: impl Fn(f64) -> bool,
    show: impl Fn(f64) -> String,
) -> String {
    match value {
        None => "none".to_owned(),
        Some(value) => {
            let class = if is_met(value) { "met" } else { "missed" };
            format!("<span class=\"{class}\">{}</span>", show(value))
        }
    }
}

fn summary(record: &Record, out: &mut String) {
    let heads = [
        "test",
        "published legacy",
        "published trie",
        "published ratio",
        "ratio here",
        "p99 at equal load",
        "index bytes legacy : trie",
        "disk reads a row, legacy",
        "trie",
    ];
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for test in &record.tests {
        let Some(published) = published::of(test.population.test) else { continue };
        let verdict = Verdict::of(test);
        let throughput = |rate: u32, p99_ms: f64| format!("{} k/s, {p99_ms} ms", rate / 1000);
        let reads = verdict.disk_reads;
        rows.push(vec![
            published.title.to_owned(),
            throughput(published.throughput.0, published.p99_ms.0),
            throughput(published.throughput.1, published.p99_ms.1),
            format!("{:.2}", published.ratio),
            judged(
                verdict.throughput,
                |ratio| ratio >= published.ratio,
                |ratio| format!("{ratio:.2}"),
            ),
            judged(
                verdict.p99_change,
                |change| published.p99_less.is_none_or(|less| change <= -less),
                |change| format!("{:+.0} %", 100.0 * change),
            ),
            judged(
                verdict.index_bytes,
                |ratio| ratio >= published::INDEX_BYTES,
                |ratio| format!("{ratio:.1} : 1"),
            ),
            reads.map_or_else(String::new, |reads| format!("{:.2}", reads.0)),
            reads.map_or_else(String::new, |reads| format!("{:.2}", reads.1)),
        ]);
        bars.push((published.title, verdict.throughput, published.ratio));
    }
    out.push_str("<h2>Beside the published figures</h2>\n");
    table(&heads, &rows, out);
    out.push_str(
        "<p>Published: ScyllaDB on three nodes of eight cores with 650 or 46 million rows, whole \
         requests over the network. Here the ratio is of \
         one core, against the better one of the legacy contenders. Index bytes: published 7 : \
         1.</p>\n",
    );
    out.push_str(&plots::ratios(&bars));
}

fn one(test: &TestFigure, arguments: &IndexFormatsArguments, out: &mut String) {
    let population = &test.population;
    let title = published::of(population.test).map_or("", |published| published.title);
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let _ = writeln!(
        out,
        "<h2>{title}</h2>\n<p>{} rows in {} partitions; {} MiB of memory, of which rows may take \
         {}; the disk gives {:.0} random reads of 4 KiB a second to one core with {} \
         under way.</p>",
        population.entries.count,
        population.partitions,
        mib(test.memory_bytes),
        mib(test.row_cache_bytes),
        test.device_reads_per_s,
        arguments.concurrency,
    );
    let files: Vec<Vec<String>> = test
        .contenders
        .iter()
        .map(|one| {
            let files: Vec<_> =
                one.files.iter().map(|(name, bytes)| format!("{name} {}", mib(*bytes))).collect();
            vec![escape(&one.name), files.join(", ")]
        })
        .collect();
    table(&["files", "MiB"], &files, out);
    let heads: Vec<String> = HEADS.iter().map(|(top, bottom)| format!("{top} {bottom}")).collect();
    let heads: Vec<&str> = [""].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let mut rows = Vec::new();
    for (what, pick) in LOADS {
        for one in &test.contenders {
            let name = format!("{what}: {}", escape(&one.name));
            let cells =
                pick(one).map_or_else(|| vec!["none".into()], |one| cells(&one, test).into());
            rows.push([vec![name], cells].concat());
        }
    }
    table(&heads, &rows, out);
    out.push_str(&plots::latency(test, arguments.p99_ms * 1e3));
    out.push_str(&plots::disk(test));
}

fn wide(figures: &[WideFigure], out: &mut String) {
    out.push_str(
        "<h2>One row of a wide partition, nothing in memory</h2>\n<p>Mean (most) of 200 single \
         rows of 300 bytes, each read with an empty cache.</p>\n",
    );
    let heads = ["", "index pages", "data reads", "data bytes", "p50 µs", "published"];
    let rows: Vec<Vec<String>> = figures
        .iter()
        .map(|one| {
            let published = PUBLISHED.iter().find(|(kib, ..)| *kib == one.column_index_kib);
            let published = published.filter(|_| one.has_trie);
            vec![
                escape(&one.name),
                format!("{:.2} ({})", one.index_pages.0, one.index_pages.1),
                format!("{:.2} ({})", one.data_reads.0, one.data_reads.1),
                format!("{:.0} ({})", one.data_bytes.0, one.data_bytes.1),
                format!("{:.0}", one.latency.p50_us),
                published.map_or_else(String::new, |(_, pages, reads, bytes)| {
                    format!("{pages} pages, {reads} × {} B", bytes / reads)
                }),
            ]
        })
        .collect();
    table(&heads, &rows, out);
}
