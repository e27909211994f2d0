//! A gate admits work until it is closed, and then waits until all of that work has left.
//!
//! Lineage: Seastar's `gate`.

use super::Event;
use std::cell::Cell;
use std::rc::Rc;

/// A gate counts the work inside of it. Clones are the same gate.
#[derive(Clone, Default)]
pub struct Gate {
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    inside: Cell<usize>,
    closed: Cell<bool>,
    empty_and_closed: Event,
}

/// The gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gate is closed: the component is shutting down")]
pub struct GateClosed;

/// A pass for work inside of the gate; dropping it leaves the gate.
#[must_use = "a dropped pass has left the gate"]
pub struct GatePass {
    gate: Gate,
}

impl Gate {
    /// Creates an open gate with no work inside.
    pub fn new() -> Self {
        Gate::default()
    }

    /// Enters the gate.
    ///
    /// # Errors
    /// Fails if the gate is closed.
    pub fn enter(&self) -> Result<GatePass, GateClosed> {
        if self.shared.closed.get() {
            return Err(GateClosed);
        }
        self.shared.inside.set(self.shared.inside.get() + 1);
        Ok(GatePass { gate: self.clone() })
    }

    /// Returns the number of passes that have not left.
    pub fn count(&self) -> usize {
        self.shared.inside.get()
    }

    /// Returns whether [`Gate::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.get()
    }

    /// Closes the gate at once, and returns a future that waits until all passes have left. May be
    /// called more than once.
    pub fn close(&self) -> impl Future<Output = ()> + use<> {
        self.shared.closed.set(true);
        self.check();
        let shared = Rc::clone(&self.shared);
        async move { shared.empty_and_closed.wait().await }
    }

    fn check(&self) {
        if self.shared.closed.get() && self.shared.inside.get() == 0 {
            self.shared.empty_and_closed.set();
        }
    }
}

impl Drop for GatePass {
    fn drop(&mut self) {
        self.gate.shared.inside.set(self.gate.shared.inside.get() - 1);
        self.gate.check();
    }
}
