//! Cooperative preemption: budgets, yields and the stall detector.
//!
//! - A task that calls [`maybe_yield`] in its loops holds the core for about [`TASK_BUDGET`] (500
//!   µs, as in Seastar). If it belongs to another group than the statements, it holds the core for
//!   200 µs, or for 100 µs while statements run between the slices (`scheduling`). The budget is
//!   wall time.
//! - [`maybe_yield`] counts down and compares. It reads the clock at the first call of a poll, and
//!   then after 2, 4, 8, 16, 16, … calls, as long as the step between two calls takes less than
//!   [`QUICK_STEP`] on average. After longer steps it reads the clock at the next call.
//! - A statement that yielded runs again after the kernel has been asked for completions, and only
//!   when no other statement is ready or the yielded statements have had less time than the others.
//!   (Another wake of its task makes it run earlier.) So an answer of the kernel or a client's
//!   request waits for the rest of one budget. A task of another group that yields queues behind
//!   the ready tasks of its group.
//! - A stall is the time for which a task holds the core, or blocks without yielding. While another
//!   thread or process has the core, the task does not hold it; the kernel's accounts of the thread
//!   show that. (Time that a hypervisor takes is not visible and counts as held.) Reading the
//!   accounts costs two system calls, so the detector reads them every [`USAGE_INTERVAL`] and after
//!   a sleep. Time that other threads took in such an interval before a long poll is therefore also
//!   subtracted from the poll.
//!
//! Memory: a few words per thread, and one waker per yielded task.

mod poll;
mod yielded;

pub(crate) use self::poll::tasks_polled;
pub use self::poll::{current_poll, use_up_budget};
use self::yielded::YieldedTasks;
use crate::cpu::{ThreadUsage, thread_usage};
use crate::scheduling::{self, Accounts, SchedulingGroup};
use crate::ticks;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The time for which a task may hold the core before [`should_yield`] returns true.
pub const TASK_BUDGET: Duration = Duration::from_micros(500);

/// The longest step between two calls of [`maybe_yield`] after which the clock is read less often.
const QUICK_STEP: Duration = Duration::from_micros(2);

/// The maximum number of calls of [`maybe_yield`] between two readings of the clock.
const MAX_CALLS_BETWEEN_READINGS: u32 = 16;

/// The time for which a task may hold the core before it counts as a stall, unless
/// [`set_stall_threshold`] changes it.
pub const STALL_THRESHOLD: Duration = Duration::from_millis(5);

/// The maximum age of the copy of the kernel's accounts when a poll begins.
const USAGE_INTERVAL: Duration = Duration::from_micros(500);

