//! An event is a flag for which tasks can wait.

use super::Notify;
use std::cell::Cell;
use std::rc::Rc;

/// A flag for which tasks wait. Setting it wakes them, and each passes if the flag is still set
/// when the task runs. Clones share the flag.
#[derive(Clone, Default)]
pub struct Event {
    set: Rc<Cell<bool>>,
    changed: Notify,
}

impl Event {
    /// Creates an event that is not set.
    pub fn new() -> Self {
        Event::default()
    }

    /// Sets the flag and wakes all waiting tasks.
    pub fn set(&self) {
        if !self.set.replace(true) {
            self.changed.notify_all();
        }
    }

    /// Clears the flag.
    pub fn clear(&self) {
        self.set.set(false);
    }

    /// Returns whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.set.get()
    }

    /// Waits until the flag is set.
    pub async fn wait(&self) {
        while !self.set.get() {
            self.changed.notified().await;
        }
    }
}
