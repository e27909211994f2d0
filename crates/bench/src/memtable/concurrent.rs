//! Measures reads during writes: reader tasks run on the memtable's shard, as the connections of a
//! node do.
//!
//! For each reader a read of a row is due every millisecond, or a read of a page every ten
//! milliseconds, even if the reader's last read was slow, so that reads behind a slow read count as
//! slow. One writer writes as fast as it can and yields as any task does. Reads are checked: a row
//! that was written is there, and a page has all rows of its range that were written before the
//! page was requested.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use espalier_cql::Value;
use espalier_runtime::random::Generator;
use espalier_runtime::time::{Instant, sleep_until};
use espalier_runtime::{maybe_yield, spawn_local};

use super::Bench;
use super::block::{BLOCK, Data};
use super::keys::{KeyShape, Population};
use super::latency::{LatencyFigure, Sample};
use super::tables::Table;
use super::verify::RowCheck;
use crate::BenchError;
use crate::node::{Found, InProcessNode};

const PERIOD: Duration = Duration::from_millis(1);

/// Period of page reads. A page takes longer than a row, and the readers must not fill the core.
const PERIOD_OF_PAGES: Duration = Duration::from_millis(10);

/// Rows of a page.
const PAGE_ROWS: i32 = 100;

/// State that writer and readers share.
struct Scene {
    node: Rc<InProcessNode>,
    table: Table,
    data: Data,
    /// Number of entries written so far, in the population's order.
    written: Cell<u64>,
    /// The position of each entry of a wide partition in the order of writes, from 1; 0 if the
    /// entry is not written yet.
    sequence: RefCell<Vec<u32>>,
    is_over: Cell<bool>,
    began: Instant,
}

impl Bench<'_> {
    /// Measures point reads of partitions, and pages of a wide partition, during writes.
    pub(super) async fn concurrent(&mut self) -> Result<(), BenchError> {
        for (what, shape) in [("rows", KeyShape::Random), ("pages", KeyShape::Wide)] {
            for kind in &self.arguments.kinds {
                self.reads_during_writes(what, shape, kind).await?;
            }
        }
        Ok(())
    }

    async fn reads_during_writes(
        &mut self,
        what: &'static str,
        shape: KeyShape,
        kind: &str,
    ) -> Result<(), BenchError> {
        let arguments = self.arguments;
        let count = arguments.partitions;
        let population = Population::Shape { shape, rows: arguments.rows.unwrap_or(count) };
        let table = self.table(kind, population).await?;
        let data = Data { population, count, value_bytes: arguments.value_bytes as usize };
        let entries = if population.has_rows() { count as usize } else { 0 };
        let scene = Rc::new(Scene {
            node: self.node.clone(),
            table,
            data,
            written: Cell::new(0),
            sequence: RefCell::new(vec![0; entries]),
            is_over: Cell::new(false),
            began: Instant::now(),
        });
        let least = Duration::try_from_secs_f64(arguments.seconds).unwrap_or_default();
        let readers: Vec<_> = (0..arguments.readers)
            .map(|number| spawn_local(read(scene.clone(), number, arguments.seed)))
            .collect();
        let mut step =
            self.progress.step(format!("{what} read during writes, {kind}"), arguments.partitions);
        let writer = {
            let scene = scene.clone();
            spawn_local(async move {
                let outcome = write(&scene, least).await;
                scene.is_over.set(true);
                outcome
            })
        };
        while !scene.is_over.get() {
            espalier_runtime::time::sleep(Duration::from_millis(200)).await;
            step.at(scene.written.get());
        }
        let outcome = writer.await;
        let mut samples = Vec::new();
        let mut failed = None;
        for reader in readers {
            match reader.await {
                Ok(some) => samples.extend(some),
                Err(error) => failed = Some(error),
            }
        }
        let writes_per_s = outcome?;
        if let Some(error) = failed {
            return Err(error);
        }
        samples.sort_by(|one: &Sample, other| one.at_s.total_cmp(&other.at_s));
        self.record.latencies.push(LatencyFigure {
            what,
            kind: kind.to_owned(),
            readers: arguments.readers,
            writes_per_s,
            samples,
        });
        match Rc::into_inner(scene) {
            Some(scene) => scene.table.drop(&self.node).await,
            None => Ok(()),
        }
    }
}

