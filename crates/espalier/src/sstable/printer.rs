//! Formats and writes the lines of a dump on a thread of its own, while the caller reads and
//! decodes.
//!
//! The caller sends rows in batches. A batch ends with the row that reaches [`BATCH_BYTES`] of
//! Data.db or [`BATCH_ROWS`] events. Memory bound: three batches. The caller fills one, one waits,
//! and the thread prints one.

use std::mem::{replace, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use espalier_mutation::{PartitionHeader, Unfiltered};
use espalier_runtime::{JoinHandle, spawn_blocking, spawn_local, time};
use espalier_sstable::dump::Lines;

use super::output::Output;

/// Size of a batch in bytes of Data.db.
const BATCH_BYTES: u64 = 256 * 1024;
/// Maximum number of events in a batch, however short the rows are.
const BATCH_ROWS: usize = 2048;
/// Maximum number of batches that wait for the printing thread.
const WAITING_BATCHES: usize = 1;

enum Event {
    /// An SSTable begins. With `shows_all`, partitions without printed rows are printed too.
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

/// The printing thread has ended early; [`Printer::finish`] returns its error.
#[derive(Debug)]
pub struct PrinterGone;

/// The printer as the reading thread sees it.
pub struct Printer {
    batch: Vec<Event>,
    /// Position in Data.db at which the batch began.
    batch_start: u64,
    batches: SyncSender<Vec<Event>>,
    printing: JoinHandle<std::io::Result<()>>,
    /// Number of rows that may still be printed.
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
        // Wait until the printing thread runs: `send` blocks this thread while the channel is full,
        // and a blocked thread could not start the printing thread.
        while !is_started.load(Ordering::Acquire) {
            time::sleep(Duration::from_micros(50)).await;
        }
        Self { batch: Vec::new(), batch_start: 0, batches, printing, rows_left }
    }

    /// Starts an SSTable.
    pub fn begin(&mut self, lines: Lines, shows_all: bool) {
        self.batch_start = 0;
        self.batch.push(Event::Begin { lines: Box::new(lines), shows_all });
    }

    /// Starts a partition. `position` is its first byte in Data.db, if the caller knows it.
    ///
    /// # Errors
    /// Fails if the printing thread has ended.
    pub fn partition(
        &mut self,
        header: &PartitionHeader,
        position: Option<u64>,
    ) -> Result<(), PrinterGone> {
        self.batch.push(Event::Partition { header: header.clone(), position });
        self.send_if_large(position.unwrap_or(self.batch_start))
    }

    /// Adds a row or marker to the partition. `position` is the end of the row in Data.db.
    ///
    /// # Errors
    /// Fails if the printing thread has ended.
    pub fn unfiltered(&mut self, unfiltered: Unfiltered, position: u64) -> Result<(), PrinterGone> {
        self.rows_left -= u64::from(matches!(unfiltered, Unfiltered::Row(_)));
        self.batch.push(Event::Unfiltered(unfiltered));
        self.send_if_large(position)
    }

    /// Ends the partition.
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

    /// Waits until everything is written.
    ///
    /// # Errors
    /// Fails if standard output could not be written.
    pub async fn finish(mut self) -> std::io::Result<()> {
        // If the send fails, the thread has ended with an error, which is returned below.
        let _ = self.batches.send(take(&mut self.batch));
        drop(self.batches);
        self.printing.await
    }
}

/// Runs the printing thread.
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
