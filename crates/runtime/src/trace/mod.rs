//! Request tracing: the steps of one request with their microseconds, over all shards that it
//! visits.
//!
//! A [`Trace`] is a list of events. It is *entered* while its request is polled ([`Traced`]), and
//! any code below it adds an event by [`trace_event!`](crate::trace_event), without a parameter. A
//! call to another shard carries a seed of the trace, collects events there, and returns them with
//! its answer; the mailbox does all of that. Of the spawned tasks, only those of
//! [`run_to_completion`](crate::run_to_completion) inherit the trace.
//!
//! Cost for a request that is not traced: at each possible event, a load of a thread-local byte and
//! a branch that is never taken. Nothing is formatted or allocated.
//!
//! Memory bound: [`MAX_EVENTS`] and [`MAX_TEXT_BYTES`] for each trace, and
//! [`MAX_SHARD_BYTES`] for all live traces of a shard. Events beyond that are counted, not
//! kept.
//!
//! Lineage: the `system_traces` of Cassandra and ScyllaDB.

mod log;
mod scope;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use uuid::Uuid;

pub use log::{TraceEvent, TraceLog};
pub use scope::Traced;

use crate::time::Instant;

/// Maximum number of events of one trace.
pub const MAX_EVENTS: usize = 2000;
/// Number of bytes of texts at which a trace takes no more events.
pub const MAX_TEXT_BYTES: usize = 256 << 10;
/// Maximum number of bytes of all live traces of one shard.
pub const MAX_SHARD_BYTES: usize = 8 << 20;

thread_local! {
    /// True if a trace is entered. This is a variable of its own, because a read of `ENTERED`
    /// checks whether its destructor has run.
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static ENTERED: RefCell<Option<Trace>> = const { RefCell::new(None) };
    static SHARD_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Adds an event to the trace of the running request, if it has one: the arguments are those of
/// `format!`.
#[macro_export]
macro_rules! trace_event {
    ($($argument:tt)*) => {
        if $crate::trace::is_on() {
            $crate::trace::record(format_args!($($argument)*));
        }
    };
}

/// Returns whether the running request is traced.
#[inline(always)]
pub fn is_on() -> bool {
    IS_ON.get()
}

/// Adds an event to the entered trace; see [`trace_event!`](crate::trace_event).
#[cold]
pub fn record(text: fmt::Arguments<'_>) {
    if let Some(trace) = entered() {
        trace.record(text);
    }
}

/// Adds to a sum of the entered trace, for steps that are too frequent to be events.
#[cold]
pub fn count(what: &'static str, number: u64) {
    if let Some(trace) = entered() {
        trace.0.log.borrow_mut().count(what, number);
    }
}

/// Returns a sum of the entered trace and resets the sum; 0 without an entered trace.
pub fn take_count(what: &'static str) -> u64 {
    entered().map_or(0, |trace| trace.0.log.borrow_mut().take_count(what))
}

/// Returns the id that the answer reports to the client, if the running request is traced and the
/// client asked for it.
#[cold]
pub fn client_trace_id() -> Option<Uuid> {
    entered().and_then(|trace| trace.0.client_trace_id)
}

/// Returns the entered trace.
pub(crate) fn entered() -> Option<Trace> {
    ENTERED.with_borrow(Option::clone)
}

/// The trace of one request. Clones are the same trace.
#[derive(Clone, Debug)]
pub struct Trace(Rc<Session>);

#[derive(Debug)]
struct Session {
    client_trace_id: Option<Uuid>,
    began: Instant,
    log: RefCell<TraceLog>,
    /// Bytes that the trace has charged to [`SHARD_BYTES`].
    charged: Cell<usize>,
}

/// The part of a trace that a call takes to another shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceSeed {
    began: Instant,
}

impl Trace {
    /// Begins a trace. `client_trace_id` is the id that the answer reports to the client, if the
    /// client asked for it.
    pub fn new(client_trace_id: Option<Uuid>) -> Self {
        Self::at(client_trace_id, Instant::now())
    }

    /// Creates the part of a trace that another shard began.
    pub(crate) fn of_seed(seed: TraceSeed) -> Self {
        Self::at(None, seed.began)
    }

    fn at(client_trace_id: Option<Uuid>, began: Instant) -> Self {
        let (log, charged) = (RefCell::default(), Cell::new(0));
        Self(Rc::new(Session { client_trace_id, began, log, charged }))
    }

    /// Runs `work` with the trace entered.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        let _entered = scope::Entered::new(self);
        work()
    }

    /// Returns the time since the trace began.
    pub fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Adds an event.
    pub fn record(&self, text: fmt::Arguments<'_>) {
        let elapsed_us = self.elapsed_us();
        let shard = crate::current_shard().map_or(0, |shard| shard.index);
        let before = self.0.log.borrow().memory_bytes();
        let room = self.0.charged.get() + MAX_SHARD_BYTES.saturating_sub(SHARD_BYTES.get());
        self.0.log.borrow_mut().push(elapsed_us, shard, text, room);
        let after = self.0.log.borrow().memory_bytes();
        self.charge(after.saturating_sub(before));
    }

    /// Adds the events that another shard recorded.
    fn absorb(&self, other: TraceLog) {
        let before = self.0.log.borrow().memory_bytes();
        // Growing doubles the capacity.
        let growth = 2 * other.memory_bytes() + before;
        let fits = SHARD_BYTES.get() + growth <= MAX_SHARD_BYTES;
        self.0.log.borrow_mut().append(other, fits);
        let after = self.0.log.borrow().memory_bytes();
        self.charge(after.saturating_sub(before));
    }

    /// Charges bytes of the shard's bound to the trace until the trace is dropped. Returns false if
    /// there are not enough left.
    pub fn charge(&self, bytes: usize) -> bool {
        let used = SHARD_BYTES.get() + bytes;
        if used > MAX_SHARD_BYTES {
            return false;
        }
        SHARD_BYTES.set(used);
        self.0.charged.set(self.0.charged.get() + bytes);
        true
    }

    /// Takes the events recorded so far; the trace is empty then.
    pub fn take_log(&self) -> TraceLog {
        self.0.log.take()
    }

    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        SHARD_BYTES.set(SHARD_BYTES.get().saturating_sub(self.charged.get()));
    }
}

/// Returns the seed for a call, if the running request is traced.
#[inline]
pub(crate) fn seed() -> Option<TraceSeed> {
    if !is_on() {
        return None;
    }
    entered().map(|trace| TraceSeed { began: trace.0.began })
}

/// Adds the events that another shard recorded to the entered trace.
#[cold]
pub(crate) fn absorb(log: TraceLog) {
    if let Some(trace) = entered() {
        trace.absorb(log);
    }
}

/// Wraps a future so that it runs with `trace` entered; with `None` it runs as it is.
pub fn traced<F: Future>(trace: Option<Trace>, future: F) -> Traced<F> {
    Traced::new(trace, future)
}

#[cfg(test)]
mod tests;
