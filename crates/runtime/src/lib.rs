//! This crate runs a shard per core: tasks, cross-shard calls, files, sockets, timers, random
//! numbers, and a simulated disk for tests.
//!
//! All access of a node to files, sockets, clock, random numbers and threads goes through this
//! crate (ARCHITECTURE.md lists the exceptions). Its API hides the async runtime underneath
//! (compio: completion-based, io_uring with a polling fallback). A shard is one OS thread with one
//! event loop that shares nothing: it reaches other shards only by [`mailbox`] calls. The design is
//! Seastar's. The scheduling loop, preemption and cross-shard calls are written here because compio
//! has no yield, no stall detector and no safe bounded cross-thread queue.
//!
//! Tests can replace two things: the disk (by [`file::FileSystem::simulated`], which can lose each
//! change that was not synced) and the clock (by [`time::ManualClock`]).

// The ban list of clippy.toml refers to this crate, so the banned calls are allowed here. `unsafe`
// is needed for aligned buffers, completion buffers, the cycle counter, the signal handler and the
// allocator.
#![allow(unsafe_code, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod allocation;
pub mod cpu;
mod driver;
mod event_loop;
pub mod file;
pub mod heap;
pub mod log_limit;
pub mod mailbox;
pub mod memory;
pub mod net;
pub mod perf;
pub mod preempt;
pub mod process;
pub mod random;
pub mod scheduling;
pub mod shard;
pub mod signal;
pub mod sync;
pub mod task;
mod ticks;
pub mod time;
pub mod trace;

pub use driver::driver_notice;
pub use mailbox::{submit_to, submit_to_all};
pub use preempt::{maybe_yield, should_yield, yield_now};
pub use scheduling::SchedulingGroup;
pub use shard::{
    ShardContext, ShardOptions, Shards, current_shard, shard_of_token, start_shards,
    token_range_of_shard,
};
pub use task::{
    JoinHandle, TaskGroup, block_on, run_to_completion, spawn_blocking, spawn_blocking_holding,
    spawn_blocking_if_long, spawn_local,
};
