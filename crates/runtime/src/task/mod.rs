//! Tasks of one shard: spawning, joining, blocking work, and event loops for tools and tests.

mod blocking;
mod group;
mod registry;

pub use blocking::{spawn_blocking, spawn_blocking_holding, spawn_blocking_if_long};
pub use group::TaskGroup;
pub(crate) use registry::Registry;

use crate::event_loop::{self, EventLoop, LoopState};
use crate::preempt;
use crate::scheduling::SchedulingGroup;
use crate::sync::oneshot::oneshot;
use crate::trace;
use registry::{PanicWatch, SignOff, TaskName};
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Waits for a task of the same shard and returns its output. Dropping the handle lets the task go
/// on alone.
#[must_use = "a dropped handle lets the task go on alone: say so with detach()"]
pub struct JoinHandle<T> {
    inner: Option<compio::runtime::JoinHandle<Option<T>>>,
    name: Option<TaskName>,
}

/// Spawns a task on the calling shard, of the scheduling group of the spawning task. It runs when
/// the spawning task yields.
///
/// Panics outside of an event loop.
#[track_caller]
pub fn spawn_local<F: Future + 'static>(future: F) -> JoinHandle<F::Output> {
    spawn_in(SchedulingGroup::current(), Location::caller(), future)
}

/// Runs a future to its end in a task of its own, even if the caller drops this call. The events of
/// the future belong to the caller's trace. Returns `None` if the future panics, or if the task is
/// stopped before its end.
///
/// Panics outside of an event loop.
#[track_caller]
pub fn run_to_completion<F: Future + 'static>(
    future: F,
) -> impl Future<Output = Option<F::Output>> + use<F> {
    let (sender, outcome) = oneshot();
    let future = trace::traced(trace::entered(), future);
    let task = async move {
        // Without a receiver, the caller is gone.
        let _ = sender.send(future.await);
    };
    spawn_in(SchedulingGroup::current(), Location::caller(), task).detach();
    async move { outcome.await.ok() }
}

/// Spawns a task of a group.
#[track_caller]
pub(crate) fn spawn_in<F: Future + 'static>(
    group: SchedulingGroup,
    location: &'static Location<'static>,
    future: F,
) -> JoinHandle<F::Output> {
    let state = event_loop::expect_current();
    if state.is_ending() {
        // A destructor spawns while the loop drops its tasks, and nothing would run the new one.
        return JoinHandle { inner: None, name: None };
    }
    let (task, name) = track(&state, location, future);
    let inner = if group == SchedulingGroup::Statements {
        compio::runtime::spawn(task)
    } else {
        state.queues.spawn(group, task)
    };
    JoinHandle { inner: Some(inner), name: Some(name) }
}

/// Registers a task with the event loop.
fn track<F: Future>(
    state: &LoopState,
    location: &'static Location<'static>,
    future: F,
) -> (Tracked<F>, TaskName) {
    let name = state.tasks.enter();
    (Tracked { location, polled: false, future: Some(future), sign_off: SignOff(name) }, name)
}

/// Runs `future` to its end on the calling thread, with an event loop of its own; then drops the
/// tasks that the future spawned and did not join. For tools, tests and foreign threads.
///
/// Panics inside of another event loop, and if the kernel refuses every kind of event loop.
pub fn block_on<F: Future>(future: F) -> F::Output {
    assert!(!event_loop::is_running(), "block_on inside of an event loop would stop the shard");
    match EventLoop::new() {
        Ok(event_loop) => event_loop.run(future, || true, || ()),
        Err(error) => panic!("the kernel refuses an event loop: {error}"),
    }
}

impl<T> JoinHandle<T> {
    /// Lets the task go on alone; a panic in it is only printed.
    pub fn detach(mut self) {
        self.detach_inner();
    }

    /// Stops the task at its current wait, and returns when its future is dropped. Returns `None`
    /// if the task was stopped before its end; a panic in it continues in the caller. A task must
    /// not cancel itself: it would wait for ever.
    pub async fn cancel(mut self) -> Option<T> {
        let inner = self.inner.take()?;
        let finished = inner.is_finished();
        let output = inner.cancel().await.flatten();
        if let (false, Some(name)) = (finished, self.name) {
            poll_fn(|context| match event_loop::current() {
                Some(state) if !state.tasks.is_gone(name, context.waker()) => Poll::Pending,
                _ => Poll::Ready(()),
            })
            .await;
        }
        output
    }

    /// Returns whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.inner.as_ref().is_none_or(compio::runtime::JoinHandle::is_finished)
    }

    fn detach_inner(&mut self) {
        if let Some(inner) = self.inner.take() {
            inner.detach();
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.detach_inner();
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    /// A panic in the task continues in the task that joins it.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(inner) = self.inner.as_mut() else { return Poll::Pending };
        match Pin::new(inner).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(Some(value))) => {
                self.inner = None;
                Poll::Ready(value)
            }
            // Dropped with its event loop, which is then about to drop the joining task too.
            Poll::Ready(Ok(None)) => {
                self.inner = None;
                Poll::Pending
            }
            Poll::Ready(Err(error)) => {
                self.inner = None;
                error.resume_unwind();
                Poll::Pending
            }
        }
    }
}

/// A task as the executor sees it. It reports to the stall detector where it was spawned, and drops
/// its future when the loop ends (the output is then `None`).
struct Tracked<F> {
    location: &'static Location<'static>,
    polled: bool,
    future: Option<F>,
    // After the future, so that it is dropped after the future.
    sign_off: SignOff,
}

impl<F: Future> Future for Tracked<F> {
    type Output = Option<F::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is not moved out of `this`: it is only polled and dropped in place, and
        // there is no `Drop` that could move it. The other fields are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let mut future = unsafe { Pin::new_unchecked(&mut this.future) };
        preempt::set_current_task(this.location);
        if !this.polled {
            this.polled = true;
            if let Some(state) = event_loop::current() {
                state.tasks.remember_waker(this.sign_off.0, context.waker());
            }
        }
        if preempt::is_ending() {
            future.set(None);
            return Poll::Ready(None);
        }
        let _watch = PanicWatch;
        match future.as_mut().as_pin_mut() {
            Some(future) => future.poll(context).map(Some),
            None => Poll::Ready(None),
        }
    }
}
