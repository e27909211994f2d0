//! Stretches of Data.db made into lines on all cores, and written in their order.
//!
//! One thread cuts, each of the crew prints stretches into buffers of its own, and whoever has the next one in order ready
//! writes it. Memory: [`STRETCH_BYTES`] of Data.db and the lines of it for each stretch that is under way, at most two for
//! each worker and [`SPARE_STRETCHES`].

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use espalier_runtime::{JoinHandle, cpu, spawn_blocking, spawn_local, time};
use espalier_sstable::dump::Lines;
use espalier_sstable::{SSTableError, Stretch};

/// Bytes of Data.db that are printed at once. A choice: large enough that handing over costs nothing, small enough that
/// what is read, and what is printed of it, stay in the second-level cache for the most part.
pub const STRETCH_BYTES: usize = 64 * 1024;
/// More cannot be kept busy by one thread that reads and cuts.
const MOST_WORKERS: usize = 8;
/// Stretches under way beside two for each worker.
const SPARE_STRETCHES: usize = 2;
/// A buffer that one value of a gigabyte has made large is not kept.
const MOST_KEPT_BYTES: usize = 1 << 20;

/// Why no more stretches are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// One of this SSTable could not be printed; [`Crew::end`] gives the error.
    Failed,
    /// Nobody reads what is written; [`Crew::finish`] gives the error.
    OutputGone,
}

#[derive(Default)]
struct State {
    /// Those of the current SSTable, and its number.
    lines: Option<Lines>,
    generation: u64,
    waiting: VecDeque<(u64, Stretch)>,
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
    /// For workers: something waits, or it is the end.
    work: Condvar,
    /// For the cutting thread: something was written.
    room: Condvar,
}

/// The cutting side.
pub struct Crew {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    most_under_way: usize,
    next: u64,
}

impl Crew {
    /// Starts a worker for each core.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let count = cpu::available_parallelism().clamp(1, MOST_WORKERS);
        let started = Arc::new(());
        let workers = (0..count).map(|_| {
            let (shared, started) = (shared.clone(), started.clone());
            spawn_local(spawn_blocking(move || {
                drop(started);
                work(&shared);
            }))
        });
        let workers = workers.collect();
        // This thread blocks where there is no room, and then nobody would start them.
        while Arc::strong_count(&started) > 1 {
            time::sleep(Duration::from_micros(20)).await;
        }
        Self { shared, workers, most_under_way: 2 * count + SPARE_STRETCHES, next: 0 }
    }

    /// An SSTable begins.
    pub fn begin(&mut self, lines: Lines) {
        let mut state = self.shared.lock();
        state.generation += 1;
        state.lines = Some(lines);
    }

    /// Hands over its next stretch; waits for room.
    pub fn push(&mut self, stretch: Stretch) -> Result<(), NotTaken> {
        let mut state = self.shared.lock();
        while state.under_way >= self.most_under_way && !state.is_closed {
            state = self.shared.wait(&self.shared.room, state);
        }
        if state.output_error.is_some() || state.is_closed {
            return Err(NotTaken::OutputGone);
        }
        if state.failure.is_some() {
            return Err(NotTaken::Failed);
        }
        state.waiting.push_back((self.next, stretch));
        state.under_way += 1;
        self.next += 1;
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Waits until all that was handed over is written. What was wrong with it.
    pub fn end(&mut self) -> Option<SSTableError> {
        let mut state = self.shared.lock();
        while state.under_way > 0 && !state.is_closed {
            state = self.shared.wait(&self.shared.room, state);
        }
        state.failure.take()
    }

    /// Sends the crew home.
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

    /// Writes what is next in order, unless somebody is about it, who will then write this, too.
    fn write_in_order(&self) {
        let mut state = self.lock();
        if state.is_writing {
            return;
        }
        state.is_writing = true;
        loop {
            let next = state.next_written;
            let Some(Printed { mut text, failure }) = state.printed.remove(&next) else { break };
            // Behind a failure nothing of the SSTable is written.
            if state.failure.is_none() && state.output_error.is_none() {
                drop(state);
                let written = std::io::stdout().lock().write_all(&text);
                state = self.lock();
                state.output_error = written.err();
                state.failure = failure;
            }
            text.clear();
            text.shrink_to(MOST_KEPT_BYTES);
            state.spare_buffers.push(text);
            state.next_written += 1;
            state.under_way -= 1;
            self.room.notify_all();
        }
        state.is_writing = false;
    }
}

/// If a worker panics, nobody waits for it.
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
        let (number, stretch) = loop {
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
            Some(lines) if is_wanted => lines.write_stretch(&stretch, &mut text).err(),
            _ => None,
        };
        drop(stretch);
        watch.0.lock().printed.insert(number, Printed { text, failure });
        shared.write_in_order();
    }
}
