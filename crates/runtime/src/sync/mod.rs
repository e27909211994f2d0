//! Synchronisation between the tasks of one shard: no atomics, no `Send`.
//!
//! Wakes are handed out in the order of arrival. All futures here may be dropped at any time; a
//! permit or notification that was already granted to a dropped future goes to the next waiter.
//! Allocation: one shared block per object and a queue that keeps its capacity; waiting itself
//! allocates nothing in the steady state.

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
