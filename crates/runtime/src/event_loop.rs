//! The event loop of one thread receives cross-shard messages, runs ready tasks for a slice of
//! time, then asks the kernel for completions.
//!
//! Invariants:
//! - A wake from another thread is never lost. The waking thread makes its work visible before it
//!   signals; the loop passes a full fence after each call to the kernel and before it looks for
//!   work. (The runtime underneath clears its "notified" flag with a plain store when it comes back
//!   from the kernel. Without the fence, the memory model lets the runtime's next read of its wake
//!   queue miss a wake.)
//! - Between two calls to the kernel, tasks run for at most [`RUN_SLICE`] plus the budgets of the
//!   main task and one other. Once a task of another scheduling group has run, they run for at most
//!   [`RUN_SLICE_BESIDE_GROUPS`] plus these budgets. If one of them runs a task group, the slice of
//!   that group is added.
//! - The scheduling group with the least virtual time runs next (`scheduling`). A statement that
//!   yielded becomes ready when no other statement is ready, or when yielded statements have had
//!   less time than the others.
//! - Only this thread polls its tasks; there is no work stealing.

use crate::mailbox::{Inbox, LocalCalls};
use crate::scheduling::{Next, RunQueues};
use crate::task::Registry;
use crate::{preempt, signal, ticks, time};
use compio::runtime::Runtime;
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// The time for which ready tasks run before the loop asks the kernel again. A shorter slice lowers
/// latency and raises the share of system calls (one costs about 1 µs).
const RUN_SLICE: Duration = Duration::from_micros(200);

/// The time after which the loop asks the kernel in an iteration in which a task of another group
/// than the statements has run. It is shorter than such a task's slice, so the loop asks after each
/// full slice, because a request may have arrived.
const RUN_SLICE_BESIDE_GROUPS: Duration = Duration::from_micros(50);

thread_local! {
    static CURRENT: RefCell<Option<Rc<LoopState>>> = const { RefCell::new(None) };
}

/// The state that the tasks of one thread share.
///
/// It must not own the runtime, and no task may own the runtime: the runtime owns the tasks, and
/// the cycle would keep them alive for ever.
pub(crate) struct LoopState {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) calls: LocalCalls,
    pub(crate) tasks: Registry,
    /// The tasks of all groups but the statements.
    pub(crate) queues: RunQueues,
    pub(crate) shard: OnceCell<crate::shard::ShardIdentity>,
    kernel_looks: Cell<u64>,
    sleeps: Cell<u64>,
    asleep_ticks: Cell<u64>,
    idle_spin_ticks: Cell<u64>,
    /// The time at which this thread last had work, and the number of tasks that it had polled.
    last_busy: Cell<(u64, u64)>,
}

/// Counters of the event loop of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopReport {
    /// The number of times that the loop asked the kernel for completions.
    pub kernel_looks: u64,
    /// The number of these calls in which the thread was ready to sleep.
    pub sleeps: u64,
    /// The time for which the thread slept in the kernel, in microseconds.
    pub asleep_us: u64,
    /// Spawned tasks that have not ended.
    pub live_tasks: usize,
    /// Tasks that ended by a panic, joined or not.
    pub panicked_tasks: u64,
}

/// Returns whether the calling thread is inside an event loop.
pub(crate) fn is_running() -> bool {
    CURRENT.with(|current| current.borrow().is_some())
}

/// Returns the state of the loop of the calling thread.
pub(crate) fn current() -> Option<Rc<LoopState>> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Returns the state of the loop of the calling thread. Panics outside of a loop: that is a mistake
/// in the program.
#[track_caller]
pub(crate) fn expect_current() -> Rc<LoopState> {
    match current() {
        Some(state) => state,
        None => panic!("this needs an event loop: call it on a shard or inside of block_on"),
    }
}

/// An event loop that does not run yet, bound to the thread that made it.
pub(crate) struct EventLoop {
    runtime: Runtime,
    state: Rc<LoopState>,
}

type MainFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

struct MainWaker {
    ready: AtomicBool,
    driver: Waker,
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.store(true, Ordering::Release);
        self.driver.wake_by_ref();
    }
}

struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        preempt::end_loop();
        let state = CURRENT.with(|current| current.borrow_mut().take());
        // Dropped outside of the borrow, because the destructors may look for `CURRENT`.
        drop(state);
    }
}

