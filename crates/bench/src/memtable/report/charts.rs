//! The report as drawings: for each measure, bars that compare the kinds of memtable and the other
//! programs; stacked bars of memory; latencies over time.

use espalier_commands::svg::{Anchor, anchored_text, document, polyline, rectangle, text};

use super::text::thousands;
use crate::memtable::latency::LatencyFigure;
use crate::memtable::record::{Record, Series};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 130.0;
const BAR: f64 = 15.0;
const GAP: f64 = 10.0;
const COLOURS: [&str; 8] =
    ["#2f7d4f", "#c9772b", "#8aa0b8", "#5b4a8a", "#b8404f", "#3f8fa8", "#8a7a2f", "#777777"];
const STRUCTURE: &str = "#2f7d4f";
const CONTENT: &str = "#9bd08a";
const UNSPLIT: &str = "#8aa0b8";

/// Returns the drawings: each file's name and its content.
pub fn draw(record: &Record) -> Vec<(String, String)> {
    let mut drawings = Vec::new();
    let mut measures: Vec<_> = record.series.iter().map(|series| series.measure).collect();
    measures.dedup();
    let mut seen = Vec::new();
    for measure in measures {
        if !seen.contains(&measure) {
            seen.push(measure);
            let series: Vec<&Series> =
                record.series.iter().filter(|series| series.measure == measure).collect();
            let title = format!("{}: {} a second", measure.name(), measure.unit());
            drawings.push((file_name(measure.name()), speeds(&title, &series)));
        }
    }
    if !record.memory.is_empty() {
        drawings.push((file_name("memory"), memory(record)));
    }
    let mut whats: Vec<_> = record.latencies.iter().map(|figure| figure.what).collect();
    whats.dedup();
    for what in whats {
        let figures: Vec<_> =
            record.latencies.iter().filter(|figure| figure.what == what).collect();
        drawings.push((file_name(&format!("latency of {what}")), latency(what, &figures)));
    }
    drawings
}

fn file_name(title: &str) -> String {
    format!("{}.svg", title.replace(' ', "-"))
}

