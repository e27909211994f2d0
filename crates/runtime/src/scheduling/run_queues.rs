//! The tasks of all groups but the statements, and the choice of the group that runs next.
//!
//! Invariants:
//! - A wake is never lost: it makes the task ready, then sets the bit of its group, then wakes the
//!   driver. The loop clears the bit before it runs a task, and sets it again if more are ready.
//! - The virtual time of a group that becomes ready is raised to that of the statements.
//! - A group is held back only if it has fewer shares than the statements, its virtual time is
//!   ahead of theirs by more than [`BACKGROUND_SLICE`], the statements used more than
//!   1/[`IDLE_PART`] of the core lately, and no statement waits after a yield.
//!
//! Memory: an executor for each group that ever had a task, with a slot for each of its tasks.

use super::accounts::YIELDED;
use super::{
    BACKGROUND_SLICE, GROUPS, SLICE_BESIDE_STATEMENTS, STATEMENT_SHARES, SchedulingGroup, shares_of,
};
use crate::{preempt, ticks, time};
use compio_executor::{Executor, ExecutorConfig, JoinHandle};
use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// The longest time for which the loop holds a group back without looking again.
const MAX_HELD_BACK: Duration = Duration::from_millis(20);

/// The minimum time between two questions to a group's controller.
const CONTROL_INTERVAL: Duration = Duration::from_millis(10);

/// The loop holds groups back for statements that used more than 1/`IDLE_PART` of the core lately.
const IDLE_PART: u64 = 5;

/// The minimum time for which statements must have run since the last poll of a group's task, so
/// that the next slice is [`SLICE_BESIDE_STATEMENTS`]. A look that finds no ready statement takes
/// less, and a request takes more.
const MIN_STATEMENT_TIME: Duration = Duration::from_micros(4);

/// Under forced yields, one in so many choices before a statement is a task of another group
/// (arbitrary). When no statement is ready or has yielded, every second choice is such a task.
const FORCED_TURNS_BEFORE_STATEMENTS: usize = 8;

const STATEMENTS: usize = SchedulingGroup::Statements as usize;

/// The choice of the loop between the other groups and the statements that yielded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A statement that yielded.
    Yielded,
    /// A task of this group.
    Group(usize),
    /// No task for so many ticks, unless a statement becomes ready.
    HeldBack(u64),
    /// No task is ready.
    Nothing,
}

pub(crate) struct RunQueues {
    executors: [OnceCell<Executor>; GROUPS],
    /// The groups with ready tasks, a bit each.
    ready: Arc<AtomicU32>,
    /// The groups that were ready at the last look.
    active: Cell<u32>,
    driver: Waker,
    /// For each group: the time at which its controllers were last asked.
    asked: [Cell<u64>; GROUPS],
    /// For each group: the time of the last decision to hold it back or not, and the ticks for
    /// which statements had run by then.
    decided: [Cell<(u64, u64)>; GROUPS],
    /// The ticks for which statements had run when a task of a group was last polled.
    ran_at_slice: Cell<u64>,
    /// Under forced yields: the number of choices before statements, and without a ready statement.
    forced: [Cell<usize>; 2],
}

struct GroupWaker {
    bit: u32,
    ready: Arc<AtomicU32>,
    driver: Waker,
}

impl Wake for GroupWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.fetch_or(self.bit, Ordering::AcqRel);
        self.driver.wake_by_ref();
    }
}

impl RunQueues {
    pub(crate) fn new(driver: Waker) -> Self {
        Self {
            executors: Default::default(),
            ready: Arc::default(),
            active: Cell::new(0),
            driver,
            asked: Default::default(),
            decided: Default::default(),
            ran_at_slice: Cell::new(0),
            forced: Default::default(),
        }
    }

    /// Spawns a task of a group other than the statements.
    pub(crate) fn spawn<F>(&self, group: SchedulingGroup, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
    {
        let bit = 1 << group as u32;
        let executor = self.executors[group as usize].get_or_init(|| {
            let (ready, driver) = (Arc::clone(&self.ready), self.driver.clone());
            let waker = Waker::from(Arc::new(GroupWaker { bit, ready, driver }));
            Executor::with_config(ExecutorConfig {
                max_interval: 1,
                waker: Some(waker),
                ..ExecutorConfig::default()
            })
        });
        // A new task is ready without a wake.
        self.ready.fetch_or(bit, Ordering::AcqRel);
        executor.spawn(future)
    }

    /// Wakes the driver, so that its next call to the kernel does not wait.
    pub(crate) fn wake_driver(&self) {
        self.driver.wake_by_ref();
    }

    /// Returns whether any group but the statements has a ready task.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) != 0
    }

    /// Returns the ready group, or the yielded statements, with the least virtual time, if it is
    /// less than that of the statements; otherwise [`Next::Nothing`].
    pub(crate) fn next_before_statements(&self, has_yielded: bool) -> Next {
        if preempt::is_forced() {
            return self.forced_choice(&self.forced[0], FORCED_TURNS_BEFORE_STATEMENTS);
        }
        let statements = preempt::with_accounts(|accounts| accounts.virtual_ticks(STATEMENTS));
        match self.least(has_yielded) {
            Some((YIELDED, virtual_ticks)) if virtual_ticks < statements => Next::Yielded,
            Some((group, virtual_ticks)) if virtual_ticks < statements => Next::Group(group),
            _ => Next::Nothing,
        }
    }

