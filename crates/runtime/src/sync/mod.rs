//! Synchronisation between the tasks of one shard: no atomics, no `Send`.
//!
//! Waiters are woken in the order in which they began to wait. All futures here may be dropped at
//! any time. If a dropped future already had a permit or notification, the next waiter gets it.
//! Allocation: an object allocates its shared state once, and its queue keeps its capacity, so that
//! a wait allocates nothing in the steady state.

pub mod channel;
mod event;
mod gate;
mod mutex;
mod notify;
pub mod oneshot;
mod semaphore;
mod wait_queue;

pub use event::Event;
pub use gate::{Gate, GateClosed, GatePass};
pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use semaphore::{Permit, Semaphore};
