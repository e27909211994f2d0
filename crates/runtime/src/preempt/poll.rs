//! Functions for code that counts polls, or the work of a poll.

use super::{CORE, Countdown};

/// Returns a number that differs from one poll of a task to the next, or `None` outside of an event
/// loop.
pub fn current_poll() -> Option<u64> {
    CORE.with(|core| {
        let is_running = core.budget_ticks.get() != u64::MAX;
        is_running.then(|| core.task_started.get())
    })
}

/// Makes the next call of [`should_yield`](super::should_yield) read the clock. Call it before a
/// step that takes much longer than the steps before it.
pub fn expect_slow_step() {
    CORE.with(|core| core.countdown.set(Countdown::NEXT_CALL));
}

/// Returns the number of task polls on this thread.
pub(crate) fn tasks_polled() -> u64 {
    CORE.with(|core| core.tasks_polled.get())
}
