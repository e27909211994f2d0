//! Cooperative preemption: budgets, yields and the stall detector.
//!
//! - A task that calls [`maybe_yield`] in its loops holds the core for about [`TASK_BUDGET`] (500
//!   µs, as in Seastar). Before it runs again, the kernel has been asked for completions, unless
//!   something else wakes the task meanwhile. The budget is wall time.
//! - Yielded tasks run again one after the other, each after the tasks that are ready by then. So
//!   an answer of the kernel or a client's request waits for the rest of one budget, and not for a
//!   budget of each background task.
//! - A stall is the time for which a task holds the core, or blocks without yielding. While another
//!   thread or process has the core, the task does not hold it; the kernel's accounts of the thread
//!   show that. (Time that a hypervisor takes is not visible and counts as held.) Reading the
//!   accounts costs two system calls, so the detector reads them every [`USAGE_INTERVAL`] and after
//!   a sleep. Time that was taken in such an interval before a long poll is therefore subtracted
//!   from the poll.
//!
//! Memory: a few words per thread, and one waker per yielded task.

mod yielded;

use self::yielded::YieldedTasks;
use crate::cpu::{ThreadUsage, thread_usage};
use crate::ticks;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The time for which a task may hold the core before [`should_yield`] returns true.
pub const TASK_BUDGET: Duration = Duration::from_micros(500);

/// The time for which a task may hold the core before it counts as a stall, unless
/// [`set_stall_threshold`] changes it.
pub const STALL_THRESHOLD: Duration = Duration::from_millis(5);

/// The maximum age of the copy of the kernel's accounts when a poll begins.
const USAGE_INTERVAL: Duration = Duration::from_micros(500);

struct Core {
    task_started: Cell<u64>,
    /// The time at which the kernel's accounts were read, and their values; ticks of 0 mean that
    /// they are no longer of use.
    usage: Cell<(u64, ThreadUsage)>,
    usage_interval_ticks: Cell<u64>,
    budget_ticks: Cell<u64>,
    stall_ticks: Cell<u64>,
    fail_on_stall: Cell<bool>,
    /// A stall that shall fail the loop: the ticks held, and where the task was spawned.
    failure: Cell<Option<(u64, Option<&'static Location<'static>>)>>,
    forced: Cell<Option<u64>>,
    task: Cell<Option<&'static Location<'static>>>,
    tasks_polled: Cell<u64>,
    stalls: Cell<u64>,
    longest_ticks: Cell<u64>,
    longest_task: Cell<Option<&'static Location<'static>>>,
    /// Made at the first yield.
    yielded: RefCell<Option<YieldedTasks>>,
    ending: Cell<bool>,
}

thread_local! {
    static CORE: Core = const {
        Core {
            task_started: Cell::new(0),
            usage: Cell::new((0, ThreadUsage { on_core: Duration::ZERO, waits: 0 })),
            usage_interval_ticks: Cell::new(u64::MAX),
            budget_ticks: Cell::new(u64::MAX),
            stall_ticks: Cell::new(u64::MAX),
            fail_on_stall: Cell::new(false),
            failure: Cell::new(None),
            forced: Cell::new(None),
            task: Cell::new(None),
            tasks_polled: Cell::new(0),
            stalls: Cell::new(0),
            longest_ticks: Cell::new(0),
            longest_task: Cell::new(None),
            yielded: RefCell::new(None),
            ending: Cell::new(false),
        }
    };
}

/// Returns whether the running task has used up its budget of [`TASK_BUDGET`]. Costs a few
/// nanoseconds; returns `false` outside of an event loop.
#[inline]
pub fn should_yield() -> bool {
    CORE.with(|core| {
        let held = ticks::now().wrapping_sub(core.task_started.get());
        if core.forced.get().is_some() {
            return core.forced_choice();
        }
        held > core.budget_ticks.get()
    })
}

/// Returns whether the slice of the members of one task group, which began at `began`, is over
/// after `slice` ticks. If [`should_yield`] is forced, the forced choice counts instead of the
/// clock.
#[inline]
pub(crate) fn is_over(began: u64, now: u64, slice: u64) -> bool {
    CORE.with(|core| match core.forced.get() {
        Some(_) => core.forced_choice(),
        None => now.wrapping_sub(began) >= slice,
    })
}

