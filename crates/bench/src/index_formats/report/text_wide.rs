//! Writes the experiment with the wide partition as text.

use std::fmt::Write as _;

use super::super::wide::{PUBLISHED, WideFigure};

/// Appends a table of the figures.
pub fn report(figures: &[WideFigure], out: &mut String) {
    if figures.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nOne row of a wide partition, nothing in memory: mean (most) of 200 rows\n{:<14} {:>14} \
         {:>14} {:>18} {:>9} {:>14} {:>8}",
        "", "index pages", "data reads", "data bytes", "p50 us", "row index MiB", ""
    );
    for one in figures {
        let rows = one.files.iter().find(|(name, _)| matches!(*name, "Rows.db" | "Index.db"));
        let _ = write!(
            out,
            "{:<14} {:>8.2} ({:>3}) {:>8.2} ({:>3}) {:>9.0} ({:>6}) {:>9.0} {:>14.2}",
            one.name,
            one.index_pages.0,
            one.index_pages.1,
            one.data_reads.0,
            one.data_reads.1,
            one.data_bytes.0,
            one.data_bytes.1,
            one.latency.p50_us,
            rows.map_or(0.0, |(_, bytes)| *bytes as f64 / f64::from(1 << 20)),
        );
        let published = PUBLISHED.iter().find(|published| published.0 == one.column_index_kib);
        match published.filter(|_| one.has_trie) {
            Some((_, pages, reads, bytes)) => {
                let _ = writeln!(out, "  published {pages} pages, {reads} x {} B", bytes / reads);
            }
            None => out.push('\n'),
        }
    }
}