/// Draws bars of the best rounds, with a tick at the median.
fn speeds(title: &str, series: &[&Series]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for one in series {
        if !kinds.contains(&one.kind.as_str()) {
            kinds.push(&one.kind);
        }
    }
    let most = series.iter().map(|one| one.best().per_s()).fold(1.0, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / most;
    let mut body = String::new();
    let mut y = heading(title, &mut body);
    y = legend(
        &kinds.iter().copied().zip(COLOURS.into_iter().cycle()).collect::<Vec<_>>(),
        y,
        &mut body,
    );
    let mut last = "";
    for one in series {
        if one.keys != last {
            y += GAP;
            label(&one.keys, y + BAR - 4.0, &mut body);
            last = &one.keys;
        }
        let place = kinds.iter().position(|kind| *kind == one.kind).unwrap_or(0);
        let (best, median) = (one.best().per_s(), one.median().per_s());
        rectangle(LEFT, y, best * scale, BAR - 2.0, COLOURS[place % COLOURS.len()], &mut body);
        rectangle(LEFT + median * scale - 1.0, y, 1.5, BAR - 2.0, "#222", &mut body);
        text(LEFT + best * scale + 5.0, y + BAR - 4.0, 11.0, &thousands(best), &mut body);
        y += BAR;
    }
    text(LEFT, y + 18.0, 10.0, "bar: the best round by the clock; line: the median", &mut body);
    document(WIDTH, y + 30.0, &body)
}

/// Draws a bar for each shape of keys and kind of memtable: bytes per row, with the content stacked
/// on the structure.
fn memory(record: &Record) -> String {
    let most = record.memory.iter().map(|figure| figure.per_row()).fold(1.0, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / most;
    let mut body = String::new();
    let mut y = heading("memory: bytes for each row", &mut body);
    let entries = [("structure", STRUCTURE), ("content", CONTENT), ("both", UNSPLIT)];
    let entries =
        if record.memory.iter().all(|figure| figure.is_split) { &entries[..2] } else { &entries };
    y = legend(entries, y, &mut body) + GAP;
    for figure in &record.memory {
        let rows = figure.memory.rows.max(1) as f64;
        let structure = figure.memory.structure_bytes as f64 / rows * scale;
        let content = figure.memory.content_bytes as f64 / rows * scale;
        label(&format!("{}, {}", figure.keys, figure.kind), y + BAR - 4.0, &mut body);
        let colour = if figure.is_split { STRUCTURE } else { UNSPLIT };
        rectangle(LEFT, y, structure, BAR - 2.0, colour, &mut body);
        rectangle(LEFT + structure, y, content, BAR - 2.0, CONTENT, &mut body);
        let end = LEFT + structure + content + 5.0;
        text(end, y + BAR - 4.0, 11.0, &format!("{:.1}", figure.per_row()), &mut body);
        y += BAR + 3.0;
    }
    document(WIDTH, y + 16.0, &body)
}

/// Draws median, 99th percentile and maximum over time, on a logarithmic scale.
fn latency(what: &str, figures: &[&LatencyFigure]) -> String {
    const HEIGHT: f64 = 260.0;
    const LINES: [(&str, &str); 3] = [("p50", "#9bd08a"), ("p99", "#2f7d4f"), ("max", "#b8404f")];
    let mut body = String::new();
    let mut y = heading(
        &format!("latency of {what} read during writes, in µs, over the seconds"),
        &mut body,
    );
    y = legend(&LINES, y, &mut body);
    let left = 70.0;
    for figure in figures {
        let parts = figure.over_time();
        let seconds = figure.samples.last().map_or(1.0, |sample| sample.at_s).max(1e-9);
        let max_us = parts.iter().map(|(_, part)| part.max_us).fold(10.0, f64::max);
        let min_us = parts.iter().map(|(_, part)| part.p50_us).fold(max_us, f64::min);
        let top_us = 10f64.powf(max_us.log10().ceil());
        let bottom_us = 10f64.powf(min_us.clamp(1.0, top_us / 10.0).log10().floor());
        let decades = (top_us / bottom_us).log10().max(1.0);
        y += 26.0;
        let title = format!(
            "{}: {} readers, {} writes a second meanwhile",
            figure.kind,
            figure.readers,
            thousands(figure.writes_per_s)
        );
        text(left, y, 13.0, &title, &mut body);
        y += 10.0;
        let x_of = |at_s: f64| left + (WIDTH - left - 30.0) * at_s / seconds;
        let y_of = |us: f64| y + HEIGHT * (1.0 - (us.max(bottom_us) / bottom_us).log10() / decades);
        for decade in 0..=decades as i32 {
            let us = bottom_us * 10f64.powi(decade);
            rectangle(left, y_of(us), WIDTH - left - 30.0, 0.5, "#bbb", &mut body);
            anchored_text(left - 6.0, y_of(us) + 4.0, 11.0, Anchor::End, &thousands(us), &mut body);
        }
        for fifth in 0..=5 {
            let at_s = seconds * f64::from(fifth) / 5.0;
            let y = y + HEIGHT + 15.0;
            anchored_text(x_of(at_s), y, 11.0, Anchor::Middle, &format!("{at_s:.2}"), &mut body);
        }
        let pick: [fn(&super::super::latency::Percentiles) -> f64; 3] =
            [|part| part.p50_us, |part| part.p99_us, |part| part.max_us];
        for (pick, (_, colour)) in pick.into_iter().zip(LINES) {
            let points: Vec<_> =
                parts.iter().map(|(at_s, part)| (x_of(*at_s), y_of(pick(part)))).collect();
            polyline(&points, colour, &mut body);
        }
        y += HEIGHT + 20.0;
    }
    document(WIDTH, y + 16.0, &body)
}

fn heading(title: &str, out: &mut String) -> f64 {
    text(20.0, 26.0, 17.0, title, out);
    44.0
}

fn legend(entries: &[(&str, &str)], y: f64, out: &mut String) -> f64 {
    let mut x = 20.0;
    for (name, colour) in entries {
        rectangle(x, y - 9.0, 11.0, 11.0, colour, out);
        text(x + 15.0, y, 12.0, name, out);
        x += 34.0 + 7.0 * name.chars().count() as f64;
    }
    y + 8.0
}

fn label(name: &str, y: f64, out: &mut String) {
    anchored_text(LEFT - 8.0, y, 11.0, Anchor::End, name, out);
}
