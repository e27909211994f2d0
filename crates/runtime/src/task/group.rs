//! Tasks that have their turn together, however many they are: those of one client beside those of another.
//!
//! To the executor a group is one task, which polls those of its members that are ready, in their order, for [`TURN`], and then
//! stands behind everybody else who is ready. So who waits behind groups waits for a turn of each, and not for all that their members
//! have to do.
//!
//! Invariants:
//! - A wake is never lost: whoever wakes a member puts it into the queue first and wakes the group then; the group looks at the
//!   queue once more after it was woken.
//! - A member's slot may have another occupant by the time a wake of the old one comes: that one is polled for nothing.
//!
//! Memory: a slot of some words for each member, kept for the next ones until there is no member left; then up to [`KEPT_SLOTS`] stay.

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
use super::spawn_tracked;
use crate::{event_loop, preempt, ticks};

/// How long members of a group run before others have their turn, or until the one is done that runs then: some members, each of
/// which has some µs to do between two waits; less would cost more turns than it brings.
const TURN: Duration = Duration::from_micros(50);

/// Slots that a group without members keeps.
const KEPT_SLOTS: usize = 64;

/// Tasks of one shard that share their turns. Dropping it lets them go on.
pub struct TaskGroup {
    members: Rc<Members>,
    location: &'static Location<'static>,
}

#[derive(Default)]
struct Members {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    ready: Arc<ReadyQueue>,
    /// The runner was spawned; it is gone; nobody spawns members any more.
    is_begun: Cell<bool>,
    is_over: Cell<bool>,
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
    // Behind the future, so that it is dropped after it.
    _sign_off: SignOff,
}

/// Members that are ready, by their slots, and whom to wake for them, from the runner's first poll on.
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
        // Without one the runner is yet to be polled, and looks then.
        if let Some(runner) = self.runner.get() {
            runner.wake_by_ref();
        }
    }
}

impl TaskGroup {
    /// A group without members, which costs some words until it gets one.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self { members: Rc::default(), location: Location::caller() }
    }

    /// Adds a task. It runs when the spawning task gives way and the group has its turn. A panic in it is printed, and ends nobody else.
    ///
    /// Panics outside of an event loop.
    #[track_caller]
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let state = event_loop::expect_current();
        if state.is_ending() || self.members.is_over.get() {
            // A destructor spawns while the loop drops its tasks: there is nobody to run it.
            return;
        }
        let _sign_off = SignOff(state.tasks.enter());
        let future = Box::pin(future);
        self.members.enter(Member { future, location: Location::caller(), _sign_off });
        if !self.members.is_begun.replace(true) {
            spawn_tracked(self.location, Runner(Rc::clone(&self.members))).detach();
        }
    }

    /// How many of its tasks are not done.
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
            // Read and written in one, so that what a waker has done before it found the member ready is seen by the poll.
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
            // Nobody else has got its slot, which is not free.
            Ok(Some(member)) => self.slots.borrow_mut()[index as usize].member = Some(member),
            // A panic was printed as it began.
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
        let (began, turn) = (ticks::now(), ticks::from_duration(TURN));
        let mut now = began;
        while !preempt::is_over(began, now, turn) {
            let Some(slot) = members.ready.pop() else {
                let is_done = members.is_closed.get() && members.live() == 0;
                return if is_done { Poll::Ready(()) } else { Poll::Pending };
            };
            members.poll(slot);
            // Each has a budget of its own, and the stall detector looks at each.
            now = preempt::member_ends();
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.0.is_over.set(true);
        // Not inside of the borrow: what a destructor drops may be the group, or wake a member.
        let slots = std::mem::take(&mut *self.0.slots.borrow_mut());
        self.0.free.borrow_mut().clear();
        drop(slots);
    }
}
