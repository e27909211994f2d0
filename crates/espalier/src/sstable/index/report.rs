//! Formats the report as text.

use std::fmt::Write as _;
use std::time::Duration;

use espalier_sstable::index::bti::survey::{IndexSurvey, TrieSurvey};

use crate::sstable::progress::bytes;

/// Length of the longest bar, in characters.
const BAR: u64 = 40;

/// Returns the report, file by file.
pub fn text(name: &str, survey: &IndexSurvey, elapsed: Duration) -> String {
    let mut out = format!("{name}: walked in {:.2} s\n", elapsed.as_secs_f64());
    for trie in [&survey.partitions, &survey.rows] {
        file(trie, &mut out);
    }
    out
}

fn file(trie: &TrieSurvey, out: &mut String) {
    let what = if trie.tries == 1 { "trie" } else { "tries" };
    let _ = writeln!(
        out,
        "\n{}: {}, {} pages, {} {what}, {} nodes, {} payloads",
        trie.component,
        bytes(trie.file_bytes),
        trie.pages.len(),
        trie.tries,
        trie.nodes(),
        trie.payloads()
    );
    if trie.file_bytes == 0 {
        return;
    }
    let share = |part: u64| 100.0 * part as f64 / trie.file_bytes as f64;
    for (title, count) in [
        ("nodes", trie.node_bytes()),
        ("payloads", trie.payload_bytes()),
        ("keys and entries", trie.other_bytes),
        ("padding", trie.padding_bytes()),
    ] {
        let _ = writeln!(out, "  {title:<18} {:>10}  {:5.1} %", bytes(count), share(count));
    }
    if trie.payloads() > 0 {
        let each = trie.file_bytes as f64 / trie.payloads() as f64;
        let _ = writeln!(out, "  {:<18} {each:>10.2} bytes", "for each payload");
    }
    let _ = writeln!(out, "  kind                    nodes      bytes   payloads  their bytes");
    for (kind, tally) in trie.by_kind().filter(|(_, tally)| tally.nodes > 0) {
        let name = format!("{kind:?}");
        let _ = writeln!(
            out,
            "  {name:<18} {:>10} {:>10} {:>10} {:>12}",
            tally.nodes, tally.body_bytes, tally.payloads, tally.payload_bytes
        );
    }
    fill(trie, out);
    let levels = levels(trie);
    histogram("pages at each level (1: the root's)", &levels, out);
    histogram("pages read by a look-up", &trie.pages_of_look_ups, out);
    histogram("depth of payloads, in bytes of key", &trie.depths, out);
}

/// Appends a histogram of the pages by their fill.
fn fill(trie: &TrieSurvey, out: &mut String) {
    let mut tenths = vec![0u64; 11];
    for (number, page) in trie.pages.iter().enumerate() {
        let part = 10 * page.used_bytes() / trie.page_length(number).max(1);
        if let Some(count) = tenths.get_mut(part.min(10) as usize) {
            *count += 1;
        }
    }
    // A page that is full to the last byte belongs to the last tenth.
    let full = tenths.pop().unwrap_or(0);
    if let Some(last) = tenths.last_mut() {
        *last += full;
    }
    let _ = writeln!(out, "  pages by fill");
    let most = tenths.iter().max().copied().unwrap_or(0);
    for (tenth, count) in tenths.iter().enumerate().filter(|(_, count)| **count > 0) {
        let title = format!("{:>3} to {:>3} %", tenth * 10, tenth * 10 + 10);
        let _ = writeln!(out, "    {title:>14} {count:>10}  {}", bar(*count, most));
    }
}

/// Counts the pages by level. The level of a page is the number of pages, with this page, that a
/// look-up reads to arrive there.
fn levels(trie: &TrieSurvey) -> Vec<u64> {
    let mut levels = Vec::new();
    for page in trie.pages.iter().filter(|page| page.level > 0) {
        let level = usize::from(page.level);
        if levels.len() <= level {
            levels.resize(level + 1, 0);
        }
        levels[level] += 1;
    }
    levels
}

fn histogram(title: &str, counts: &[u64], out: &mut String) {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return;
    }
    let sum: f64 = counts.iter().enumerate().map(|(value, n)| value as f64 * *n as f64).sum();
    let _ = writeln!(out, "  {title}: {:.3} on average", sum / total as f64);
    let most = counts.iter().max().copied().unwrap_or(0);
    for (value, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let part = 100.0 * *count as f64 / total as f64;
        let bar = bar(*count, most);
        let _ = writeln!(out, "    {value:>14} {count:>10}  {part:5.1} %  {bar}");
    }
}

fn bar(count: u64, most: u64) -> String {
    let length = (BAR * count).div_ceil(most.max(1));
    "█".repeat(length as usize)
}
