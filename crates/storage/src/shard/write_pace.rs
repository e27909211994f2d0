//! The write pace throttles writes to the rate at which flushes free memory.
//!
//! A write is applied at once and acknowledged later. While a flush is wanted or under way,
//! acknowledgements leave the shard at a rate at which memory lasts until the flush is done.
//! Clients wait for some acknowledgements before they send more, so they write at that rate. Only
//! the acknowledgement waits; a throttled write therefore costs the core as much as any other.
//! Acknowledgements that are due within the same two milliseconds leave together.
//!
//! The rate is the geometric mean of two rates: bytes that flushes free per second, and free room
//! divided by the time until the flush is done. The second rate is the upper limit of the result,
//! unless it is below [`MIN_PART`] of the first one. The mean keeps the size of the flushes: each
//! flush has as much to write as the flush before, whatever the size of the first one. Memory that
//! is being freed causes no throttling, but it counts against the limit of the memtables until it
//! is freed.
//!
//! Memory: a [`SyncBatch`] for each [`STEP`] of the longest delay, and the waiting writes, whose
//! number their senders bound.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    time::Duration,
};

use espalier_commitlog::SyncBatch;
use espalier_memtable::MemtableBudget;
use espalier_runtime::{
    sync::Notify,
    time::{self, Instant},
};

use super::{ShardStore, flush_estimate::FlushEstimate};

/// Acknowledgements leave in steps of this length, so that many writes share an iteration of the
/// event loop and a message to their client.
const STEP: Duration = Duration::from_millis(2);
/// The longest delay of an acknowledgement. Beyond it, writes exceed the rate, and in the end they
/// wait for room.
const MAX_LENGTH: Duration = Duration::from_millis(500);
/// Minimum time between two computations of the rate.
const REFRESH: Duration = Duration::from_millis(10);
/// Lower limit of the rate, as a share of the flush rate, so that writes continue even if the
/// estimate is wrong.
const MIN_PART: f64 = 1.0 / 32.0;

/// The write throttle of a shard.
pub(crate) struct WritePace {
    /// Time at which all acknowledgements so far have left, if they leave at the rate.
    paid_until: Cell<Instant>,
    /// Seconds for each byte of a log entry; `None` while writes are not throttled.
    seconds_per_byte: Cell<Option<f64>>,
    refreshed: Cell<Instant>,
    /// Bytes of the log entries of all writes.
    logged_bytes: Cell<f64>,
    growth: Cell<Growth>,
    /// The batches of waiting acknowledgements with the times when they leave, in order of time.
    steps: RefCell<VecDeque<(Instant, Rc<SyncBatch>)>>,
    wanted: Notify,
    is_over: Cell<bool>,
}

/// Growth of the memtables and of the log since some moment. The ratio of the two converts bytes of
/// the log into bytes of memory.
#[derive(Clone, Copy)]
struct Growth {
    grown_then: f64,
    logged_then: f64,
    /// Bytes of memtable memory for each byte of the log, as last measured.
    bytes_per_logged: f64,
}

impl Default for WritePace {
    fn default() -> Self {
        let now = Instant::coarse();
        Self {
            paid_until: Cell::new(now),
            seconds_per_byte: Cell::new(None),
            refreshed: Cell::new(now),
            logged_bytes: Cell::new(0.0),
            growth: Cell::new(Growth { grown_then: 0.0, logged_then: 0.0, bytes_per_logged: 2.0 }),
            steps: RefCell::default(),
            wanted: Notify::new(),
            is_over: Cell::new(false),
        }
    }
}

impl WritePace {
    /// Returns the step in which a write with `logged_bytes` bytes of log entry is acknowledged;
    /// `None` means at once.
    #[inline]
    pub(crate) fn delay(
        &self,
        logged_bytes: usize,
        budget: &MemtableBudget,
        estimate: &FlushEstimate,
    ) -> Option<Rc<SyncBatch>> {
        let logged_bytes = logged_bytes as f64;
        self.logged_bytes.set(self.logged_bytes.get() + logged_bytes);
        if estimate.is_active() || budget.wants_flush() {
            self.delay_of(logged_bytes, budget, estimate)
        } else {
            None
        }
    }

