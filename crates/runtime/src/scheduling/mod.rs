//! Scheduling groups share the core and the disk of a shard by their shares.
//!
//! - A task belongs to the group of the task that spawned it, or to the group by which it was
//!   spawned ([`SchedulingGroup::spawn`]). A call to another shard takes the group along.
//! - The virtual time of a group is the time of its polls divided by its shares. The event loop
//!   polls a task of the group with the least virtual time (`run_queues`).
//! - A controller ([`SchedulingGroup::set_controller`]) sets the shares of a group by its backlog.
//! - Reads of other groups begin later while statements read (`file::disk_share`).
//!
//! Decision 0049 has the reasons.

mod accounts;
mod controllers;
mod run_queues;

pub(crate) use accounts::Accounts;
pub(crate) use controllers::{forget_controllers, shares_of};
pub(crate) use run_queues::{Next, RunQueues};

use crate::preempt;
use crate::task::{JoinHandle, spawn_in};
use futures_util::future::LocalBoxFuture;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

/// The number of groups.
pub(crate) const GROUPS: usize = SchedulingGroup::ALL.len();

/// The time for which a task of any group but the statements may hold the core. It is shorter than
/// the budget of statements, because a request that arrives waits for the rest of the slice.
pub(crate) const BACKGROUND_SLICE: Duration = Duration::from_micros(200);

/// The slice of a task if statements have run since the last poll of such a task. Otherwise the
/// slice is [`BACKGROUND_SLICE`], because each slice costs two calls to the kernel.
pub(crate) const SLICE_BESIDE_STATEMENTS: Duration = Duration::from_micros(100);

/// The shares of the statements. The shares of the other groups are relative to these.
pub const STATEMENT_SHARES: u32 = 1000;

/// A class of work that has a share of the core and of the disk of its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SchedulingGroup {
    /// The requests of clients, and everything that has no other group.
    Statements,
    /// Writes memtables to SSTables.
    Flush,
    /// Adds the rows of flushed memtables to the row cache.
    CacheUpdate,
    /// Merges SSTables.
    Compaction,
    /// Builds indexes and views, checks files, and prefetches.
    Maintenance,
    /// Copies data into the node.
    Streaming,
}

impl SchedulingGroup {
    /// All groups.
    pub const ALL: [Self; 6] = [
        Self::Statements,
        Self::Flush,
        Self::CacheUpdate,
        Self::Compaction,
        Self::Maintenance,
        Self::Streaming,
    ];

    /// Returns the group of the task that is being polled.
    pub fn current() -> Self {
        Self::ALL[preempt::with_accounts(Accounts::entered)]
    }

    /// Returns the name of the group in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Statements => "statements",
            Self::Flush => "memtable_flush",
            Self::CacheUpdate => "cache_update",
            Self::Compaction => "compaction",
            Self::Maintenance => "maintenance",
            Self::Streaming => "streaming",
        }
    }

    /// Spawns a task of this group on the calling shard, as [`crate::spawn_local`] does.
    ///
    /// Panics outside of an event loop.
    #[track_caller]
    pub fn spawn<F: Future + 'static>(self, future: F) -> JoinHandle<F::Output> {
        spawn_in(self, Location::caller(), future)
    }

    /// Runs a future as a task of this group, and returns its output. If the running task belongs
    /// to the group, the future runs in that task. Otherwise the new task continues even if the
    /// caller drops its future.
    #[track_caller]
    pub fn run<F: Future + 'static>(self, future: F) -> LocalBoxFuture<'static, F::Output> {
        let location = Location::caller();
        // Boxed, because such futures are large and rare.
        let future: LocalBoxFuture<'static, _> = Box::pin(future);
        Box::pin(async move {
            if Self::current() == self {
                future.await
            } else {
                spawn_in(self, location, future).await
            }
        })
    }

    /// Sets the shares of the group on the calling shard by a function: the event loop calls it
    /// when the group has work, at most every 10 ms, until it returns `None`. Of several functions
    /// the largest result counts; 0 leaves the shares as they are without a controller.
    pub fn set_controller(self, shares: impl Fn() -> Option<u32> + 'static) {
        controllers::add(self, Box::new(shares));
    }

    /// Returns the shares of the group while it has no controller.
    fn initial_shares(self) -> u32 {
        match self {
            Self::Statements => STATEMENT_SHARES,
            Self::Flush | Self::CacheUpdate | Self::Compaction => STATEMENT_SHARES / 3,
            Self::Maintenance | Self::Streaming => STATEMENT_SHARES / 5,
        }
    }
}

/// Returns the shares with which a group gets this part of the core while statements want all of
/// it. The part is clamped to between 0.001 and 0.9.
pub fn shares_of_part(part: f64) -> u32 {
    let part = part.clamp(0.001, 0.9);
    (f64::from(STATEMENT_SHARES) * part / (1.0 - part)).round() as u32
}

/// The use that one group has made of the core of the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupReport {
    /// The group.
    pub group: SchedulingGroup,
    /// The shares that it has now.
    pub shares: u32,
    /// The time for which its tasks held the core, in microseconds.
    pub run_us: u64,
    /// The number of polls of its tasks.
    pub polls: u64,
    /// Its longest poll, in microseconds.
    pub longest_us: u64,
}

/// Returns the reports of all groups of the calling thread.
pub fn group_reports() -> [GroupReport; GROUPS] {
    preempt::with_accounts(|accounts| SchedulingGroup::ALL.map(|group| accounts.report(group)))
}
