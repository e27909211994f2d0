//! Drawings: latency over load and disk bytes for each row of one test, and the ratios of all
//! tests.

use espalier_commands::svg::{Anchor, anchored_text, document, polyline, rectangle, text};

use super::super::figures::{ContenderFigure, LoadFigure, TestFigure};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 30.0;
const HEIGHT: f64 = 260.0;
const BAR: f64 = 18.0;

/// Returns a contender's colour: green for the trie, one of two others by position for the rest.
pub fn colour(one: &ContenderFigure, at: usize) -> &'static str {
    if one.has_trie { "#2f7d4f" } else { ["#c9772b", "#8aa0b8"][at % 2] }
}

/// Draws the 99th percentile over the rate, both logarithmic, of all steps of the search, with a
/// line at the limit.
pub fn latency(test: &TestFigure, limit_us: f64) -> String {
    let steps = || test.contenders.iter().flat_map(|one| &one.steps);
    let range = |pick: fn(&LoadFigure) -> f64, first: f64| {
        let values = || steps().map(pick).filter(|value| *value > 0.0).chain([first]);
        let least = values().fold(f64::MAX, f64::min) / 1.2;
        let most = values().fold(0.0, f64::max) * 1.2;
        (least, most)
    };
    let rate = test.contenders.first().map_or(1.0, |one| one.closed.rate);
    let (low_rate, high_rate) = range(|step| step.rate, rate);
    let (low_us, high_us) = range(|step| step.latency.p99_us, limit_us);
    let place = |value: f64, low: f64, high: f64| (value / low).ln() / (high / low).ln();
    let x_of = |rate: f64| LEFT + (WIDTH - LEFT - RIGHT) * place(rate, low_rate, high_rate);
    let mut body = String::new();
    let title = "99th percentile in µs over reads a second, every step of the search";
    text(20.0, 24.0, 15.0, title, &mut body);
    let top = legend(test, 42.0, &mut body);
    let y_of = |us: f64| top + HEIGHT * (1.0 - place(us.max(low_us), low_us, high_us));
    for us in ticks(low_us, high_us) {
        rectangle(LEFT, y_of(us), WIDTH - LEFT - RIGHT, 0.5, "#bbb", &mut body);
        anchored_text(LEFT - 6.0, y_of(us) + 4.0, 11.0, Anchor::End, &number(us), &mut body);
    }
    for rate in ticks(low_rate, high_rate) {
        rectangle(x_of(rate), top, 0.5, HEIGHT, "#ddd", &mut body);
        let y = top + HEIGHT + 15.0;
        anchored_text(x_of(rate), y, 11.0, Anchor::Middle, &number(rate), &mut body);
    }
    rectangle(LEFT, y_of(limit_us), WIDTH - LEFT - RIGHT, 1.5, "#b8404f", &mut body);
    for (at, one) in test.contenders.iter().enumerate() {
        let mut points: Vec<_> =
            one.steps.iter().map(|step| (x_of(step.rate), y_of(step.latency.p99_us))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        polyline(&points, colour(one, at), &mut body);
        for (x, y) in points {
            rectangle(x - 2.5, y - 2.5, 5.0, 5.0, colour(one, at), &mut body);
        }
    }
    document(WIDTH, top + HEIGHT + 26.0, &body)
}

/// Draws the bytes from the disk for each row at equal load: first of the index, then of the data.
pub fn disk(test: &TestFigure) -> String {
    let mut body = String::new();
    let title = "bytes from the disk for each row at equal load: index (dark), data (light)";
    text(20.0, 24.0, 15.0, title, &mut body);
    let mut y = 42.0;
    let parts = |one: &LoadFigure| {
        (one.each(one.cost.index.read_bytes), one.each(one.cost.data.read_bytes))
    };
    let all = test.contenders.iter().filter_map(|one| one.equal.as_ref()).map(parts);
    let most = all.map(|(index, data)| index + data).fold(1.0, f64::max);
    let left = 150.0;
    let scale = (WIDTH - left - 190.0) / most;
    for one in &test.contenders {
        let Some(figure) = &one.equal else { continue };
        let (index, data) = parts(figure);
        anchored_text(left - 8.0, y + 13.0, 12.0, Anchor::End, &one.name, &mut body);
        rectangle(left, y, index * scale, BAR - 3.0, "#7a4a1c", &mut body);
        rectangle(left + index * scale, y, data * scale, BAR - 3.0, "#e3c19f", &mut body);
        let label = format!("{} + {}", number(index), number(data));
        text(left + (index + data) * scale + 6.0, y + 13.0, 12.0, &label, &mut body);
        y += BAR;
    }
    document(WIDTH, y + 12.0, &body)
}

/// Draws the ratio of throughput of all tests, measured beside published.
pub fn ratios(rows: &[(&str, Option<f64>, f64)]) -> String {
    let mut body = String::new();
    text(20.0, 24.0, 15.0, "throughput of the trie for each one of legacy", &mut body);
    let left = 290.0;
    let values = rows.iter().flat_map(|(_, ours, published)| [ours.unwrap_or(0.0), *published]);
    let scale = (WIDTH - left - 110.0) / values.fold(1.0, f64::max);
    let mut y = 42.0;
    for (title, ours, published) in rows {
        anchored_text(left - 8.0, y + 20.0, 12.0, Anchor::End, title, &mut body);
        let bars = [(*published, "#8aa0b8", "published"), (ours.unwrap_or(0.0), "#2f7d4f", "here")];
        for (value, colour, who) in bars {
            rectangle(left, y, value * scale, BAR - 3.0, colour, &mut body);
            let label = format!("{value:.2} {who}");
            text(left + value * scale + 6.0, y + 13.0, 12.0, &label, &mut body);
            y += BAR;
        }
        y += 8.0;
    }
    // A line marks the throughput of the legacy index.
    rectangle(left + scale, 36.0, 1.0, y - 40.0, "#b8404f", &mut body);
    document(WIDTH, y + 8.0, &body)
}

fn legend(test: &TestFigure, y: f64, out: &mut String) -> f64 {
    let mut x = 20.0;
    for (at, one) in test.contenders.iter().enumerate() {
        rectangle(x, y - 9.0, 11.0, 11.0, colour(one, at), out);
        text(x + 15.0, y, 12.0, &one.name, out);
        x += 40.0 + 7.0 * one.name.chars().count() as f64;
    }
    y + 14.0
}

/// Returns 1, 2 and 5 of each decade between two values.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)));
    all.filter(|tick| (low..=high).contains(tick)).collect()
}

fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.1} M", value / 1e6),
        value if value >= 10_000.0 => format!("{:.0} k", value / 1e3),
        value if value >= 1000.0 => format!("{:.1} k", value / 1e3),
        value => format!("{value:.0}"),
    }
}
