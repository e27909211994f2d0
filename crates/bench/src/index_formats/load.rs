//! Loads: a closed loop keeps a number of reads under way; an open loop issues reads at a fixed
//! rate, whatever their latency.
//!
//! Latencies of an open loop count from when a read was due, so that reads behind a slow read count
//! as slow. At most [`MAX_IN_FLIGHT`] reads are under way, because clients bound their requests
//! too. The time for which a later read waits for this limit is a part of its latency.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use espalier_runtime::sync::Notify;
use espalier_runtime::time::{Instant, sleep_until};
use espalier_runtime::{maybe_yield, spawn_local, yield_now};

use super::accesses::Accesses;
use super::contender::Contender;
use super::figures::LoadFigure;
use crate::BenchError;
use crate::memtable::latency::Percentiles;
use crate::progress::Step;

const MAX_IN_FLIGHT: u32 = 1024;

/// A load ends early when it lags by this multiple of the latency limit, because it will not
/// recover.
const HOPELESS: f64 = 20.0;

/// Timers may be this late; the last part of a wait is a loop of yields.
const TIMER_SLACK: Duration = Duration::from_millis(1);

/// Number of reads of a closed loop's task between two checks of the [`Limit`].
const BLOCK: u32 = 16;

/// State that all reads of a load share.
#[derive(Default)]
struct Board {
    latencies_us: RefCell<Vec<f64>>,
    under_way: Cell<u32>,
    failure: RefCell<Option<BenchError>>,
    one_is_done: Notify,
}

impl Board {
    fn record(&self, due: Instant, outcome: Result<(), BenchError>) {
        match outcome {
            Ok(()) => {
                let latency_us = due.elapsed().as_secs_f64() * 1e6;
                self.latencies_us.borrow_mut().push(latency_us);
            }
            Err(error) => *self.failure.borrow_mut() = Some(error),
        }
    }

    fn figure(
        &self,
        contender: &Contender,
        before: &super::figures::Cost,
        rate: Option<f64>,
        gave_up: bool,
    ) -> Result<LoadFigure, BenchError> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let cost = contender.cost().since(before);
        let latencies = self.latencies_us.take();
        let reads = latencies.len() as u64;
        let latency = Percentiles::of(latencies);
        let rate = rate.unwrap_or(reads as f64 / cost.clock.as_secs_f64().max(1e-9));
        Ok(LoadFigure { rate, reads, latency, cost, gave_up })
    }
}

/// Keeps `under_way` reads under way until `limit` is reached.
pub async fn closed(
    contender: &Rc<Contender>,
    under_way: u32,
    limit: Limit,
    seed: u64,
    step: &mut Step<'_>,
) -> Result<LoadFigure, BenchError> {
    let board = Rc::new(Board::default());
    let before = contender.cost();
    let end = before.began + limit.duration;
    let tasks: Vec<_> = (0..under_way)
        .map(|task| {
            let (contender, board) = (contender.clone(), board.clone());
            let population = *contender.population();
            let seed = seed.wrapping_add(u64::from(task) << 32);
            let mut accesses = Accesses::new(population.test, population.entries.count, seed);
            spawn_local(async move {
                while board.failure.borrow().is_none() && Instant::now() < end {
                    let cost = contender.cost().since(&before);
                    if cost.index.read_bytes + cost.data.read_bytes >= limit.read_bytes {
                        break;
                    }
                    for _ in 0..BLOCK {
                        let due = Instant::now();
                        board.record(due, contender.read(accesses.next()).await);
                        maybe_yield().await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
        step.at(before.began.elapsed().as_millis() as u64);
    }
    board.figure(contender, &before, None, false)
}

/// The end of a closed loop: the first of these limits that is reached.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub duration: Duration,
    /// Bytes that were read from the disk.
    pub read_bytes: u64,
}

/// Issues `rate` reads a second, evenly spaced, for `duration`, or until the load lags too far.
pub async fn open(
    contender: &Rc<Contender>,
    rate: f64,
    duration: Duration,
    limit_us: f64,
    seed: u64,
    step: &mut Step<'_>,
) -> Result<LoadFigure, BenchError> {
    let board = Rc::new(Board::default());
    let population = *contender.population();
    let mut accesses = Accesses::new(population.test, population.entries.count, seed);
    let hopeless = Duration::from_secs_f64(limit_us * HOPELESS / 1e6);
    let count = (rate * duration.as_secs_f64()).ceil().max(1.0) as u64;
    let before = contender.cost();
    let mut gave_up = false;
    for index in 0..count {
        let due = before.began + Duration::from_secs_f64(index as f64 / rate);
        wait_until(due).await;
        while board.under_way.get() >= MAX_IN_FLIGHT {
            board.one_is_done.notified().await;
        }
        if due.elapsed() > hopeless || board.failure.borrow().is_some() {
            gave_up = true;
            break;
        }
        read(contender, &board, accesses.next(), due).await;
        step.at(index);
        maybe_yield().await;
    }
    while board.under_way.get() > 0 {
        board.one_is_done.notified().await;
    }
    board.figure(contender, &before, Some(rate), gave_up)
}

/// Waits until `due`. Sleeps until [`TIMER_SLACK`] before `due`, because timers come late, and then
/// yields in a loop, so that other tasks and I/O continue.
async fn wait_until(due: Instant) {
    loop {
        let left = due.since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > 2 * TIMER_SLACK {
            sleep_until(due - TIMER_SLACK).await
        } else {
            yield_now().await
        }
    }
}

/// Reads a row at once if all of it is in memory. Otherwise the read continues in a task of its
/// own, beside the next due reads.
async fn read(contender: &Rc<Contender>, board: &Rc<Board>, number: u64, due: Instant) {
    let own = contender.clone();
    let mut reading = Box::pin(async move { own.read(number).await });
    match futures_util::poll!(&mut reading) {
        Poll::Ready(outcome) => board.record(due, outcome),
        Poll::Pending => {
            board.under_way.set(board.under_way.get() + 1);
            let board = board.clone();
            spawn_local(async move {
                let outcome = reading.await;
                board.record(due, outcome);
                board.under_way.set(board.under_way.get() - 1);
                board.one_is_done.notify_one();
            })
            .detach();
        }
    }
}