    fn delay_of(
        &self,
        logged_bytes: f64,
        budget: &MemtableBudget,
        estimate: &FlushEstimate,
    ) -> Option<Rc<SyncBatch>> {
        let now = Instant::coarse();
        if now.since(self.refreshed.get()) >= REFRESH {
            self.refreshed.set(now);
            let rate = self.rate(budget, estimate);
            self.seconds_per_byte.set(rate.map(|bytes_per_second| 1.0 / bytes_per_second));
        }
        if self.is_over.get() {
            return None;
        }
        let cost = Duration::from_secs_f64(self.seconds_per_byte.get()? * logged_bytes);
        // The delay is bounded, and time without writes gives no credit to later writes.
        let paid_until = (self.paid_until.get().max(now) + cost).min(now + MAX_LENGTH);
        self.paid_until.set(paid_until);
        if paid_until.since(now) < STEP {
            return None;
        }
        let mut steps = self.steps.borrow_mut();
        if let Some((leaves, round)) = steps.back()
            && *leaves >= paid_until
        {
            return Some(round.clone());
        }
        if steps.is_empty() {
            self.wanted.notify_one();
        }
        let round = Rc::<SyncBatch>::default();
        steps.push_back((paid_until + STEP, round.clone()));
        Some(round)
    }

    /// Returns whether acknowledgements wait.
    pub(crate) fn is_slowing(&self) -> bool {
        !self.steps.borrow().is_empty()
    }

    /// Returns the bytes of log entries that may be written per second; `None` means no limit.
    fn rate(&self, budget: &MemtableBudget, estimate: &FlushEstimate) -> Option<f64> {
        let flushed_per_second = estimate.bytes_per_second()?;
        let left_bytes = match estimate.left_bytes() {
            // The flush is about to begin.
            0.0 => budget.flush_bytes() as f64,
            left => left,
        };
        let room_bytes = budget.room_bytes() as f64;
        let room_per_second = room_bytes * flushed_per_second / left_bytes.max(1.0);
        let mean = (room_per_second * flushed_per_second).sqrt().min(room_per_second);
        let least = (flushed_per_second * MIN_PART).max(1.0);
        Some(mean.max(least) / self.bytes_per_logged(budget))
    }

    /// Returns the recent growth of the memtables in bytes for each byte of the log.
    fn bytes_per_logged(&self, budget: &MemtableBudget) -> f64 {
        let mut growth = self.growth.get();
        let grown = budget.grown_bytes() as f64 - growth.grown_then;
        let logged = self.logged_bytes.get() - growth.logged_then;
        // Memory grows by chunks. A ratio is meaningful only after several of them, and only the
        // most recent ones count.
        let period = budget.flush_bytes().max(1) as f64;
        if grown < period / 8.0 || logged < 1.0 {
            return growth.bytes_per_logged;
        }
        if grown > period {
            growth.bytes_per_logged = grown / logged;
            growth.grown_then += grown;
            growth.logged_then += logged;
            self.growth.set(growth);
            return growth.bytes_per_logged;
        }
        let weight = grown / period;
        growth.bytes_per_logged * (1.0 - weight) + grown / logged * weight
    }

    /// Releases the batches that are due.
    fn release(&self, now: Instant) {
        loop {
            let is_due = |(leaves, _): &(Instant, Rc<SyncBatch>)| *leaves <= now;
            let mut steps = self.steps.borrow_mut();
            let first = if steps.front().is_some_and(is_due) { steps.pop_front() } else { None };
            drop(steps);
            let Some((_, round)) = first else { break };
            round.resolve(Ok(()));
        }
    }

    /// Ends the throttling: releases all waiting acknowledgements; later ones do not wait.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
        self.wanted.notify_one();
        for (_, round) in self.steps.take() {
            round.resolve(Ok(()));
        }
    }
}

