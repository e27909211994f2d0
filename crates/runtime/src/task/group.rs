//! A task group is any number of tasks that share one slice, such as the requests of one client. So
//! a client with many requests does not take the time of other clients.
//!
//! To its scheduling group, a task group is one task: the runner. It polls its ready members in
//! order, for at most [`SLICE`], and then queues behind all other ready tasks. So a task that waits
//! behind groups waits for one slice of each, and not for all the work of their members.
//!
//! The members are the tasks of an executor of their own, like those of a scheduling group. A wake
//! of a member makes it ready and then wakes the runner.
//!
//! Memory: a slot of five words for each member. When the last member ends, the group frees its
//! executor if the executor has more than [`KEPT_SLOTS`] slots.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use compio_executor::{Executor, ExecutorConfig};

use super::{spawn_in, track};
use crate::scheduling::SchedulingGroup;
use crate::{event_loop, preempt, ticks};

/// The time for which members of a group run before other tasks run; the running member
/// may finish its poll. It is enough for some members, which work for some µs each between two
/// waits. A shorter slice would cost more in switches than it brings.
const SLICE: Duration = Duration::from_micros(50);

/// Slots that a group without members keeps.
const KEPT_SLOTS: usize = 64;

/// Slots of a new executor, and wakes of other threads that it can hold.
const FIRST_SLOTS: usize = 16;

/// A group of tasks of one shard that share their slices. Its tasks outlive the group.
pub struct TaskGroup {
    members: Rc<Members>,
    location: &'static Location<'static>,
}

#[derive(Default)]
struct Members {
    executor: RefCell<Option<Rc<Executor>>>,
    /// The waker of the runner, set by its first poll.
    runner: Arc<RunnerWaker>,
    live: Cell<usize>,
    /// The maximum number of members that the executor has had.
    most: Cell<usize>,
    /// True if the runner was spawned.
    is_begun: Cell<bool>,
    /// True if the runner is gone.
    is_over: Cell<bool>,
    /// True if the group was dropped, so that no more members are spawned.
    is_closed: Cell<bool>,
}

#[derive(Default)]
struct RunnerWaker(OnceLock<Waker>);

impl Wake for RunnerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Without a waker the runner was not polled yet, and its first poll looks at the members.
        if let Some(runner) = self.0.get() {
            runner.wake_by_ref();
        }
    }
}

/// Counts a member until it is dropped.
struct Member(Rc<Members>);

impl Drop for Member {
    fn drop(&mut self) {
        self.0.live.set(self.0.live.get() - 1);
    }
}

impl TaskGroup {
    /// Creates a group without members; it costs some words until it gets one.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self { members: Rc::default(), location: Location::caller() }
    }

    /// Adds a task. It runs when the spawning task yields and the group has its slice. A panic in
    /// it is printed and ends no other task.
    ///
    /// Panics outside of an event loop.
    #[track_caller]
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let state = event_loop::expect_current();
        let members = &self.members;
        if state.is_ending() || members.is_over.get() {
            // A destructor spawns while the loop drops its tasks, and nothing would run the new
            // one.
            return;
        }
        let live = members.live.get() + 1;
        members.live.set(live);
        members.most.set(members.most.get().max(live));
        let member = Member(members.clone());
        let (task, _) = track(&state, Location::caller(), async move {
            let _member = member;
            future.await;
        });
        members.executor().spawn(task).detach();
        // A new task is ready without a wake.
        members.runner.wake_by_ref();
        if !members.is_begun.replace(true) {
            let runner = Runner(members.clone());
            spawn_in(SchedulingGroup::current(), self.location, runner).detach();
        }
    }

    /// Returns the number of the group's tasks that have not ended.
    pub fn live(&self) -> usize {
        self.members.live.get()
    }
}

impl Default for TaskGroup {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TaskGroup {
    fn drop(&mut self) {
        self.members.is_closed.set(true);
        self.members.runner.wake_by_ref();
    }
}

impl Members {
    fn executor(&self) -> Rc<Executor> {
        let make = || {
            Rc::new(Executor::with_config(ExecutorConfig {
                sync_queue_size: FIRST_SLOTS,
                local_queue_size: FIRST_SLOTS,
                max_interval: 1,
                waker: Some(Waker::from(self.runner.clone())),
            }))
        };
        self.executor.borrow_mut().get_or_insert_with(make).clone()
    }

    /// Frees the slots of many members that are all gone.
    fn shrink(&self) {
        if self.live.get() == 0 && self.most.get() > KEPT_SLOTS {
            self.most.set(0);
            drop(self.executor.take());
        }
    }
}

/// The task that polls the members.
struct Runner(Rc<Members>);

impl Future for Runner {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let members = &self.0;
        members.runner.0.get_or_init(|| context.waker().clone());
        let executor = members.executor();
        let (began, slice) = (ticks::now(), ticks::from_duration(SLICE));
        let mut now = began;
        while !preempt::is_over(began, now, slice) {
            let is_more_ready = executor.tick();
            // Each member has a budget of its own, and the stall detector watches each.
            now = preempt::member_ends();
            if !is_more_ready {
                drop(executor);
                members.shrink();
                let is_done = members.is_closed.get() && members.live.get() == 0;
                return if is_done { Poll::Ready(()) } else { Poll::Pending };
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.0.is_over.set(true);
        // The loop ends and has woken all members: a poll makes each drop its future. A destructor
        // may drop the group or wake a member.
        let executor = self.0.executor();
        while executor.tick() {}
    }
}