impl EventLoop {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = crate::driver::build()?;
        let inbox = Arc::new(Inbox::new(runtime.waker()));
        let queues = RunQueues::new(runtime.waker());
        let state = Rc::new(LoopState {
            inbox,
            queues,
            calls: LocalCalls::default(),
            tasks: Registry::default(),
            shard: OnceCell::new(),
            kernel_looks: Cell::new(0),
            sleeps: Cell::new(0),
            asleep_ticks: Cell::new(0),
            idle_spin_ticks: Cell::new(0),
            last_busy: Cell::new((0, 0)),
        });
        Ok(EventLoop { runtime, state })
    }

    pub(crate) fn state(&self) -> &Rc<LoopState> {
        &self.state
    }

    /// Runs until `main` is done and then until `may_end` returns true, and then drops the
    /// remaining tasks. Code that makes `may_end` true must wake the loop's inbox.
    pub(crate) fn run<F: Future>(
        self,
        main: F,
        may_end: impl Fn() -> bool,
        main_done: impl FnOnce(),
    ) -> F::Output {
        let mut output = None;
        let main = Box::pin(async {
            output = Some(main.await);
            main_done();
        });
        self.run_boxed(main, &may_end);
        match output {
            Some(output) => output,
            None => unreachable!("the loop ended before its main future"),
        }
    }

    /// Not generic, so that it is compiled once.
    fn run_boxed(self, main: MainFuture<'_>, may_end: &dyn Fn() -> bool) {
        assert!(!is_running(), "an event loop cannot start inside of another one");
        let EventLoop { runtime, state } = self;
        CURRENT.with(|current| *current.borrow_mut() = Some(Rc::clone(&state)));
        let entered = Entered;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            preempt::begin_loop();
            runtime.enter(|| state.iterate_until_done(&runtime, main, may_end))
        }));
        // Destructors of tasks may answer calls and cancel operations, so they run after the
        // unwinding, with `CURRENT` still set and the runtime entered.
        preempt::begin_ending();
        state.inbox.close();
        runtime.enter(|| {
            state.end_tasks(&runtime);
            state.queues.clear();
        });
        drop(runtime);
        state.calls.flush_all();
        drop(entered);
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }
}

/// The time between two calls to the kernel.
struct Iteration {
    /// The tick at which it began.
    began: u64,
    /// The ticks after which the loop asks the kernel again.
    slice: u64,
    /// True if a statement, or the main task, may be ready.
    may_have_statements: bool,
}

impl Iteration {
    fn is_over(&self, now: u64) -> bool {
        now.wrapping_sub(self.began) > self.slice
    }
}

impl LoopState {
    pub(crate) fn report(&self) -> LoopReport {
        LoopReport {
            kernel_looks: self.kernel_looks.get(),
            sleeps: self.sleeps.get(),
            asleep_us: ticks::to_microseconds(self.asleep_ticks.get()),
            live_tasks: self.tasks.live(),
            panicked_tasks: self.tasks.panicked(),
        }
    }

    /// Returns whether the loop is dropping its tasks; then it accepts no new ones.
    pub(crate) fn is_ending(&self) -> bool {
        preempt::is_ending()
    }

    /// Polls every task once more, which makes it drop its future; a destructor may wake other
    /// tasks meanwhile.
    fn end_tasks(&self, runtime: &Runtime) {
        self.tasks.wake_all();
        let run = || self.queues.run_each() | runtime.run();
        while run() || self.tasks.live() > 0 && run() {}
        self.calls.flush_all();
    }

    fn iterate_until_done(
        &self,
        runtime: &Runtime,
        mut main: MainFuture<'_>,
        may_end: &dyn Fn() -> bool,
    ) {
        let slice = ticks::from_duration(RUN_SLICE);
        let main_waker =
            Arc::new(MainWaker { ready: AtomicBool::new(true), driver: runtime.waker() });
        let waker = Waker::from(Arc::clone(&main_waker));
        let mut context = Context::from_waker(&waker);
        let mut is_done = false;
        loop {
            let mut now = ticks::now();
            preempt::task_begins_at(now);
            time::refresh_coarse();
            time::forget_seconds_of_iteration();
            signal::deliver();
            self.inbox.receive(self);
            let mut iteration = Iteration { began: now, slice, may_have_statements: true };
            let mut held_back = None;
            loop {
                if !is_done && main_waker.ready.swap(false, Ordering::AcqRel) {
                    is_done = main.as_mut().poll(&mut context).is_ready();
                    preempt::task_ends();
                }
                let group = self.group_before_statements();
                now = match group {
                    Some(group) => self.run_group(group, &mut iteration),
                    None => {
                        iteration.may_have_statements = runtime.run();
                        preempt::task_ends()
                    }
                };
                let is_main_ready = !is_done && main_waker.ready.load(Ordering::Acquire);
                iteration.may_have_statements |= is_main_ready;
                let more = iteration.may_have_statements;
                if iteration.is_over(now) || !more && self.inbox.has_messages() {
                    break;
                }
                if !more
                    && group.is_none()
                    && let ControlFlow::Break(ticks) = self.run_without_statements(&mut iteration)
                {
                    held_back = ticks;
                    break;
                }
            }
            self.calls.flush_all();
            if is_done && may_end() {
                return;
            }
            let busy = iteration.may_have_statements
                || held_back.is_none() && self.queues.is_ready()
                || preempt::has_yielded()
                || !is_done && main_waker.ready.load(Ordering::Acquire)
                || self.inbox.has_messages();
            self.look_at_kernel(runtime, busy, held_back);
            preempt::let_yielded_run();
        }
    }