/// Yields if [`should_yield`]. Put it in every loop over rows, pages or nodes.
#[inline]
pub async fn maybe_yield() {
    if should_yield() {
        yield_now().await;
    }
}

/// Yields: other ready tasks run and the kernel is asked for completions before this task runs
/// again. Outside of an event loop the task is woken at once.
pub fn yield_now() -> impl Future<Output = ()> {
    let mut given_way = false;
    poll_fn(move |context| {
        if given_way {
            return Poll::Ready(());
        }
        given_way = true;
        if crate::event_loop::is_running() {
            CORE.with(|core| core.yield_core(context.waker()));
        } else {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
}

/// Makes [`should_yield`] on this thread answer from `seed` (true once in four calls) instead of
/// the clock, so that a simulation interleaves tasks the same way in every run; `None` returns to
/// the clock.
pub fn force_yields(seed: Option<u64>) {
    CORE.with(|core| core.forced.set(seed.map(|seed| seed | 1)));
}

/// Makes every call of [`should_yield`] on this thread return true, so that a test can count the
/// work between two chances to yield; `false` returns to the clock.
pub fn force_every_yield(is_forced: bool) {
    // The generator's step maps 0 to 0, and 0 means yield.
    CORE.with(|core| core.forced.set(is_forced.then_some(0)));
}

/// A report of the stall detector of the calling thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StallReport {
    /// Task polls so far.
    pub tasks_polled: u64,
    /// Polls that held the core longer than the threshold.
    pub stalls: u64,
    /// The longest poll, in microseconds, without the time that other threads had the core.
    pub longest_us: u64,
    /// The place at which the task of the longest poll was spawned.
    pub longest_task: Option<&'static Location<'static>>,
}

/// Returns the counts of the calling thread's stall detector since the thread began.
pub fn stall_report() -> StallReport {
    CORE.with(|core| StallReport {
        tasks_polled: core.tasks_polled.get(),
        stalls: core.stalls.get(),
        longest_us: ticks::to_microseconds(core.longest_ticks.get()),
        longest_task: core.longest_task.get(),
    })
}

/// Returns [`stall_report`] and resets the longest poll, so that the next report covers later polls
/// only.
pub fn take_stall_report() -> StallReport {
    let report = stall_report();
    CORE.with(|core| {
        core.longest_ticks.set(0);
        core.longest_task.set(None);
    });
    report
}

/// Sets the threshold of the stall detector of the calling thread. With `fail`, the event loop
/// panics at the first stall and names where the task was spawned: for tests on an otherwise idle
/// machine.
pub fn set_stall_threshold(threshold: Duration, fail: bool) {
    CORE.with(|core| {
        core.stall_ticks.set(ticks::from_duration(threshold));
        core.fail_on_stall.set(fail);
    });
}

impl Core {
    /// One step of a 64-bit xorshift, so that the choices replay from the seed.
    #[cold]
    fn forced_choice(&self) -> bool {
        let mut state = self.forced.get().unwrap_or(1);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.forced.set(Some(state));
        state >> 62 == 0
    }

    fn yield_core(&self, waker: &Waker) {
        let waker = waker.clone();
        // At most the budget, so that the others need not make up for time that the clock jumped.
        let held = ticks::now().saturating_sub(self.task_started.get());
        let held = held.min(self.budget_ticks.get());
        self.yielded.borrow_mut().get_or_insert_default().push(waker, held);
    }
}

/// Called by the event loop when it starts on a thread.
pub(crate) fn begin_loop() {
    CORE.with(|core| {
        core.budget_ticks.set(ticks::from_duration(TASK_BUDGET));
        core.usage_interval_ticks.set(ticks::from_duration(USAGE_INTERVAL));
        core.usage.set((0, ThreadUsage::default()));
        if core.stall_ticks.get() == u64::MAX {
            core.stall_ticks.set(ticks::from_duration(STALL_THRESHOLD));
        }
        core.task_started.set(ticks::now());
        core.ending.set(false);
    });
}

/// Makes all tasks that are polled from here on drop their futures.
pub(crate) fn begin_ending() {
    CORE.with(|core| core.ending.set(true));
}

/// Returns whether [`begin_ending`] was called.
#[inline]
pub(crate) fn is_ending() -> bool {
    CORE.with(|core| core.ending.get())
}

/// Called when the event loop ends: it schedules nothing after this.
pub(crate) fn end_loop() {
    crate::time::forget_seconds_of_iteration();
    let yielded = CORE.with(|core| {
        core.budget_ticks.set(u64::MAX);
        core.ending.set(false);
        core.task.set(None);
        core.yielded.take()
    });
    drop(yielded);
}

/// Called before a task is polled, unless a poll ended just before (its end is the begin of the
/// next).
pub(crate) fn task_begins_at(now: u64) {
    CORE.with(|core| {
        core.task_started.set(now);
        if now.wrapping_sub(core.usage.get().0) > core.usage_interval_ticks.get() {
            core.usage.set((now, thread_usage()));
        }
    });
}

/// Forgets the thread's usage before it sleeps. No task runs during the sleep, so a later
/// difference to this usage would not say how much time other threads took from a task.
pub(crate) fn loop_sleeps() {
    CORE.with(|core| core.usage.set((0, ThreadUsage::default())));
}

/// Returns how many times tasks were polled on this thread.
pub(crate) fn tasks_polled() -> u64 {
    CORE.with(|core| core.tasks_polled.get())
}

/// Records which task is being polled.
#[inline]
pub(crate) fn set_current_task(location: &'static Location<'static>) {
    CORE.with(|core| {
        core.task.set(Some(location));
        core.tasks_polled.set(core.tasks_polled.get() + 1);
    });
}

/// Called by the event loop after each task poll; returns the tick of the end. Panics after a stall
/// if the loop shall fail on stalls.
#[inline]
pub(crate) fn task_ends() -> u64 {
    let now = member_ends();
    CORE.with(|core| {
        if core.failure.get().is_some() {
            core.fail();
        }
    });
    now
}

/// As [`task_ends`], for a poll inside of a task that polls others, where the loop cannot fail.
#[inline]
pub(crate) fn member_ends() -> u64 {
    CORE.with(|core| {
        let now = ticks::now();
        let mut held = now.wrapping_sub(core.task_started.get());
        core.task_started.set(now);
        if now.wrapping_sub(core.usage.get().0) > core.usage_interval_ticks.get() {
            held = core.without_what_others_took(now, held);
        }
        if held > core.longest_ticks.get() {
            core.longest_ticks.set(held);
            core.longest_task.set(core.task.get());
        }
        if held > core.stall_ticks.get() {
            core.stalled(held);
        }
        now
    })
}

impl Core {
    /// Reads the kernel's accounts at `now`, the end of a poll of `held` ticks, and returns how
    /// long the task held the core.
    #[cold]
    fn without_what_others_took(&self, now: u64, held: u64) -> u64 {
        let (since, before) = self.usage.get();
        let after = thread_usage();
        self.usage.set((now, after));
        if since == 0 || after.waits != before.waits {
            return held;
        }
        let on_core = ticks::from_duration(after.on_core.saturating_sub(before.on_core));
        held.saturating_sub(now.wrapping_sub(since).saturating_sub(on_core))
    }

    #[cold]
    fn stalled(&self, held: u64) {
        self.stalls.set(self.stalls.get() + 1);
        if self.fail_on_stall.get() {
            self.failure.set(Some((held, self.task.get())));
        }
    }

    #[cold]
    fn fail(&self) {
        let Some((held, task)) = self.failure.take() else { return };
        let held_us = ticks::to_microseconds(held);
        match task {
            Some(at) => panic!("the task spawned at {at} held the core for {held_us} µs"),
            None => panic!("a task held the core for {held_us} µs"),
        }
    }
}

/// Returns whether a task waits in [`yield_now`].
pub(crate) fn has_yielded() -> bool {
    CORE.with(|core| core.yielded.borrow().as_ref().is_some_and(|yielded| !yielded.is_empty()))
}

/// Called by the event loop after it has asked the kernel: the yielded tasks may run again.
pub(crate) fn let_yielded_run() {
    CORE.with(|core| core.yielded.borrow_mut().as_mut().map(YieldedTasks::let_run));
}

/// Makes the first of the tasks that may run again ready, if there is one. Returns for how many
/// ticks it had held the core, at most a budget.
pub(crate) fn wake_first_rested() -> Option<u64> {
    CORE.with(|core| {
        let (first, held_ticks) = core.yielded.borrow_mut().as_mut()?.pop_first()?;
        first.wake();
        Some(held_ticks)
    })
}
