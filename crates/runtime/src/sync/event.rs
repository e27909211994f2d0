//! A flag that tasks can wait for.

use super::Notify;
use std::cell::Cell;
use std::rc::Rc;

/// Once set it lets everybody pass until it is cleared. Clones share the flag.
#[derive(Clone, Default)]
pub struct Event {
    set: Rc<Cell<bool>>,
    changed: Notify,
}

impl Event {
    /// An event that is not set.
    pub fn new() -> Self {
        Event::default()
    }

    /// Sets the flag and wakes all who wait.
    pub fn set(&self) {
        if !self.set.replace(true) {
            self.changed.notify_all();
        }
    }

    /// Clears the flag.
    pub fn clear(&self) {
        self.set.set(false);
    }

    /// Whether the flag is set.
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