/// Releases batches when their delays end, until the store closes.
pub(crate) async fn run(store: Rc<ShardStore>) {
    let pace = &store.memtables.write_pace;
    while !pace.is_over.get() {
        let first = pace.steps.borrow().front().map(|(leaves, _)| *leaves);
        match first {
            None => pace.wanted.notified().await,
            Some(leaves) => time::sleep_until(leaves).await,
        }
        pace.release(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use espalier_commitlog::CommitTicket;
    use espalier_runtime::{block_on, time::ManualClock};

    use super::*;

    const MIB: usize = 1 << 20;
    const ENTRY_BYTES: usize = 100;
    const GROWTH_BYTES: usize = 250;

    /// Returns the number of rows written in each second by `clients` clients that wait for each
    /// write, while flushes free `flushed_per_second(second)` bytes per second.
    async fn written(
        clients: usize,
        flushed_per_second: impl Fn(usize) -> usize,
        seconds: usize,
    ) -> Vec<usize> {
        let (limit, flush) = (64 * MIB, 32 * MIB);
        let (budget, estimate) = (MemtableBudget::new(limit, flush), FlushEstimate::default());
        let pace = WritePace::default();
        let mut tickets: Vec<_> = (0..clients).map(|_| CommitTicket::acknowledged()).collect();
        let mut flushing: Option<(super::super::FlushProgress<'_>, usize, f64)> = None;
        let mut per_second = Vec::new();
        for second in 0..seconds {
            let mut rows = 0;
            for _ in 0..1000 {
                time::sleep(Duration::from_millis(1)).await;
                pace.release(Instant::now());
                for ticket in tickets.iter_mut().filter(|ticket| ticket.is_acknowledged()) {
                    budget.grow(GROWTH_BYTES);
                    rows += 1;
                    let delay = pace.delay(ENTRY_BYTES, &budget, &estimate);
                    *ticket = CommitTicket::acknowledged().with_delay(delay);
                }
                assert!(budget.has_room(), "memtables ran out of room in second {second}");
                if flushing.is_none() && budget.wants_flush() {
                    let bytes = budget.used_bytes();
                    flushing = Some((estimate.begin(bytes), bytes, 0.0));
                }
                if let Some((progress, bytes, share)) = &mut flushing {
                    *share += flushed_per_second(second) as f64 / 1000.0 / *bytes as f64;
                    progress.advance_to(*share);
                    if *share >= 1.0 {
                        budget.shrink(*bytes);
                        flushing = None;
                    }
                }
            }
            per_second.push(rows);
        }
        per_second
    }

    #[test]
    fn writers_go_on_evenly_at_the_rate_of_flushes() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        for clients in [200, 2000] {
            let flushed = 16 * MIB;
            let rows = block_on(written(clients, |_| flushed, 15));
            let expected = flushed / GROWTH_BYTES;
            // In the first seconds the flush rate is not known yet.
            for (second, rows) in rows.iter().enumerate().skip(5) {
                let share = *rows as f64 / expected as f64;
                assert!((0.75..1.34).contains(&share), "{clients} {second}: {share}");
            }
        }
    }

    #[test]
    fn writers_follow_flushes_that_get_slower() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        let flushed = |second| if second < 10 { 24 * MIB } else { 8 * MIB };
        let rows = block_on(written(1000, flushed, 30));
        let expected = flushed(29) / GROWTH_BYTES;
        for rows in &rows[20..] {
            let share = *rows as f64 / expected as f64;
            assert!((0.6..1.6).contains(&share), "{share}");
        }
    }

    #[test]
    fn writers_do_not_wait_while_flushes_keep_up() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        // Each client writes once a millisecond, and memory lasts at this rate.
        let rows = block_on(written(40, |_| 32 * MIB, 20));
        assert!(rows.iter().all(|rows| *rows == 40_000), "{rows:?}");
    }

    /// Returns a budget of 100 bytes with 90 in use. A flush begins at 50.
    fn nearly_full() -> (MemtableBudget, FlushEstimate, WritePace) {
        let budget = MemtableBudget::new(100, 50);
        budget.grow(90);
        (budget, FlushEstimate::default(), WritePace::default())
    }

    #[test]
    fn writers_do_not_wait_while_memory_is_being_freed() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let (budget, estimate, pace) = nearly_full();
            let progress = estimate.begin(90);
            time::sleep(Duration::from_secs(1)).await;
            drop(progress);
            // No flush is under way: first a flush is wanted, then the memory is being freed.
            assert!(budget.wants_flush());
            assert!(pace.delay(1000, &budget, &estimate).is_some());
            budget.begin_freeing(90);
            assert!(!budget.wants_flush() && !budget.is_short());
            assert!(pace.delay(1000, &budget, &estimate).is_none());
            // The memory is still in use: writes must neither exceed the limit nor be slowed down
            // before it.
            assert_eq!(budget.room_bytes(), 10);
            budget.grow(10);
            assert!(!budget.has_room() && budget.is_short() && budget.room_bytes() == 0);
            budget.end_freeing(90);
            assert!(budget.has_room() && budget.held_bytes() == 10 && budget.used_bytes() == 10);
        });
    }

    #[test]
    fn delayed_writes_are_acknowledged_when_the_pace_ends() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let (budget, estimate, pace) = nearly_full();
            let progress = estimate.begin(90);
            time::sleep(Duration::from_secs(1)).await;
            progress.advance_to(0.1);
            let delay = pace.delay(1000, &budget, &estimate);
            let ticket = CommitTicket::acknowledged().with_delay(delay);
            assert!(!ticket.is_acknowledged());
            pace.end();
            assert!(ticket.is_acknowledged());
            assert!(pace.delay(1000, &budget, &estimate).is_none());
        });
    }
}