struct Core {
    task_started: Cell<u64>,
    countdown: Cell<Countdown>,
    /// The tick at which [`maybe_yield`] last read the clock.
    clock_read: Cell<u64>,
    quick_ticks: Cell<u64>,
    accounts: Accounts,
    /// The virtual time of the statements that yielded.
    yielded_virtual: Cell<u64>,
    /// True if a yielded statement may run again.
    has_rested: Cell<bool>,
    /// The time at which the kernel's accounts were read, and their values; a time of 0 means that
    /// they are out of date.
    usage: Cell<(u64, ThreadUsage)>,
    usage_interval_ticks: Cell<u64>,
    budget_ticks: Cell<u64>,
    stall_ticks: Cell<u64>,
    fail_on_stall: Cell<bool>,
    /// The stall at which the loop panics: the ticks held, and where the task was spawned.
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

/// The numbers of calls of [`maybe_yield`] from now, and from the last reading of the clock, to the
/// next reading. If `from` is 0, the budget counts as used up.
#[derive(Clone, Copy)]
struct Countdown {
    left: u32,
    from: u32,
}

impl Countdown {
    const NEXT_CALL: Self = Self { left: 1, from: 1 };
}

thread_local! {
    static CORE: Core = const {
        Core {
            task_started: Cell::new(0),
            countdown: Cell::new(Countdown::NEXT_CALL),
            clock_read: Cell::new(0),
            quick_ticks: Cell::new(0),
            accounts: Accounts::new(),
            yielded_virtual: Cell::new(0),
            has_rested: Cell::new(false),
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

/// Returns whether the running task has used up its budget. Costs a decrement and a comparison;
/// returns `false` outside of an event loop.
#[inline]
pub fn should_yield() -> bool {
    CORE.with(|core| {
        let Countdown { left, from } = core.countdown.get();
        if left > 1 {
            core.countdown.set(Countdown { left: left - 1, from });
            return false;
        }
        core.is_budget_used()
    })
}

/// Returns whether the slice of a task group, which began at `began`, has lasted `slice` ticks. If
/// [`should_yield`] is forced, the forced choice counts instead of the clock.
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

/// Yields: other ready tasks run before this task runs again, and for a statement the kernel is
/// asked for completions. Outside of an event loop the task is woken at once.
pub fn yield_now() -> impl Future<Output = ()> {
    let mut has_yielded = false;
    poll_fn(move |context| {
        if has_yielded {
            CORE.with(Core::resume);
            return Poll::Ready(());
        }
        has_yielded = true;
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
    CORE.with(|core| core.force(seed.map(|seed| seed | 1)));
}

/// Makes every call of [`should_yield`] on this thread return true, so that a test can count the
/// work between two chances to yield; `false` returns to the clock.
pub fn force_every_yield(is_forced: bool) {
    // The generator's step maps 0 to 0, and 0 means yield.
    CORE.with(|core| core.force(is_forced.then_some(0)));
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

/// Returns [`stall_report`], and resets the longest poll for the next report.
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
    fn force(&self, forced: Option<u64>) {
        self.forced.set(forced);
        self.countdown.set(Countdown::NEXT_CALL);
    }

    /// Reads the clock, and sets the number of calls until the next reading.
    fn is_budget_used(&self) -> bool {
        if self.forced.get().is_some() {
            return self.forced_choice();
        }
        let (now, started) = (ticks::now(), self.task_started.get());
        let Countdown { from, .. } = self.countdown.get();
        let passed = now.wrapping_sub(self.clock_read.replace(now).max(started));
        let is_used = from == 0 || now.wrapping_sub(started) > self.budget_ticks.get();
        let is_quick = !is_used && passed < self.quick_ticks.get().wrapping_mul(u64::from(from));
        let from = if is_quick { (from * 2).min(MAX_CALLS_BETWEEN_READINGS) } else { 1 };
        self.countdown.set(Countdown { left: from, from });
        is_used
    }

    /// Takes one step of a 64-bit xorshift, so that the choices replay from the seed.
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
        if self.accounts.entered() != SchedulingGroup::Statements as usize {
            waker.wake_by_ref();
            return;
        }
        let waker = waker.clone();
        // Capped at the budget, so that a jump of the clock does not count against the yielded
        // statements.
        let held = ticks::now().saturating_sub(self.task_started.get());
        let held = held.min(self.budget_ticks.get());
        let mut yielded = self.yielded.borrow_mut();
        let yielded = yielded.get_or_insert_default();
        if yielded.is_empty() {
            self.raise_yielded();
        }
        yielded.push(waker, held);
    }

    /// Raises the virtual time of the yielded statements to that of the statements, so that they
    /// get no credit for the time in which none had yielded.
    fn raise_yielded(&self) {
        let statements = self.accounts.virtual_ticks(SchedulingGroup::Statements as usize);
        self.yielded_virtual.set(self.yielded_virtual.get().max(statements));
    }

    /// Charges the poll in which a yielded future continues to the account of the yielded
    /// statements. Their virtual time was charged when the future was made ready.
    fn resume(&self) {
        if self.accounts.entered() == SchedulingGroup::Statements as usize {
            self.accounts.charge_to_yielded();
        }
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
        core.quick_ticks.set(ticks::from_duration(QUICK_STEP));
        core.accounts.begin_loop();
        core.yielded_virtual.set(0);
        core.has_rested.set(false);
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

/// Called when the event loop ends: the loop schedules nothing after this.
pub(crate) fn end_loop() {
    crate::time::forget_seconds_of_iteration();
    scheduling::forget_controllers();
    let yielded = CORE.with(|core| {
        core.budget_ticks.set(u64::MAX);
        core.ending.set(false);
        core.task.set(None);
        core.yielded.take()
    });
    drop(yielded);
}

/// Called before a task is polled, unless the end of another poll is the beginning of this one.
pub(crate) fn task_begins_at(now: u64) {
    CORE.with(|core| {
        core.task_started.set(now);
        core.countdown.set(Countdown::NEXT_CALL);
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

/// Records which task is being polled.
#[inline]
pub(crate) fn set_current_task(location: &'static Location<'static>) {
    CORE.with(|core| {
        core.task.set(Some(location));
        core.tasks_polled.set(core.tasks_polled.get() + 1);
    });
}

/// Called by the event loop after each task poll; returns the tick of the end. Panics after a stall
/// if [`set_stall_threshold`] asked for that.
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

/// Like [`task_ends`], but for a member of a task group: it does not panic after a stall, because
/// the panic would end the runner of the group.
#[inline]
pub(crate) fn member_ends() -> u64 {
    CORE.with(|core| {
        let now = ticks::now();
        let mut held = now.wrapping_sub(core.task_started.get());
        core.task_started.set(now);
        if now.wrapping_sub(core.usage.get().0) > core.usage_interval_ticks.get() {
            held = core.without_what_others_took(now, held);
        }
        core.countdown.set(Countdown::NEXT_CALL);
        core.accounts.charge(held);
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
    /// Reads the kernel's accounts at `now`, the end of a poll of `held` ticks, and returns the
    /// number of ticks for which the task held the core.
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
    CORE.with(|core| {
        if let Some(yielded) = core.yielded.borrow_mut().as_mut() {
            yielded.let_run();
            core.has_rested.set(!yielded.is_empty());
        }
    });
}

/// Returns whether a yielded statement may run again.
#[inline]
pub(crate) fn has_rested() -> bool {
    CORE.with(|core| core.has_rested.get())
}

/// Makes ready the first yielded statement that may run again, and charges the yielded statements
/// for the time for which this statement had held the core. Returns false if there is none.
pub(crate) fn wake_first_rested() -> bool {
    CORE.with(|core| {
        let first = core.yielded.borrow_mut().as_mut().and_then(YieldedTasks::pop_first);
        core.has_rested.set(first.is_some());
        let Some((first, held_ticks)) = first else { return false };
        core.yielded_virtual.set(core.yielded_virtual.get() + held_ticks);
        first.wake();
        true
    })
}

/// Returns the virtual time of the statements that yielded.
pub(crate) fn yielded_virtual_ticks() -> u64 {
    CORE.with(|core| core.yielded_virtual.get())
}

/// Calls a function with the accounts of the groups.
pub(crate) fn with_accounts<R>(function: impl FnOnce(&Accounts) -> R) -> R {
    CORE.with(|core| function(&core.accounts))
}

/// Begins polls of a group, whose tasks have the given budget.
pub(crate) fn enter_group(group: usize, budget: Duration) {
    CORE.with(|core| {
        core.accounts.enter(group);
        core.budget_ticks.set(ticks::from_duration(budget));
    });
}

/// Returns whether yields are forced.
pub(crate) fn is_forced() -> bool {
    CORE.with(|core| core.forced.get().is_some())
}

/// Returns the tick at which the running poll began or, between polls, the last poll ended.
pub(crate) fn task_started() -> u64 {
    CORE.with(|core| core.task_started.get())
}
