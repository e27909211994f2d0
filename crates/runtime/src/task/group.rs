//! A task group is any number of tasks that share one slice, such as the requests of one client. So
//! a client with many requests does not take the time of others.
//!
//! To the executor a group is one task. It polls its ready members in order, for at most [`SLICE`],
//! and then queues behind all other ready tasks. So a task that waits behind groups waits for one
//! slice of each, and not for all the work of their members.
//!
//! Invariants:
//! - A wake is never lost. A wake of a member puts the member into the queue before it wakes the
//!   group; the group checks the queue once more after it was woken.
//! - A late wake of an ended member may poll the next occupant of its slot in vain.
//!
//! Memory: a slot of some words for each member. Slots are kept for later members until the group
//! has no member; then up to [`KEPT_SLOTS`] stay.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::registry::{PanicWatch, SignOff};
use super::spawn_in;
use crate::scheduling::SchedulingGroup;
use crate::{event_loop, preempt, ticks};

/// The time for which members of a group run before other tasks run; the running member
/// may finish its poll. It is enough for some members, which work for some µs each between two
/// waits. A shorter slice would cost more in switches than it brings.
const SLICE: Duration = Duration::from_micros(50);

/// Slots that a group without members keeps.
const KEPT_SLOTS: usize = 64;

/// A group of tasks of one shard that share their slices. Its tasks outlive the group.
pub struct TaskGroup {
    members: Rc<Members>,
    location: &'static Location<'static>,
}

#[derive(Default)]
struct Members {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    ready: Arc<ReadyQueue>,
    /// The runner was spawned.
    is_begun: Cell<bool>,
    /// The runner is gone.
    is_over: Cell<bool>,
    /// The group was dropped, so no more members are spawned.
    is_closed: Cell<bool>,
}

struct Slot {
    member: Option<Member>,
    wake: Arc<MemberWake>,
    waker: Waker,
}

struct Member {
    future: Pin<Box<dyn Future<Output = ()>>>,
    location: &'static Location<'static>,
    // After the future, so that it is dropped after the future.
    _sign_off: SignOff,
}

/// The slots of the members that are ready, and the waker of the runner, set by its first poll.
#[derive(Default)]
struct ReadyQueue {
    slots: Mutex<VecDeque<u32>>,
    runner: OnceLock<Waker>,
}

struct MemberWake {
    slot: u32,
    is_ready: AtomicBool,
    queue: Arc<ReadyQueue>,
}

impl Wake for MemberWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::AcqRel) {
            self.queue.push(self.slot);
        }
    }
}

impl ReadyQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, slot: u32) {
        self.lock().push_back(slot);
        self.wake_runner();
    }

    fn pop(&self) -> Option<u32> {
        self.lock().pop_front()
    }

    fn wake_runner(&self) {
        // Without a waker the runner was not polled yet, and its first poll looks at the queue.
        if let Some(runner) = self.runner.get() {
            runner.wake_by_ref();
        }
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
        if state.is_ending() || self.members.is_over.get() {
            // A destructor spawns while the loop drops its tasks, and nothing would run the new
            // one.
            return;
        }
        let _sign_off = SignOff(state.tasks.enter());
        let future = Box::pin(future);
        self.members.enter(Member { future, location: Location::caller(), _sign_off });
        if !self.members.is_begun.replace(true) {
            let runner = Runner(Rc::clone(&self.members));
            spawn_in(SchedulingGroup::current(), self.location, runner).detach();
        }
    }

    /// Returns how many of its tasks have not ended.
    pub fn live(&self) -> usize {
        self.members.live()
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
        self.members.ready.wake_runner();
    }
}

impl Members {
    fn live(&self) -> usize {
        self.slots.borrow().len() - self.free.borrow().len()
    }

    fn enter(&self, member: Member) {
        let mut slots = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            // A member takes more than a byte, so there are never more than u32 of them.
            let slot = slots.len() as u32;
            let (is_ready, queue) = (AtomicBool::new(false), Arc::clone(&self.ready));
            let wake = Arc::new(MemberWake { slot, is_ready, queue });
            slots.push(Slot { member: None, waker: Waker::from(Arc::clone(&wake)), wake });
            slot
        });
        let slot = &mut slots[index as usize];
        slot.member = Some(member);
        slot.wake.wake_by_ref();
    }

    fn leave(&self, index: u32) {
        let mut free = self.free.borrow_mut();
        free.push(index);
        let mut slots = self.slots.borrow_mut();
        if slots.len() > KEPT_SLOTS && slots.len() == free.len() {
            *slots = Vec::new();
            *free = Vec::new();
            *self.ready.lock() = VecDeque::new();
        }
    }

    /// Polls the member of a slot, if it has one.
    fn poll(&self, index: u32) {
        let (mut member, waker) = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(index as usize) else { return };
            // The flag is read and written in one step, so that the poll sees the writes that a
            // waking thread made before it found the member ready.
            slot.wake.is_ready.swap(false, Ordering::AcqRel);
            let Some(member) = slot.member.take() else { return };
            (member, slot.waker.clone())
        };
        preempt::set_current_task(member.location);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let _watch = PanicWatch;
            let mut context = Context::from_waker(&waker);
            match member.future.as_mut().poll(&mut context) {
                Poll::Pending => Some(member),
                Poll::Ready(()) => {
                    drop(member);
                    None
                }
            }
        }));
        match polled {
            // The slot is still this member's, because it was not freed.
            Ok(Some(member)) => self.slots.borrow_mut()[index as usize].member = Some(member),
            // A panic was printed when it began.
            Ok(None) | Err(_) => self.leave(index),
        }
    }
}

/// The task that polls the members.
struct Runner(Rc<Members>);

impl Future for Runner {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let members = &self.0;
        members.ready.runner.get_or_init(|| context.waker().clone());
        let (began, slice) = (ticks::now(), ticks::from_duration(SLICE));
        let mut now = began;
        while !preempt::is_over(began, now, slice) {
            let Some(slot) = members.ready.pop() else {
                let is_done = members.is_closed.get() && members.live() == 0;
                return if is_done { Poll::Ready(()) } else { Poll::Pending };
            };
            members.poll(slot);
            // Each member has a budget of its own, and the stall detector watches each.
            now = preempt::member_ends();
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.0.is_over.set(true);
        // Dropped outside of the borrow: a destructor may drop the group or wake a member.
        let slots = std::mem::take(&mut *self.0.slots.borrow_mut());
        self.0.free.borrow_mut().clear();
        drop(slots);
    }
}
