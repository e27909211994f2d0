//! The figures of a run, before they are reported.

use super::latency::LatencyFigure;
use super::memory::MemoryFigure;
use crate::watch::Round;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Prepared INSERTs.
    Write,
    /// Prepared SELECTs of present rows.
    ReadHit,
    /// Prepared SELECTs of absent rows.
    ReadMiss,
    /// All rows in order, page by page.
    Scan,
    /// A hundred rows upwards.
    Slice,
    /// A hundred rows downwards.
    SliceDown,
    /// A flush of a memtable to an SSTable.
    Flush,
    /// Prepared SELECTs of rows of that SSTable, with its pages in memory.
    ReadFile,
    /// Puts into a bare trie.
    RawPut,
    /// Gets from a bare trie.
    RawGet,
    /// The measuring loop alone.
    Loop,
}

impl Measure {
    /// Returns the name in reports.
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

    /// Returns the unit of the operations.
    pub fn unit(self) -> &'static str {
        match self {
            Measure::Scan | Measure::Flush => "rows",
            Measure::Slice | Measure::SliceDown => "slices of 100 rows",
            _ => "operations",
        }
    }
}

/// All rounds of one measure of one kind of memtable with one shape of keys.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name of the data, such as `random`.
    pub keys: String,
    /// Kind of memtable, or name of the peer.
    pub kind: String,
    /// The kind of operation.
    pub measure: Measure,
    /// The rounds, in the order in which they ran.
    pub rounds: Vec<Round>,
    /// Bytes that the first round wrote to disk; 0 if none.
    pub bytes: u64,
}

impl Series {
    /// Returns the fastest round by the clock.
    pub fn best(&self) -> Round {
        self.sorted().last().copied().unwrap_or_default()
    }

    /// Returns the operations for each second of core time, of the round with the most; `None` if
    /// the core time is unknown.
    pub fn best_per_core_s(&self) -> Option<f64> {
        let known = self.rounds.iter().filter(|round| !round.lap.core.is_zero());
        known.map(Round::per_core_s).max_by(f64::total_cmp)
    }

    /// Returns the median round; of an even number, the slower of the middle two.
    pub fn median(&self) -> Round {
        let rounds = self.sorted();
        rounds.get(rounds.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }

    /// Returns the rounds, slowest first.
    fn sorted(&self) -> Vec<Round> {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(|one, other| one.per_s().total_cmp(&other.per_s()));
        rounds
    }
}

/// All figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The series, in the order in which they were first measured.
    pub series: Vec<Series>,
    /// Memory of memtables, in the round in which the process grew most.
    pub memory: Vec<MemoryFigure>,
    /// Reads during writes.
    pub latencies: Vec<LatencyFigure>,
    /// Parts that were not measured, each with the reason, and warnings of other programs.
    pub notes: Vec<String>,
}

impl Record {
    /// Adds a round.
    pub fn add(&mut self, keys: &str, kind: &str, measure: Measure, round: Round) {
        self.add_bytes(keys, kind, measure, round, 0);
    }

    /// Adds a round that wrote `bytes` bytes to disk.
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

    /// Adds the memory of a memtable. The round in which the process grew most counts, because in
    /// other rounds the allocator reused memory of the round before.
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

    /// Returns the series of these keys, this kind and this measure.
    pub fn find(&self, keys: &str, kind: &str, measure: Measure) -> Option<&Series> {
        self.series
            .iter()
            .find(|series| series.measure == measure && series.keys == keys && series.kind == kind)
    }
}
