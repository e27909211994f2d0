//! Slowing writers down to what flushes give back.
//!
//! A write is applied at once and acknowledged later. While a flush is under way, acknowledgements leave the shard at a rate that memory
//! will last for until the flush is done; clients, which wait for some of them before they send more, write at that rate. Since nothing
//! but the acknowledgement waits, a slow write costs the core what a fast one does. Those of two milliseconds leave together.
//!
//! The rate is the mean (the geometric one) of what flushes give back in a second and what there is room for until this one is done:
//! so that each flush finds as much to write as the one before, whatever the first one found; and never more than there is room for.
//! Memory that is being freed counts as room only in so far as it is not needed before it is there.
//!
//! Memory: a [`Round`] for each step of the longest delay; the writes that wait are those that their senders wait for.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    time::Duration,
};

use espalier_runtime::{
    sync::Notify,
    time::{self, Instant},
};

use super::FlushEstimate;
use crate::{Database, commitlog::Round, memtable::MemtableBudget};

/// Acknowledgements leave in steps of this length: so many writes share a turn of the event loop and a message to their client.
const STEP: Duration = Duration::from_millis(2);
/// The longest delay: then more is written than there should be, and in the end writes wait for room.
const LONGEST: Duration = Duration::from_millis(500);
/// How often the rate is found anew.
const REFRESH: Duration = Duration::from_millis(10);
/// The least rate, as a share of that of flushes: somebody goes on however wrong the estimate is.
const LEAST_PART: f64 = 1.0 / 32.0;

/// Of a shard.
pub(crate) struct WritePace {
    /// Until when acknowledgements have left if they leave at the rate.
    paid_until: Cell<Instant>,
    /// Seconds for each byte of a log entry; nothing while there is no need to slow down.
    seconds_per_byte: Cell<Option<f64>>,
    refreshed: Cell<Instant>,
    /// Bytes of log entries of all writes, and what they have grown memtables by: how much memory a byte of the log stands for.
    logged_bytes: Cell<f64>,
    growth: Cell<Growth>,
    /// Who leaves when; in order.
    steps: RefCell<VecDeque<(Instant, Rc<Round>)>>,
    wanted: Notify,
    is_over: Cell<bool>,
}

/// Memory that was taken since some moment, and what was logged.
#[derive(Clone, Copy)]
struct Growth {
    grown_then: f64,
    logged_then: f64,
    /// What was found before.
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
    /// The turn in which a write is to be acknowledged whose log entry has so many bytes; `None`: at once.
    #[inline]
    pub(crate) fn turn(
        &self,
        logged_bytes: usize,
        budget: &MemtableBudget,
        estimate: &FlushEstimate,
    ) -> Option<Rc<Round>> {
        let logged_bytes = logged_bytes as f64;
        self.logged_bytes.set(self.logged_bytes.get() + logged_bytes);
        match estimate.is_active() || budget.wants_flush() {
            true => self.turn_of(logged_bytes, budget, estimate),
            false => None,
        }
    }

    fn turn_of(
        &self,
        logged_bytes: f64,
        budget: &MemtableBudget,
        estimate: &FlushEstimate,
    ) -> Option<Rc<Round>> {
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
        // Debts are not endless, and what was not used is not saved.
        let paid_until = (self.paid_until.get().max(now) + cost).min(now + LONGEST);
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
        let round = Rc::<Round>::default();
        steps.push_back((paid_until + STEP, round.clone()));
        Some(round)
    }

    /// Whether acknowledgements wait.
    pub(crate) fn is_slowing(&self) -> bool {
        !self.steps.borrow().is_empty()
    }

    /// Bytes of log entries that may be written in a second; `None`: as many as there are.
    fn rate(&self, budget: &MemtableBudget, estimate: &FlushEstimate) -> Option<f64> {
        let flushed_per_second = estimate.bytes_per_second()?;
        let left_bytes = match estimate.left_bytes() {
            // It is about to begin.
            0.0 => budget.flush_bytes() as f64,
            left => left,
        };
        let room_bytes = budget.room_bytes() as f64;
        let room_per_second = room_bytes * flushed_per_second / left_bytes.max(1.0);
        let mean = (room_per_second * flushed_per_second).sqrt().min(room_per_second);
        let least = (flushed_per_second * LEAST_PART).max(1.0);
        Some(mean.max(least) / self.bytes_per_logged(budget))
    }

