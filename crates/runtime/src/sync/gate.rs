//! Letting work in until closing time, then waiting until all of it has left.
//!
//! Where the idea comes from: Seastar's `gate`.

use super::Event;
use std::cell::Cell;
use std::rc::Rc;

/// Counts who is inside. Clones are the same gate.
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
#[error("the gate is closed: this is being shut down")]
pub struct GateClosed;

/// Being inside; dropping it is leaving.
#[must_use = "a dropped pass has left the gate"]
pub struct GatePass {
    gate: Gate,
}

impl Gate {
    /// An open gate with nobody inside.
    pub fn new() -> Self {
        Gate::default()
    }

    /// Goes in, unless the gate is closed.
    pub fn enter(&self) -> Result<GatePass, GateClosed> {
        if self.shared.closed.get() {
            return Err(GateClosed);
        }
        self.shared.inside.set(self.shared.inside.get() + 1);
        Ok(GatePass { gate: self.clone() })
    }

    /// How many are inside.
    pub fn count(&self) -> usize {
        self.shared.inside.get()
    }

    /// Whether [`Gate::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.get()
    }

    /// Lets nobody in any more (at once) and waits until all have left. May be called more than once.
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