    /// Runs the next yielded statement or task of another group, when no statement is ready. Breaks
    /// if the loop must ask the kernel, with the ticks for which groups are held back.
    fn run_without_statements(&self, iteration: &mut Iteration) -> ControlFlow<Option<u64>> {
        // Messages to other shards do not wait for the slice of another task.
        self.calls.flush_all();
        match self.queues.next_without_statements(preempt::has_rested()) {
            Next::Yielded => {
                preempt::wake_first_rested();
            }
            Next::Group(group) => {
                let now = self.run_group(group, iteration);
                if iteration.is_over(now) {
                    return ControlFlow::Break(None);
                }
            }
            Next::HeldBack(ticks) => return ControlFlow::Break(Some(ticks)),
            Next::Nothing => return ControlFlow::Break(None),
        }
        ControlFlow::Continue(())
    }

    /// Polls one task of a group, and returns the tick at which the poll ended.
    fn run_group(&self, group: usize, iteration: &mut Iteration) -> u64 {
        iteration.slice = ticks::from_duration(RUN_SLICE_BESIDE_GROUPS);
        // The task may wake a statement.
        iteration.may_have_statements = true;
        self.queues.run(group)
    }

    /// Makes ready the yielded statements that have had less time than the others, and returns the
    /// group that runs before the next statement.
    #[inline]
    fn group_before_statements(&self) -> Option<usize> {
        while self.queues.is_ready() || preempt::has_rested() {
            match self.queues.next_before_statements(preempt::has_rested()) {
                Next::Group(group) => return Some(group),
                Next::Yielded if preempt::wake_first_rested() => {}
                _ => return None,
            }
        }
        None
    }

    /// Sets the time for which the loop looks for work before the thread sleeps.
    pub(crate) fn set_idle_spin(&self, duration: Duration) {
        self.idle_spin_ticks.set(ticks::from_duration(duration));
    }

    /// Returns whether a task ran so recently that the thread does not sleep yet.
    fn spins(&self) -> bool {
        let longest = self.idle_spin_ticks.get();
        if longest == 0 {
            return false;
        }
        let (since, polled) = self.last_busy.get();
        let (now, polled_now) = (ticks::now(), preempt::tasks_polled());
        if polled_now != polled {
            self.last_busy.set((now, polled_now));
            return true;
        }
        now.wrapping_sub(since) < longest
    }

    /// Asks the kernel for completions, and sleeps if there is nothing to do. If groups are held
    /// back, the thread sleeps for at most `held_back` ticks, and this time is added to the virtual
    /// time of the statements.
    fn look_at_kernel(&self, runtime: &Runtime, busy: bool, held_back: Option<u64>) {
        self.kernel_looks.set(self.kernel_looks.get() + 1);
        let from = ticks::now();
        if busy || self.spins() {
            // Under forced yields no slice is long, so the rest would only cost time.
            let is_shared = self.queues.is_ready() && !preempt::is_forced();
            if is_shared {
                // A call after a wake does not wait. For a wait of no time, the kernel would set a
                // timer, which takes some 9 µs.
                self.queues.wake_driver();
            }
            runtime.poll_with(Some(Duration::ZERO));
            if is_shared {
                // The first call submits reads. If the bytes of a read have arrived already, the
                // kernel leaves its completion as work for the next call, and marks the ring. The
                // second call takes this completion. Otherwise the request in these bytes would
                // wait for the slice of another task.
                self.queues.wake_driver();
                runtime.poll_with(Some(Duration::ZERO));
            }
        } else if held_back.is_some() || !time::advance_when_idle() {
            self.sleeps.set(self.sleeps.get() + 1);
            preempt::loop_sleeps();
            match held_back {
                None => runtime.poll(),
                Some(ticks) => {
                    let most = Duration::from_micros(ticks::to_microseconds(ticks).max(1));
                    let timer = runtime.current_timeout();
                    runtime.poll_with(Some(timer.map_or(most, |timer| timer.min(most))));
                }
            }
            let asleep = ticks::now().wrapping_sub(from);
            self.asleep_ticks.set(self.asleep_ticks.get() + asleep);
        }
        if held_back.is_some() {
            let passed = ticks::now().wrapping_sub(from);
            preempt::with_accounts(|accounts| accounts.pass(passed));
        }
        fence(Ordering::SeqCst);
    }
}