    /// How much memory a byte of the log has stood for lately.
    fn bytes_per_logged(&self, budget: &MemtableBudget) -> f64 {
        let mut growth = self.growth.get();
        let grown = budget.grown_bytes() as f64 - growth.grown_then;
        let logged = self.logged_bytes.get() - growth.logged_then;
        // Memory grows by chunks: some of them before it says anything, and no more than matter today.
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

    /// Lets those go whose turn has come.
    fn release(&self, now: Instant) {
        loop {
            let is_due = |(leaves, _): &(Instant, Rc<Round>)| *leaves <= now;
            let mut steps = self.steps.borrow_mut();
            let first = if steps.front().is_some_and(is_due) { steps.pop_front() } else { None };
            drop(steps);
            let Some((_, round)) = first else { break };
            round.resolve(Ok(()));
        }
    }

    /// Lets all go who wait, and all who come.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
        self.wanted.notify_one();
        for (_, round) in self.steps.take() {
            round.resolve(Ok(()));
        }
    }
}

/// Lets writes go whose turn has come, until the database closes.
pub(crate) async fn run(database: Database) {
    let pace = database.write_pace();
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
    use espalier_runtime::{block_on, time::ManualClock};

    use super::*;
    use crate::commitlog::CommitTicket;

    const MIB: usize = 1 << 20;
    const ENTRY_BYTES: usize = 100;
    const GROWTH_BYTES: usize = 250;

    /// What is written in each second by so many clients that wait for each write, where flushes give back so much in a second.
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
                    let turn = pace.turn(ENTRY_BYTES, &budget, &estimate);
                    *ticket = CommitTicket::acknowledged().with_turn(turn);
                }
                assert!(budget.has_room(), "writers were stopped in second {second}");
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
            let rows = block_on(written(clients, |_| flushed, 40));
            let expected = flushed / GROWTH_BYTES;
            // The first ones come before anything is known.
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
    fn nobody_waits_where_flushes_keep_up() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        // Each writes once a millisecond: as much as memory would last for.
        let rows = block_on(written(40, |_| 32 * MIB, 20));
        assert!(rows.iter().all(|rows| *rows == 40_000), "{rows:?}");
    }

    /// Of 100 bytes 90 are in use; a flush begins at 50.
    fn nearly_full() -> (MemtableBudget, FlushEstimate, WritePace) {
        let budget = MemtableBudget::new(100, 50);
        budget.grow(90);
        (budget, FlushEstimate::default(), WritePace::default())
    }

    #[test]
    fn nobody_waits_for_what_is_being_freed() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let (budget, estimate, pace) = nearly_full();
            let progress = estimate.begin(90);
            time::sleep(Duration::from_secs(1)).await;
            drop(progress);
            // No other flush is under way, and one is wanted; or its memory is on its way.
            assert!(budget.wants_flush());
            assert!(pace.turn(1000, &budget, &estimate).is_some());
            budget.begin_freeing(90);
            assert!(!budget.wants_flush() && !budget.is_short());
            assert!(pace.turn(1000, &budget, &estimate).is_none());
            // It is in use all the same: the limit is none to be passed, nor to be run into.
            assert_eq!(budget.room_bytes(), 10);
            budget.grow(10);
            assert!(!budget.has_room() && budget.is_short() && budget.room_bytes() == 0);
            budget.end_freeing(90);
            assert!(budget.has_room() && budget.held_bytes() == 10 && budget.used_bytes() == 10);
        });
    }

    #[test]
    fn those_who_wait_go_when_it_ends() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let (budget, estimate, pace) = nearly_full();
            let progress = estimate.begin(90);
            time::sleep(Duration::from_secs(1)).await;
            progress.advance_to(0.1);
            let turn = pace.turn(1000, &budget, &estimate);
            let ticket = CommitTicket::acknowledged().with_turn(turn);
            assert!(!ticket.is_acknowledged());
            pace.end();
            assert!(ticket.is_acknowledged());
            assert!(pace.turn(1000, &budget, &estimate).is_none());
        });
    }
}
