//! A worker pool that prints row batches of Data.db as lines, in their order.
//!
//! One thread cuts Data.db into batches. Each worker prints a batch into a buffer; the worker that
//! finishes the next batch in order writes the buffer to standard output. Memory bound: two batches
//! for each worker, and [`POOLED_BATCHES`] more. A batch in progress has [`BATCH_BYTES`] of
//! Data.db, or one row if the row is longer, and the lines for them.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use espalier_runtime::{JoinHandle, cpu, spawn_blocking, spawn_local, time};
use espalier_sstable::dump::Lines;
use espalier_sstable::{RowBatch, SSTableError};

/// Size of a batch in bytes of Data.db. Chosen large enough that the hand-over costs nothing, and
/// small enough that input and output of a batch mostly stay in the second-level cache.
pub const BATCH_BYTES: usize = 64 * 1024;
/// Maximum number of workers. One thread that reads and cuts cannot keep more workers busy.
const MAX_WORKERS: usize = 8;
/// Maximum number of batches in progress besides two for each worker.
const POOLED_BATCHES: usize = 2;
/// Larger buffers are shrunk to this size, so that one value of a gigabyte does not occupy memory
/// for good.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// The reason why the pool accepts no more batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// A batch of this SSTable could not be printed; [`WorkerPool::end`] returns the error.
    Failed,
    /// The output cannot be written; [`WorkerPool::finish`] returns the error.
    OutputGone,
}

#[derive(Default)]
struct State {
    /// The printer of the current SSTable, which has the number `generation`.
    lines: Option<Lines>,
    generation: u64,
    waiting: VecDeque<(u64, RowBatch)>,
    printed: BTreeMap<u64, Printed>,
    next_written: u64,
    is_writing: bool,
    under_way: usize,
    spare_buffers: Vec<Vec<u8>>,
    failure: Option<SSTableError>,
    output_error: Option<std::io::Error>,
    is_closed: bool,
}

struct Printed {
    text: Vec<u8>,
    failure: Option<SSTableError>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals the workers that a batch waits or that the pool closes.
    work: Condvar,
    /// Signals the cutting thread that a batch was written.
    room: Condvar,
}

/// The pool as the cutting thread sees it.
pub struct WorkerPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    max_in_flight: usize,
    next: u64,
}

impl WorkerPool {
    /// Starts a worker for each core, at most [`MAX_WORKERS`].
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let count = cpu::available_parallelism().clamp(1, MAX_WORKERS);
        let started = Arc::new(());
        let workers = (0..count).map(|_| {
            let (shared, started) = (shared.clone(), started.clone());
            spawn_local(spawn_blocking(move || {
                drop(started);
                work(&shared);
            }))
        });
        let workers = workers.collect();
        // Wait until all workers run: `push` blocks this thread, which then could not start them.
        while Arc::strong_count(&started) > 1 {
            time::sleep(Duration::from_micros(20)).await;
        }
        Self { shared, workers, max_in_flight: 2 * count + POOLED_BATCHES, next: 0 }
    }

    /// Starts the next SSTable, which `lines` prints.
    pub fn begin(&mut self, lines: Lines) {
        let mut state = self.shared.lock();
        state.generation += 1;
        state.lines = Some(lines);
    }

    /// Adds the next batch of the SSTable. Blocks while the pool is full.
    ///
    /// # Errors
    /// Fails if an earlier batch could not be printed, or if the output is gone.
    pub fn push(&mut self, batch: RowBatch) -> Result<(), NotTaken> {
        let mut state = self.shared.lock();
        while state.under_way >= self.max_in_flight && !state.is_closed {
            state = self.shared.wait(&self.shared.room, state);
        }
        if state.output_error.is_some() || state.is_closed {
            return Err(NotTaken::OutputGone);
        }
        if state.failure.is_some() {
            return Err(NotTaken::Failed);
        }
        state.waiting.push_back((self.next, batch));
        state.under_way += 1;
        self.next += 1;
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Waits until all batches of the SSTable are written. Returns the SSTable's first printing
    /// error.
    pub fn end(&mut self) -> Option<SSTableError> {
        let mut state = self.shared.lock();
        while state.under_way > 0 && !state.is_closed {
            state = self.shared.wait(&self.shared.room, state);
        }
        state.failure.take()
    }

    /// Stops the workers and flushes the output.
    ///
    /// # Errors
    /// Fails if standard output could not be written.
    pub async fn finish(mut self) -> std::io::Result<()> {
        self.end();
        self.shared.lock().is_closed = true;
        self.shared.work.notify_all();
        for worker in self.workers {
            worker.await;
        }
        match self.shared.lock().output_error.take() {
            Some(error) => Err(error),
            None => std::io::stdout().flush(),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &'a self,
        condition: &Condvar,
        state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        condition.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all printed batches that are next in order. If another worker is writing, that worker
    /// also writes these batches.
    fn write_in_order(&self) {
        let mut state = self.lock();
        if state.is_writing {
            return;
        }
        state.is_writing = true;
        loop {
            let next = state.next_written;
            let Some(Printed { mut text, failure }) = state.printed.remove(&next) else { break };
            // After a failure no more of the SSTable is written.
            if state.failure.is_none() && state.output_error.is_none() {
                drop(state);
                let written = std::io::stdout().lock().write_all(&text);
                state = self.lock();
                state.output_error = written.err();
                state.failure = failure;
            }
            text.clear();
            text.shrink_to(MAX_KEPT_BYTES);
            state.spare_buffers.push(text);
            state.next_written += 1;
            state.under_way -= 1;
            self.room.notify_all();
        }
        state.is_writing = false;
    }
}

/// Closes the pool if a worker panics, so that no thread waits for the worker.
struct Watch<'a>(&'a Shared);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_closed = true;
            self.0.work.notify_all();
            self.0.room.notify_all();
        }
    }
}

fn work(shared: &Shared) {
    let watch = Watch(shared);
    let mut generation = 0;
    let mut lines = None;
    loop {
        let mut state = shared.lock();
        let (number, batch) = loop {
            match state.waiting.pop_front() {
                Some(next) => break next,
                None if state.is_closed => return,
                None => state = shared.wait(&shared.work, state),
            }
        };
        if generation != state.generation {
            generation = state.generation;
            lines = state.lines.clone();
        }
        let is_wanted = state.failure.is_none() && state.output_error.is_none();
        let mut text = state.spare_buffers.pop().unwrap_or_default();
        drop(state);
        let failure = match &mut lines {
            Some(lines) if is_wanted => lines.write_batch(&batch, &mut text).err(),
            _ => None,
        };
        drop(batch);
        watch.0.lock().printed.insert(number, Printed { text, failure });
        shared.write_in_order();
    }
}
