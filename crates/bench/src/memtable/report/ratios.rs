//! Ratios of speed and of memory between figures of the same run.
//!
//! Best rounds are compared, because Java's first rounds run before its compiler is done. There are
//! two ratios of speeds: by the clock, of the rounds that are best by the clock, and by the time on
//! a core, of the rounds that are best by that time. If the machine had other work, only the ratio
//! by the core is meaningful.

use crate::arguments::MemtableArguments;
use crate::memtable::memory::MemoryFigure;
use crate::memtable::peers::{CASSANDRA, ROCKSDB};
use crate::memtable::record::{Measure, Record, Series};

/// The project's goal for a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The minimum of the ratio.
    AtLeast(f64),
    /// The maximum of the ratio.
    AtMost(f64),
}

impl Goal {
    /// Returns true if a ratio meets the goal.
    pub fn is_met(self, ratio: f64) -> bool {
        match self {
            Goal::AtLeast(goal) => ratio >= goal,
            Goal::AtMost(goal) => ratio <= goal,
        }
    }
}

/// One figure divided by another.
#[derive(Clone, Debug)]
pub struct Ratio {
    /// Description of both figures.
    pub what: String,
    /// The figure in question.
    pub ours: f64,
    /// The figure that it is compared with.
    pub theirs: f64,
    /// Unit of both figures.
    pub unit: &'static str,
    /// Ratio by the clock.
    pub ratio: f64,
    /// Ratio by the time on a core; `None` for memory, or if a core time is unknown.
    pub core_ratio: Option<f64>,
    /// The project's goal, if it has one.
    pub goal: Option<Goal>,
}

/// Returns all ratios that the record allows.
pub fn ratios(record: &Record, arguments: &MemtableArguments) -> Vec<Ratio> {
    let mut all = Vec::new();
    for kind in &arguments.kinds {
        beside_cassandra(record, kind, &mut all);
    }
    if arguments.kinds.iter().any(|kind| kind == TRIE) {
        for other in arguments.kinds.iter().filter(|kind| *kind != TRIE) {
            beside_other_kind(record, other, &mut all);
        }
    }
    for kind in &arguments.kinds {
        wide_beside_small(record, kind, &mut all);
    }
    for measure in [Measure::RawPut, Measure::RawGet] {
        let goal = Some(Goal::AtLeast(5.0));
        let what = format!("{} of the bare trie to RocksDB's skip list", measure.name());
        all.extend(speeds(record, what, ("raw", TRIE), ("raw", ROCKSDB), measure, goal));
    }
    all
}

const TRIE: &str = "trie";

fn beside_cassandra(record: &Record, kind: &str, all: &mut Vec<Ratio>) {
    let theirs = format!("{CASSANDRA} {kind}");
    let measures = [
        Measure::Write,
        Measure::ReadHit,
        Measure::ReadMiss,
        Measure::Scan,
        Measure::Slice,
        Measure::Flush,
        Measure::ReadFile,
    ];
    for measure in measures {
        let is_goal =
            !matches!(measure, Measure::Scan | Measure::Slice | Measure::Flush) && kind == TRIE;
        let goal = is_goal.then_some(Goal::AtLeast(8.0));
        let what = format!("{}, {kind} to {theirs}", measure.name());
        all.extend(speeds(record, what, ("random", kind), ("random", &theirs), measure, goal));
    }
    let what = format!("memory per partition, {kind} to {theirs}");
    all.extend(memory(record, what, ("random", kind), ("random", &theirs), None));
}

/// Adds the ratios of the trie to another kind.
fn beside_other_kind(record: &Record, other: &str, all: &mut Vec<Ratio>) {
    for series in record.series.iter().filter(|series| series.kind == TRIE) {
        let (keys, measure) = (series.keys.as_str(), series.measure);
        let goal = match measure {
            _ if other != "skiplist" || keys != "random" => None,
            Measure::Write => Some(Goal::AtLeast(2.5)),
            Measure::ReadHit => Some(Goal::AtLeast(2.0)),
            _ => None,
        };
        let what = format!("{}, {keys}, {TRIE} to {other}", measure.name());
        all.extend(speeds(record, what, (keys, TRIE), (keys, other), measure, goal));
    }
    for figure in record.memory.iter().filter(|figure| figure.kind == TRIE) {
        let keys = figure.keys.as_str();
        let goal = (other == "skiplist" && keys == "random").then_some(Goal::AtMost(0.7));
        let what = format!("memory per row, {keys}, {TRIE} to {other}");
        all.extend(memory(record, what, (keys, TRIE), (keys, other), goal));
    }
}

/// Adds the ratios of costs (not speeds): a row of a wide partition to a small partition.
fn wide_beside_small(record: &Record, kind: &str, all: &mut Vec<Ratio>) {
    for measure in [Measure::Write, Measure::ReadHit, Measure::Slice] {
        let wide = record.find("wide", kind, measure);
        let small = record.find("random", kind, measure);
        if let (Some(wide), Some(small)) = (wide, small) {
            let core_ratio = core_ratio(small, wide);
            let (wide, small) = (wide.best(), small.best());
            all.push(Ratio {
                what: format!(
                    "cost of a {}, row of a wide partition to small partition, {kind}",
                    measure.name()
                ),
                ours: 1e9 / wide.per_s(),
                theirs: 1e9 / small.per_s(),
                unit: "ns",
                ratio: small.per_s() / wide.per_s(),
                core_ratio,
                goal: Some(Goal::AtMost(1.5)),
            });
        }
    }
    let what = format!("memory per row, row of a wide partition to small partition, {kind}");
    all.extend(memory(record, what, ("wide", kind), ("random", kind), Some(Goal::AtMost(1.5))));
}

fn speeds(
    record: &Record,
    what: String,
    ours: (&str, &str),
    theirs: (&str, &str),
    measure: Measure,
    goal: Option<Goal>,
) -> Option<Ratio> {
    let ours = record.find(ours.0, ours.1, measure)?;
    let theirs = record.find(theirs.0, theirs.1, measure)?;
    let core_ratio = core_ratio(ours, theirs);
    let (ours, theirs) = (ours.best().per_s(), theirs.best().per_s());
    Some(Ratio { what, ours, theirs, unit: "/s", ratio: ours / theirs, core_ratio, goal })
}

fn core_ratio(ours: &Series, theirs: &Series) -> Option<f64> {
    Some(ours.best_per_core_s()? / theirs.best_per_core_s()?)
}

fn memory(
    record: &Record,
    what: String,
    ours: (&str, &str),
    theirs: (&str, &str),
    goal: Option<Goal>,
) -> Option<Ratio> {
    let find = |(keys, kind): (&str, &str)| {
        record.memory.iter().find(|figure| figure.keys == keys && figure.kind == kind)
    };
    let (ours, theirs) = (find(ours)?.per_row(), find(theirs)?.per_row());
    let (ratio, unit) = (ours / theirs, "bytes");
    Some(Ratio { what, ours, theirs, unit, ratio, core_ratio: None, goal })
}

/// Returns the goal for the memory of a partition, in bytes.
pub fn memory_goal(figure: &MemoryFigure) -> Option<Goal> {
    (figure.kind == TRIE && figure.keys == "random").then_some(Goal::AtMost(96.0))
}
