//! Lines of a dump, made and written on a thread of their own: reading and decoding go on meanwhile.
//!
//! Rows go over in batches. Memory: three batches, each of [`BATCH_BYTES`] of Data.db, or of one row if that is longer.

use std::mem::{replace, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use espalier_mutation::{PartitionHeader, Unfiltered};
use espalier_runtime::{JoinHandle, spawn_blocking, spawn_local, time};
use espalier_sstable::dump::Lines;

use super::output::Output;

/// Bytes of Data.db that make a batch.
const BATCH_BYTES: u64 = 256 * 1024;
/// Rows that make one, however short they are.
const BATCH_ROWS: usize = 2048;
/// Batches that wait for the printing thread.
const WAITING_BATCHES: usize = 1;

enum Event {
    /// An SSTable begins. `shows_all`: partitions of which no row is printed are printed all the same.
    Begin {
        lines: Box<Lines>,
        shows_all: bool,
    },
    Partition {
        header: PartitionHeader,
        position: Option<u64>,
    },
    Unfiltered(Unfiltered),
    End,
}

/// There is nothing to print to any more; [`Printer::finish`] tells why.
#[derive(Debug)]
pub struct PrinterGone;

/// The reading side.
pub struct Printer {
    batch: Vec<Event>,
    /// Where in Data.db the batch began.
    batch_start: u64,
    batches: SyncSender<Vec<Event>>,
    printing: JoinHandle<std::io::Result<()>>,
    /// Rows that may still be printed.
    pub rows_left: u64,
}

impl Printer {
    /// Starts the printing thread.
    pub async fn start(rows_left: u64) -> Self {
        let (batches, received) = sync_channel(WAITING_BATCHES);
        let is_started = Arc::new(AtomicBool::new(false));
        let start = is_started.clone();
        let printing = spawn_local(spawn_blocking(move || {
            start.store(true, Ordering::Release);
            print(&received)
        }));
        // A full channel stops this thread, and then nobody would start that one.
        while !is_started.load(Ordering::Acquire) {
            time::sleep(Duration::from_micros(50)).await;
        }
        Self { batch: Vec::new(), batch_start: 0, batches, printing, rows_left }
    }

    /// An SSTable begins.
    pub fn begin(&mut self, lines: Lines, shows_all: bool) {
        self.batch_start = 0;
        self.batch.push(Event::Begin { lines: Box::new(lines), shows_all });
    }

    /// A partition begins, at this byte of Data.db if that is known.
    pub fn partition(
        &mut self,
        header: &PartitionHeader,
        position: Option<u64>,
    ) -> Result<(), PrinterGone> {
        self.batch.push(Event::Partition { header: header.clone(), position });
        self.send_if_large(position.unwrap_or(self.batch_start))
    }

    /// A row or marker of it, which ends at `position` of Data.db.
    pub fn unfiltered(&mut self, unfiltered: Unfiltered, position: u64) -> Result<(), PrinterGone> {
        self.rows_left -= u64::from(matches!(unfiltered, Unfiltered::Row(_)));
        self.batch.push(Event::Unfiltered(unfiltered));
        self.send_if_large(position)
    }

    /// It ends.
    pub fn end(&mut self) {
        self.batch.push(Event::End);
    }

    fn send_if_large(&mut self, position: u64) -> Result<(), PrinterGone> {
        let bytes = position.saturating_sub(self.batch_start);
        if bytes < BATCH_BYTES && self.batch.len() < BATCH_ROWS {
            return Ok(());
        }
        self.batch_start = position;
        let next = Vec::with_capacity(self.batch.len());
        self.batches.send(replace(&mut self.batch, next)).map_err(|_| PrinterGone)
    }

    /// Waits until all is written.
    pub async fn finish(mut self) -> std::io::Result<()> {
        // If nobody takes it, the thread ended with an error, which comes below.
        let _ = self.batches.send(take(&mut self.batch));
        drop(self.batches);
        self.printing.await
    }
}

/// The printing thread.
fn print(batches: &Receiver<Vec<Event>>) -> std::io::Result<()> {
    let mut output = Output::new();
    let mut current = None;
    for event in batches.iter().flatten() {
        match (event, &mut current) {
            (Event::Begin { lines, shows_all }, _) => {
                output.release();
                current = Some((lines, shows_all));
            }
            (_, None) => {}
            (Event::Partition { header, position }, Some((lines, shows_all))) => {
                let before = output.buffer().len();
                lines.write_header(&header, position, output.buffer());
                if !*shows_all && header.deletion.is_live() {
                    output.hold_back(before);
                }
            }
            (Event::Unfiltered(unfiltered), Some((lines, _))) => {
                output.release();
                lines.write_unfiltered(&unfiltered, output.buffer());
                output.flush_if_large()?;
            }
            (Event::End, Some(_)) => {
                output.drop_held_back();
                output.flush_if_large()?;
            }
        }
    }
    output.flush()
}
