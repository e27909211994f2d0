//! Draws the pages of the index: each page is a bar of its contents, in the order of the file.
//!
//! The drawing is one file without scripts or fonts. Each line has 16 pages; a bar is as wide as
//! its page, and the parts of a bar are as wide as their bytes. The number beside a bar is the
//! page's level: the number of pages, with this page, that a look-up reads to arrive there.

use std::fmt::Write as _;

use espalier_commands::svg::{document, rectangle, text};
use espalier_sstable::index::bti::survey::{IndexSurvey, PageTally, TrieSurvey};
use espalier_trie::page::layout::{KINDS, NodeKind};

/// Maximum number of drawn pages, because viewers cannot open larger drawings. In a larger index,
/// every n-th page is drawn.
const MAX_PAGES: usize = 4096;
const COLUMNS: usize = 16;
const BAR_WIDTH: f64 = 96.0;
const BAR_HEIGHT: f64 = 11.0;
const STEP_X: f64 = 112.0;
const STEP_Y: f64 = 14.0;
const LEFT: f64 = 70.0;
const PAYLOAD: &str = "#2f6fb2";
const OTHER: &str = "#6b4fa0";
const PADDING: &str = "#d9d9d9";

fn colour(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::PayloadOnly => "#9bd08a",
        NodeKind::SingleNoPayload4 => "#ffe08a",
        NodeKind::Single8 => "#ffd05c",
        NodeKind::SingleNoPayload12 => "#fdbf3b",
        NodeKind::Single16 => "#f2a81d",
        NodeKind::Sparse8 => "#f6a58b",
        NodeKind::Sparse12 => "#f08c6e",
        NodeKind::Sparse16 => "#e87352",
        NodeKind::Sparse24 => "#dc5a3a",
        NodeKind::Sparse40 => "#c64326",
        NodeKind::Dense12 => "#d87fb0",
        NodeKind::Dense16 => "#cb64a0",
        NodeKind::Dense24 => "#bb4a8f",
        NodeKind::Dense32 => "#a6367c",
        NodeKind::Dense40 => "#8e2668",
        NodeKind::LongDense => "#731853",
    }
}

/// Draws both index files, one below the other.
pub fn draw(name: &str, survey: &IndexSurvey) -> String {
    let mut body = String::new();
    let mut y = 30.0;
    text(20.0, y, 18.0, &format!("{name}: pages of the trie index"), &mut body);
    y += 24.0;
    y = legend(survey, y, &mut body);
    for trie in [&survey.partitions, &survey.rows] {
        if !trie.pages.is_empty() {
            y = file(trie, y + 18.0, &mut body);
        }
    }
    let width = LEFT + STEP_X * COLUMNS as f64 + 20.0;
    let height = y + 20.0;
    document(width, height, &body)
}

fn legend(survey: &IndexSurvey, y: f64, out: &mut String) -> f64 {
    let occurs = |kind: usize| {
        let tries = [&survey.partitions, &survey.rows];
        tries.iter().any(|trie| trie.kinds.get(kind).is_some_and(|tally| tally.nodes > 0))
    };
    let kinds = KINDS.into_iter().enumerate().filter(|(index, _)| occurs(*index));
    let mut entries: Vec<(String, &str)> =
        kinds.map(|(_, kind)| (format!("{kind:?}"), colour(kind))).collect();
    entries.push(("payload".into(), PAYLOAD));
    entries.push(("keys, footer, entries".into(), OTHER));
    entries.push(("padding".into(), PADDING));
    let mut x = 20.0;
    for (name, colour) in entries {
        rectangle(x, y - 10.0, 12.0, 12.0, colour, out);
        text(x + 16.0, y, 12.0, &name, out);
        x += 30.0 + 7.5 * name.len() as f64;
    }
    y
}

fn file(trie: &TrieSurvey, y: f64, out: &mut String) -> f64 {
    let step = trie.pages.len().div_ceil(MAX_PAGES).max(1);
    let fill = 100.0 * trie.used_bytes() as f64 / trie.file_bytes.max(1) as f64;
    let drawn = match step {
        1 => String::new(),
        step => format!("; one page of {step} is drawn"),
    };
    let title = format!(
        "{}: {} pages, {} nodes, {} payloads, {fill:.1} % full{drawn}",
        trie.component,
        trie.pages.len(),
        trie.nodes(),
        trie.payloads(),
    );
    text(20.0, y, 14.0, &title, out);
    let top = y + 10.0;
    let mut bottom = top;
    for (place, (number, tally)) in trie.pages.iter().enumerate().step_by(step).enumerate() {
        let (row, column) = (place / COLUMNS, place % COLUMNS);
        let x = LEFT + STEP_X * column as f64;
        let y = top + STEP_Y * row as f64;
        if column == 0 {
            text(20.0, y + 9.0, 9.0, &number.to_string(), out);
        }
        page(trie, number, tally, x, y, out);
        bottom = y + STEP_Y;
    }
    bottom
}

fn page(trie: &TrieSurvey, number: usize, tally: &PageTally, x: f64, y: f64, out: &mut String) {
    let length = trie.page_length(number);
    let scale = BAR_WIDTH / 4096.0;
    let used = tally.used_bytes();
    let _ = write!(
        out,
        "<g><title>page {number}: {used} of {length} bytes used, {} of payloads, level {}</title>",
        tally.payload_bytes, tally.level
    );
    rectangle(x, y, length as f64 * scale, BAR_HEIGHT, PADDING, out);
    let bodies = KINDS.into_iter().zip(&tally.body_bytes);
    let bodies = bodies.map(|(kind, bytes)| (u64::from(*bytes), colour(kind)));
    let rest = [(u64::from(tally.payload_bytes), PAYLOAD), (u64::from(tally.other_bytes), OTHER)];
    let mut at = x;
    for (bytes, colour) in bodies.chain(rest).filter(|(bytes, _)| *bytes > 0) {
        let width = bytes as f64 * scale;
        rectangle(at, y, width, BAR_HEIGHT, colour, out);
        at += width;
    }
    if tally.level > 0 {
        text(x + BAR_WIDTH + 2.0, y + 9.0, 9.0, &tally.level.to_string(), out);
    }
    out.push_str("</g>\n");
}
