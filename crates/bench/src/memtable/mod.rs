//! `espalier bench memtable`: measures memtables, by kind of memtable and shape of keys.
//!
//! For each shape, the kinds take turns, round by round: a new table is filled, read in all ways,
//! flushed and dropped. Every row that is read is checked, and a wrong row ends the measurement.

mod block;
mod concurrent;
mod dominating;
mod flush;
mod keys;
pub(crate) mod latency;
mod memory;
mod peers;
mod points;
mod raw;
mod record;
mod report;
mod scans;
mod tables;
mod verify;

pub use keys::{KeyShape, scatter};

use std::rc::Rc;

use espalier_runtime::cpu::pin_current_thread;
use espalier_runtime::{block_on, memory::resident_bytes, random::Generator};

use espalier_storage::MemtableMemory;

use super::BenchError;
use super::arguments::{MemtableArguments, Part};
use super::machine::Machine;
use super::node::InProcessNode;
use super::progress::Progress;
use block::Data;
use keys::Population;
use memory::MemoryFigure;
use record::{Measure, Record};
use tables::Table;

pub fn run(arguments: &MemtableArguments) -> Result<(), BenchError> {
    let machine = Machine::this();
    if let Some(core) = arguments.core.or(machine.cpus.last().copied()) {
        pin_current_thread(core).map_err(|error| BenchError::Core { core, error })?;
    }
    block_on(async {
        let record = measure(arguments).await?;
        report::give(&record, &machine, arguments).await
    })
}

/// State that all parts of the measurement use.
struct Bench<'a> {
    arguments: &'a MemtableArguments,
    node: Rc<InProcessNode>,
    record: Record,
    progress: Progress,
    tables_made: u64,
}

/// More memory than any measurement uses, so that memtables are flushed only on request.
const MEMTABLE_BYTES: usize = 1 << 40;

async fn measure(arguments: &MemtableArguments) -> Result<Record, BenchError> {
    let node = Rc::new(InProcessNode::open(&arguments.node.workdir, MEMTABLE_BYTES).await?);
    // Reads of SSTables must not be answered by the row cache.
    node.database().store().row_cache().set_limit(0);
    let (record, progress) = (Record::default(), Progress::new());
    let mut bench = Bench { arguments, node, record, progress, tables_made: 0 };
    let outcome = Box::pin(bench.all()).await;
    bench.progress.clear();
    // The directory is removed whatever the outcome.
    let closed = InProcessNode::close_shared(bench.node).await;
    outcome?;
    closed.map(|()| bench.record)
}