/// Writes all entries, and begins again with the first entry until `least` has passed. Returns
/// writes a second.
async fn write(scene: &Scene, least: Duration) -> Result<f64, BenchError> {
    let Scene { node, table, data, .. } = scene;
    let mut count = 0;
    loop {
        for start in (0..data.count).step_by(BLOCK as usize) {
            let numbers: Vec<u64> = (start..data.count.min(start + BLOCK))
                .map(|index| data.population.number_at(index, data.count))
                .collect();
            let block = data.block(numbers.iter().copied(), false);
            for (values, number) in block.writes().zip(numbers) {
                node.write(&table.insert, values).await?;
                count += 1;
                if count <= data.count {
                    scene.written.set(count);
                    if let Some(place) = scene.sequence.borrow_mut().get_mut(number as usize) {
                        *place = count as u32;
                    }
                }
                maybe_yield().await;
            }
            if count > data.count && scene.began.elapsed() >= least {
                break;
            }
        }
        if scene.began.elapsed() >= least {
            return Ok(count as f64 / scene.began.elapsed().as_secs_f64());
        }
    }
}

async fn read(scene: Rc<Scene>, reader: u32, seed: u64) -> Result<Vec<Sample>, BenchError> {
    let mut random = Generator::from_seed(seed ^ u64::from(reader) << 32);
    let mut samples = Vec::new();
    let period = if scene.data.population.has_rows() { PERIOD_OF_PAGES } else { PERIOD };
    // Readers begin at different times.
    let mut due = scene.began + period.mul_f64(random.fraction());
    while !scene.is_over.get() {
        sleep_until(due).await;
        let written = scene.written.get();
        if written > 0 {
            let index = random.below(written);
            let number = scene.data.population.number_at(index, scene.data.count);
            let block = scene.data.block([number], false);
            for (values, row) in block.reads() {
                let began = Instant::now();
                let done = if !scene.data.population.has_rows() {
                    one(&scene, values, row).await?
                } else {
                    page(&scene, values, number).await?
                };
                samples.push(Sample {
                    at_s: due.since(scene.began).as_secs_f64(),
                    latency_us: done.since(due).as_secs_f64() * 1e6,
                    service_us: done.since(began).as_secs_f64() * 1e6,
                });
            }
        }
        due += period;
    }
    Ok(samples)
}

/// Reads a row that was written; returns the time at which the read was done.
async fn one(scene: &Scene, values: &[Value], row: &[u8]) -> Result<Instant, BenchError> {
    let found = scene.node.read(&scene.table.select, values, row).await?;
    let done = Instant::now();
    if found != Found::Expected {
        return Err(BenchError::Wrong(format!("a row that was written gave {found:?}")));
    }
    Ok(done)
}

/// Reads a page of rows from entry `first` on, which was written; returns the time at which the
/// read was done.
async fn page(scene: &Scene, values: &[Value], first: u64) -> Result<Instant, BenchError> {
    let before = scene.written.get();
    let page = scene.node.page(&scene.table.page, values, PAGE_ROWS, None).await?;
    let done = Instant::now();
    let mut seen = Vec::new();
    RowCheck::new(&scene.data).page(&page.content, |number| seen.push(number))?;
    let sequence = scene.sequence.borrow();
    let was_there = |number: u64| {
        let written = sequence.get(number as usize).map_or(0, |place| u64::from(*place));
        written > 0 && written <= before
    };
    let mut next = first;
    for number in seen {
        if (next..number).any(was_there) {
            return Err(BenchError::Wrong(format!("a page leaves out a row before row {number}")));
        }
        next = number + 1;
    }
    if next == first {
        return Err(BenchError::Wrong("a page without its first row".into()));
    }
    Ok(done)
}
