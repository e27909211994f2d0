//! The columns of a table of loads. Figures of index, data and core are for each row that was read.

use super::super::figures::{ContenderFigure, LoadFigure, TestFigure};

/// The head of each column, in two lines.
pub const HEADS: [(&str, &str); 13] = [
    ("", "reads/s"),
    ("p50", "us"),
    ("p99", "us"),
    ("p99.9", "us"),
    ("rows", "hit"),
    ("index", "pages"),
    ("index", "reads"),
    ("index", "bytes"),
    ("data", "reads"),
    ("data", "bytes"),
    ("core", "us"),
    ("core", "busy %"),
    ("of the", "disk %"),
];

/// Returns the cells of one load.
pub fn cells(figure: &LoadFigure, test: &TestFigure) -> [String; 13] {
    let (latency, cost) = (&figure.latency, &figure.cost);
    let busy = cost.core.as_secs_f64() / cost.clock.as_secs_f64().max(1e-9);
    [
        format!("{:.0}", figure.rate),
        format!("{:.0}", latency.p50_us),
        format!("{:.0}", latency.p99_us),
        format!("{:.0}", latency.p999_us),
        format!("{:.2}", figure.each(cost.row_hits)),
        format!("{:.2}", figure.index_pages()),
        format!("{:.3}", figure.each(cost.index.reads)),
        format!("{:.0}", figure.each(cost.index.read_bytes)),
        format!("{:.3}", figure.each(cost.data.reads)),
        format!("{:.0}", figure.each(cost.data.read_bytes)),
        format!("{:.2}", figure.core_us()),
        format!("{:.0}", 100.0 * busy),
        format!("{:.0}", 100.0 * figure.of_the_disk(test.device_reads_per_s)),
    ]
}

/// The loads of a contender that are shown.
pub const LOADS: [(&str, fn(&ContenderFigure) -> Option<LoadFigure>); 3] = [
    ("as fast as it goes", |one| Some(one.closed)),
    ("highest that is good enough", |one| one.highest),
    ("equal load", |one| one.equal),
];