    /// Returns the next choice when no statement is ready.
    pub(crate) fn next_without_statements(&self, has_yielded: bool) -> Next {
        if preempt::is_forced() {
            return if has_yielded {
                Next::Yielded
            } else {
                self.forced_choice(&self.forced[1], 2)
            };
        }
        let Some((next, virtual_ticks)) = self.least(has_yielded) else { return Next::Nothing };
        preempt::with_accounts(|accounts| {
            if has_yielded {
                // The virtual time of the yielded statements is no less, and no other statement is
                // ready.
                accounts.raise(STATEMENTS, virtual_ticks);
            }
            if next == YIELDED {
                return Next::Yielded;
            }
            let ahead = virtual_ticks.saturating_sub(accounts.virtual_ticks(STATEMENTS));
            if ahead <= ticks::from_duration(BACKGROUND_SLICE) {
                return Next::Group(next);
            }
            let (now, ran) = (preempt::task_started(), accounts.statement_ticks());
            let (then, ran_then) = self.decided[next].replace((now, ran));
            let is_wanted = (ran - ran_then) * IDLE_PART > now.saturating_sub(then);
            let is_urgent = accounts.shares(next) >= STATEMENT_SHARES;
            // A manual clock does not move while the thread sleeps.
            if is_wanted && !is_urgent && time::manual_clock().is_none() {
                return Next::HeldBack(ahead.min(ticks::from_duration(MAX_HELD_BACK)));
            }
            accounts.raise(STATEMENTS, virtual_ticks);
            Next::Group(next)
        })
    }

    /// Returns the ready group with the least virtual time; [`YIELDED`] are the statements that
    /// yielded.
    fn least(&self, has_yielded: bool) -> Option<(usize, u64)> {
        let ready = self.ready.load(Ordering::Acquire);
        let new = ready & !self.active.replace(ready);
        let mut least: Option<(usize, u64)> = None;
        for group in (0..GROUPS).filter(|group| ready & 1 << group != 0) {
            self.ask(group);
            let virtual_ticks = preempt::with_accounts(|accounts| {
                if new & 1 << group != 0 {
                    accounts.raise(group, accounts.virtual_ticks(STATEMENTS));
                }
                accounts.virtual_ticks(group)
            });
            if least.is_none_or(|(_, least)| virtual_ticks < least) {
                least = Some((group, virtual_ticks));
            }
        }
        let yielded = preempt::yielded_virtual_ticks();
        if has_yielded && least.is_none_or(|(_, least)| yielded <= least) {
            least = Some((YIELDED, yielded));
        }
        least
    }

    /// Asks the controllers of a group for its shares, at most once in [`CONTROL_INTERVAL`].
    fn ask(&self, group: usize) {
        let now = preempt::task_started();
        if now.wrapping_sub(self.asked[group].get()) > ticks::from_duration(CONTROL_INTERVAL) {
            self.asked[group].set(now);
            let shares = shares_of(SchedulingGroup::ALL[group]);
            preempt::with_accounts(|accounts| accounts.set_shares(group, shares));
        }
    }

    /// Returns a choice that does not depend on the clock, for simulations: one call in `turns`
    /// returns the next ready group, the others return [`Next::Nothing`].
    fn forced_choice(&self, turn: &Cell<usize>, turns: usize) -> Next {
        let turn = turn.replace(turn.get().wrapping_add(1));
        if !turn.is_multiple_of(turns) {
            return Next::Nothing;
        }
        let ready = self.ready.load(Ordering::Acquire);
        let mut groups = (0..GROUPS).map(|offset| (turn / turns + offset) % GROUPS);
        groups.find(|group| ready & 1 << group != 0).map_or(Next::Nothing, Next::Group)
    }

    /// Polls one task of a group, and returns the tick at which the poll ended.
    pub(crate) fn run(&self, group: usize) -> u64 {
        let Some(executor) = self.executors[group].get() else { return ticks::now() };
        let bit = 1 << group;
        self.ready.fetch_and(!bit, Ordering::AcqRel);
        let ran = preempt::with_accounts(|accounts| accounts.statement_ticks());
        let ran_between = ran.wrapping_sub(self.ran_at_slice.replace(ran));
        let is_beside_statements = ran_between > ticks::from_duration(MIN_STATEMENT_TIME);
        preempt::enter_group(
            group,
            if is_beside_statements { SLICE_BESIDE_STATEMENTS } else { BACKGROUND_SLICE },
        );
        let is_more_ready = executor.tick();
        if is_more_ready {
            self.ready.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.active.set(self.active.get() & !bit);
        }
        let now = preempt::task_ends();
        preempt::enter_group(STATEMENTS, preempt::TASK_BUDGET);
        now
    }

    /// Polls a task of each group, when the loop ends; returns whether more are ready.
    pub(crate) fn run_each(&self) -> bool {
        let executors = self.executors.iter().filter_map(OnceCell::get);
        executors.fold(false, |more, executor| executor.tick() | more)
    }

    /// Drops all tasks.
    pub(crate) fn clear(&self) {
        self.executors.iter().filter_map(OnceCell::get).for_each(Executor::clear);
    }
}
