//! What was measured, before it is shown.

use super::latency::LatencyFigure;
use super::memory::MemoryFigure;
use crate::bench::watch::Round;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Prepared INSERTs.
    Write,
    /// Prepared SELECTs of rows that are there.
    ReadHit,
    /// Prepared SELECTs of rows that are not there.
    ReadMiss,
    /// All rows in order, by pages.
    Scan,
    /// A hundred rows.
    Slice,
    /// A hundred rows downwards.
    SliceDown,
    /// A memtable becomes an SSTable.
    Flush,
    /// Prepared SELECTs of rows of that SSTable, whose pages are in memory.
    ReadFile,
    /// Puts into a bare trie.
    RawPut,
    /// Gets from a bare trie.
    RawGet,
    /// The loop that measures.
    Loop,
}

impl Measure {
    /// As it stands in reports.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Write => "write",
            Measure::ReadHit => "read hit",
            Measure::ReadMiss => "read miss",
            Measure::Scan => "scan",
            Measure::Slice => "slice",
            Measure::SliceDown => "slice down",
            Measure::Flush => "flush",
            Measure::ReadFile => "read SSTable",
            Measure::RawPut => "raw put",
            Measure::RawGet => "raw get",
            Measure::Loop => "loop alone",
        }
    }

    /// What is counted.
    pub fn unit(self) -> &'static str {
        match self {
            Measure::Scan | Measure::Flush => "rows",
            Measure::Slice | Measure::SliceDown => "slices of 100 rows",
            _ => "operations",
        }
    }
}

/// All rounds of one measure of one kind of memtable with one sort of keys.
#[derive(Clone, Debug)]
pub struct Series {
    /// The data, such as `random`.
    pub keys: String,
    /// The kind of memtable, or who else did it.
    pub kind: String,
    /// What was done.
    pub measure: Measure,
    /// In the order in which they were run.
    pub rounds: Vec<Round>,
    /// What each round wrote to disk; 0 if nothing.
    pub bytes: u64,
}

impl Series {
    /// The fastest round by the clock.
    pub fn best(&self) -> Round {
        self.sorted().last().copied().unwrap_or_default()
    }

    /// Operations for each second on the core, of the round where there were most; `None` if that is not known.
    pub fn best_per_core_s(&self) -> Option<f64> {
        let known = self.rounds.iter().filter(|round| !round.lap.core.is_zero());
        known.map(Round::per_core_s).max_by(f64::total_cmp)
    }

    /// The round in the middle; of an even number the slower one.
    pub fn median(&self) -> Round {
        let rounds = self.sorted();
        rounds.get(rounds.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }

    /// Slowest first.
    fn sorted(&self) -> Vec<Round> {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(|one, other| one.per_s().total_cmp(&other.per_s()));
        rounds
    }
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// In the order in which they were first measured.
    pub series: Vec<Series>,
    /// What memtables took, in the largest of all rounds.
    pub memory: Vec<MemoryFigure>,
    /// Reads during writes.
    pub latencies: Vec<LatencyFigure>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

impl Record {
    /// One more round.
    pub fn add(&mut self, keys: &str, kind: &str, measure: Measure, round: Round) {
        self.add_bytes(keys, kind, measure, round, 0);
    }

    /// One more round, which wrote so many bytes to disk.
    pub fn add_bytes(
        &mut self,
        keys: &str,
        kind: &str,
        measure: Measure,
        round: Round,
        bytes: u64,
    ) {
        let found = self
            .series
            .iter_mut()
            .find(|series| series.measure == measure && series.keys == keys && series.kind == kind);
        match found {
            Some(series) => series.rounds.push(round),
            None => self.series.push(Series {
                keys: keys.to_owned(),
                kind: kind.to_owned(),
                measure,
                rounds: vec![round],
                bytes,
            }),
        }
    }

    /// What a memtable took. Of several rounds the one counts in which the process grew most: in others it had memory left over
    /// from the round before.
    pub fn add_memory(&mut self, figure: MemoryFigure) {
        let found = self
            .memory
            .iter_mut()
            .find(|other| other.keys == figure.keys && other.kind == figure.kind);
        match found {
            Some(other) if other.resident_bytes < figure.resident_bytes => *other = figure,
            Some(_) => {}
            None => self.memory.push(figure),
        }
    }

    /// What was measured of it.
    pub fn find(&self, keys: &str, kind: &str, measure: Measure) -> Option<&Series> {
        self.series
            .iter()
            .find(|series| series.measure == measure && series.keys == keys && series.kind == kind)
    }
}
