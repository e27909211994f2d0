//! The controllers of a thread: functions that return the shares of groups.

use super::SchedulingGroup;
use std::cell::RefCell;

type Controller = Box<dyn Fn() -> Option<u32>>;

thread_local! {
    static CONTROLLERS: RefCell<Vec<(SchedulingGroup, Controller)>> =
        const { RefCell::new(Vec::new()) };
}

pub(super) fn add(group: SchedulingGroup, controller: Controller) {
    CONTROLLERS.with_borrow_mut(|controllers| controllers.push((group, controller)));
}

/// Returns the shares that the controllers of a group set, and drops each controller that returns
/// `None`.
pub(crate) fn shares_of(group: SchedulingGroup) -> u32 {
    // The list is empty during the calls, because a call may run a destructor that uses it.
    let mut controllers = CONTROLLERS.take();
    let mut most = None;
    controllers.retain(|(of, controller)| {
        let shares = if *of == group { controller() } else { return true };
        most = most.max(shares);
        shares.is_some()
    });
    CONTROLLERS.with_borrow_mut(|added| {
        controllers.append(added);
        *added = controllers;
    });
    most.filter(|shares| *shares > 0).unwrap_or(group.initial_shares())
}

/// Drops all controllers of the thread, when its event loop ends.
pub(crate) fn forget_controllers() {
    drop(CONTROLLERS.take());
}
