//! What one request does, step by step, for those who ask: events with their microseconds, over all shards that it visits.
//!
//! A [`Trace`] is a list of events. It is *entered* while its request is polled ([`Traced`]), and code anywhere below says
//! [`trace_event!`](crate::trace_event) without being handed anything. A call to another shard takes a seed of the trace
//! along, collects there, and brings the events back with its answer; the mailbox does that by itself. Tasks that are
//! spawned do not inherit it.
//!
//! Cost while nobody asks: where an event could be, a load of a thread-local byte and a branch that is never taken. Nothing
//! is formatted or allocated.
//!
//! Memory: at most [`MAXIMUM_EVENTS`] and [`MAXIMUM_TEXT_BYTES`] for each trace, and [`MAXIMUM_SHARD_BYTES`] for all that are
//! alive on a shard. What is beyond is counted, not kept.
//!
//! The idea is that of Cassandra's and ScyllaDB's `system_traces`.

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

/// Events of one trace.
pub const MAXIMUM_EVENTS: usize = 2000;
/// Bytes of the texts of one trace.
pub const MAXIMUM_TEXT_BYTES: usize = 256 << 10;
/// Bytes of all traces that are alive on one shard.
pub const MAXIMUM_SHARD_BYTES: usize = 8 << 20;

thread_local! {
    /// Whether a trace is entered. Apart from the trace itself, so that a look needs no check for destructors.
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static ENTERED: RefCell<Option<Trace>> = const { RefCell::new(None) };
    static SHARD_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Adds an event to the trace of the running request, if it has one: the arguments are those of `format!`.
#[macro_export]
macro_rules! trace_event {
    ($($argument:tt)*) => {
        if $crate::trace::is_on() {
            $crate::trace::record(format_args!($($argument)*));
        }
    };
}

/// Whether the running request is traced.
#[inline(always)]
pub fn is_on() -> bool {
    IS_ON.get()
}

/// Adds an event to the trace that is entered; see [`trace_event!`](crate::trace_event).
#[cold]
pub fn record(text: fmt::Arguments<'_>) {
    if let Some(trace) = entered() {
        trace.record(text);
    }
}

/// Adds to a sum of the trace that is entered, for what is too frequent to be an event.
#[cold]
pub fn count(what: &'static str, number: u64) {
    if let Some(trace) = entered() {
        trace.0.log.borrow_mut().count(what, number);
    }
}

/// A sum, which then begins anew. Zero if there is none.
pub fn take_count(what: &'static str) -> u64 {
    entered().map_or(0, |trace| trace.0.log.borrow_mut().take_count(what))
}

/// The id that the client of the running request is told, if it is traced and asked for it.
#[cold]
pub fn told_id() -> Option<Uuid> {
    entered().and_then(|trace| trace.0.told_id)
}

fn entered() -> Option<Trace> {
    ENTERED.with_borrow(Option::clone)
}

/// The trace of a request. Clones are the same trace.
#[derive(Clone, Debug)]
pub struct Trace(Rc<Session>);

#[derive(Debug)]
struct Session {
    told_id: Option<Uuid>,
    began: Instant,
    log: RefCell<TraceLog>,
    /// What of the shard's memory it has.
    charged: Cell<usize>,
}

/// What a call takes to another shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceSeed {
    began: Instant,
}

impl Trace {
    /// A trace that begins now. `told_id`: what the client is told, if it asked.
    pub fn new(told_id: Option<Uuid>) -> Self {
        Self::at(told_id, Instant::now())
    }

    /// The part of a trace that another shard began.
    pub(crate) fn of_seed(seed: TraceSeed) -> Self {
        Self::at(None, seed.began)
    }

    fn at(told_id: Option<Uuid>, began: Instant) -> Self {
        let (log, charged) = (RefCell::default(), Cell::new(0));
        Self(Rc::new(Session { told_id, began, log, charged }))
    }

    /// Runs `work` with the trace entered.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        let _entered = scope::Entered::new(self);
        work()
    }

    /// The time since its begin.
    pub fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Adds an event.
    pub fn record(&self, text: fmt::Arguments<'_>) {
        let elapsed_us = self.elapsed_us();
        let shard = crate::current_shard().map_or(0, |shard| shard.index);
        let before = self.0.log.borrow().memory_bytes();
        let room = self.0.charged.get() + MAXIMUM_SHARD_BYTES.saturating_sub(SHARD_BYTES.get());
        self.0.log.borrow_mut().push(elapsed_us, shard, text, room);
        let after = self.0.log.borrow().memory_bytes();
        self.charge(after.saturating_sub(before));
    }

    /// Takes in what happened on another shard.
    fn absorb(&self, other: TraceLog) {
        let before = self.0.log.borrow().memory_bytes();
        // Growing doubles what there is.
        let growth = 2 * other.memory_bytes() + before;
        let fits = SHARD_BYTES.get() + growth <= MAXIMUM_SHARD_BYTES;
        self.0.log.borrow_mut().append(other, fits);
        let after = self.0.log.borrow().memory_bytes();
        self.charge(after.saturating_sub(before));
    }

    /// Takes memory of the shard's share for what belongs to the trace, until that is dropped. False: there is none left.
    pub fn charge(&self, bytes: usize) -> bool {
        let used = SHARD_BYTES.get() + bytes;
        if used > MAXIMUM_SHARD_BYTES {
            return false;
        }
        SHARD_BYTES.set(used);
        self.0.charged.set(self.0.charged.get() + bytes);
        true
    }

    /// What was recorded so far; the trace is empty then.
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

/// The seed for a call, if the running request is traced.
#[inline]
pub(crate) fn seed() -> Option<TraceSeed> {
    if !is_on() {
        return None;
    }
    entered().map(|trace| TraceSeed { began: trace.0.began })
}

/// Adds what another shard recorded to the trace that is entered.
#[cold]
pub(crate) fn absorb(log: TraceLog) {
    if let Some(trace) = entered() {
        trace.absorb(log);
    }
}

/// A future that runs with a trace entered, or as it is.
pub fn traced<F: Future>(trace: Option<Trace>, future: F) -> Traced<F> {
    Traced::new(trace, future)
}

#[cfg(test)]
mod tests;
