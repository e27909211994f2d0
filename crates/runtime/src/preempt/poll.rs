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

/// Makes the next call of [`should_yield`](super::should_yield) in this poll return true, whatever
/// the clock says. In tests that force the choices, the forced choice decides. Call this when the
/// poll has done as much as it may do.
pub fn use_up_budget() {
    CORE.with(|core| core.countdown.set(Countdown { left: 1, from: 0 }));
}

/// Returns the number of task polls on this thread.
pub(crate) fn tasks_polled() -> u64 {
    CORE.with(|core| core.tasks_polled.get())
}