impl Bench<'_> {
    async fn all(&mut self) -> Result<(), BenchError> {
        tables::create_keyspace(&self.node).await?;
        let cassandra =
            if self.has(Part::Cassandra) { Box::pin(self.cassandra()).await? } else { None };
        if let Some(cassandra) = &cassandra {
            self.run_cassandra(cassandra, "before").await?;
        }
        for &shape in &self.arguments.keys {
            for round in 1..=self.arguments.rounds {
                for kind in &self.arguments.kinds {
                    self.shape(shape, kind, round).await?;
                }
            }
        }
        if let Some(cassandra) = &cassandra {
            self.run_cassandra(cassandra, "after").await?;
        }
        if self.has(Part::Raw) {
            Box::pin(self.raw()).await?;
        }
        if self.has(Part::Dominating) {
            Box::pin(self.dominating()).await?;
        }
        if self.has(Part::Readers) && self.arguments.readers > 0 {
            Box::pin(self.concurrent()).await?;
        }
        Ok(())
    }

    fn has(&self, part: Part) -> bool {
        !self.arguments.skip.contains(&part)
    }

    async fn table(&mut self, kind: &str, population: Population) -> Result<Table, BenchError> {
        self.tables_made += 1;
        let name = format!("t{}", self.tables_made);
        Table::create(&self.node, &name, kind, population).await
    }

    /// Runs one round of one shape and kind.
    async fn shape(&mut self, shape: KeyShape, kind: &str, round: u32) -> Result<(), BenchError> {
        let arguments = self.arguments;
        let count = arguments.partitions;
        let population = Population::Shape { shape, rows: arguments.rows.unwrap_or(count) };
        let data = Data { population, count, value_bytes: arguments.value_bytes as usize };
        let keys = shape.name();
        let what = |measure| {
            format!("{measure}, {keys} keys, {kind}, round {round} of {}", arguments.rounds)
        };
        let mut random = Generator::from_seed(arguments.seed);
        let table = self.table(kind, population).await?;
        let (node, record, progress) = (&self.node, &mut self.record, &mut self.progress);
        let (resident, flushes) =
            (resident_bytes(), node.database().store().metrics().flushes.done);

        let mut step = progress.step(what("write"), count);
        let written = points::write(node, &table, &data, &mut step).await?;
        record.add(keys, kind, Measure::Write, written);
        let resident_bytes = resident_bytes().saturating_sub(resident);
        let memory = node.database().store().memtable_memory(tables::KEYSPACE, &table.name);
        let memory = memory.unwrap_or_default();
        if node.database().store().metrics().flushes.done > flushes {
            let reason = format!(
                "{count} entries are too many: a {kind} memtable came near its own limit and was \
                 flushed"
            );
            return Err(BenchError::Wrong(reason));
        }
        check_counts(&data, &memory)?;
        let (keys_of, kind_of) = (keys.to_owned(), kind.to_owned());
        record.add_memory(MemoryFigure {
            keys: keys_of,
            kind: kind_of,
            memory,
            is_split: true,
            resident_bytes,
        });

        for (measure, absent) in [(Measure::ReadHit, false), (Measure::ReadMiss, true)] {
            let mut step = progress.step(what(measure.name()), arguments.reads);
            let random = &mut random;
            let read =
                points::read(node, &table, &data, arguments.reads, absent, random, &mut step)
                    .await?;
            record.add(keys, kind, measure, read);
        }
        let idle = points::idle(&data, arguments.reads, &mut random).await;
        record.add(keys, "no node", Measure::Loop, idle);
        Box::pin(self.bulk(&table, &data, keys, kind, &what, &mut random)).await?;
        table.drop(&self.node).await
    }

    /// Measures scan, slices, flush, and reads of the flushed rows.
    async fn bulk(
        &mut self,
        table: &Table,
        data: &Data,
        keys: &str,
        kind: &str,
        what: &impl Fn(&'static str) -> String,
        random: &mut Generator,
    ) -> Result<(), BenchError> {
        let (slice, has_flush) = (self.has(Part::Slice), self.has(Part::Flush));
        let (node, record, progress) = (&self.node, &mut self.record, &mut self.progress);
        if !self.arguments.skip.contains(&Part::Scan) {
            let mut step = progress.step(what("scan"), data.count);
            let (scanned, order) = scans::scan(node, table, data, &mut step).await?;
            record.add(keys, kind, Measure::Scan, scanned);
            let slices = (self.arguments.reads / 100).max(1);
            for (measure, down) in [(Measure::Slice, false), (Measure::SliceDown, true)] {
                if slice && (!down || table.slice_down.is_some()) {
                    let mut step = progress.step(what(measure.name()), slices);
                    let sliced =
                        scans::slices(node, table, data, &order, slices, down, random, &mut step);
                    record.add(keys, kind, measure, sliced.await?);
                }
            }
        }
        if has_flush {
            let mut step = progress.step(what("flush"), 1);
            let (flushed, bytes) = flush::flush(node, table, data, random, &mut step).await?;
            record.add_bytes(keys, kind, Measure::Flush, flushed, bytes);
            let reads = self.arguments.reads;
            let mut step = progress.step(what(Measure::ReadFile.name()), reads);
            let read = points::read(node, table, data, reads, false, random, &mut step).await?;
            record.add(keys, kind, Measure::ReadFile, read);
        }
        Ok(())
    }
}

/// Checks that the memtable counts exactly the partitions and rows that were written.
fn check_counts(data: &Data, memory: &MemtableMemory) -> Result<(), BenchError> {
    let expected = (data.population.partitions(data.count), data.count);
    if (memory.partitions, memory.rows) != expected {
        return Err(BenchError::Wrong(format!(
            "the memtable counts {} partitions and {} rows, and was given {} and {}",
            memory.partitions, memory.rows, expected.0, expected.1
        )));
    }
    Ok(())
}
