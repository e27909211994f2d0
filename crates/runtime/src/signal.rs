//! Makes the stop signals SIGTERM and SIGINT available as a future.
//!
//! The handler only counts the signal and wakes the event loops: an atomic addition, and one
//! `write` for each loop. Both are allowed in a handler. Each loop then wakes its own tasks. The
//! runtime underneath would wake tasks from inside of the handler, which may have interrupted the
//! code that changes that very task queue, so its signal support is not used.

use crate::event_loop;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// A signal that asks the process to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM: from a service manager or `kill`.
    Terminate,
    /// SIGINT: from the terminal.
    Interrupt,
}

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// The number of signals that have arrived: SIGTERM in the low half, SIGINT in the high half.
static ARRIVED: AtomicU64 = AtomicU64::new(0);

/// The loops to wake, in a list that only grows: one entry per loop that ever waited.
static LOOPS: AtomicPtr<Listener> = AtomicPtr::new(ptr::null_mut());

struct Listener {
    waker: Waker,
    next: *const Listener,
}

thread_local! {
    static WAITING: RefCell<Waiting> = const { RefCell::new(Waiting { seen: 0, wakers: Vec::new() }) };
}

struct Waiting {
    seen: u64,
    wakers: Vec<Waker>,
}

unsafe extern "C" {
    /// From the C library that the standard library links: installs a handler. System calls that
    /// the signal interrupts are restarted.
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
}

extern "C" fn handle(number: i32) {
    ARRIVED.fetch_add(if number == SIGINT { 1 << 32 } else { 1 }, Ordering::SeqCst);
    let mut listener = LOOPS.load(Ordering::SeqCst).cast_const();
    // SAFETY: listeners are leaked, so every pointer in the list stays valid, and they never
    // change.
    while let Some(found) = unsafe { listener.as_ref() } {
        found.waker.wake_by_ref();
        listener = found.next;
    }
}

/// Waits for a SIGTERM or SIGINT that arrives after this call. From the first call on, these
/// signals do not end the process by themselves. Panics outside of an event loop.
///
/// # Errors
/// Fails if this is the first call and the handler cannot be installed.
pub fn stop_requested() -> io::Result<impl Future<Output = StopSignal>> {
    install()?;
    listen();
    let before = ARRIVED.load(Ordering::SeqCst);
    Ok(poll_fn(move |context| {
        let now = ARRIVED.load(Ordering::SeqCst);
        if now as u32 != before as u32 {
            return Poll::Ready(StopSignal::Terminate);
        }
        if now != before {
            return Poll::Ready(StopSignal::Interrupt);
        }
        WAITING.with_borrow_mut(|waiting| {
            // A task that is polled again and again for other reasons is listed once.
            if !waiting.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.wakers.push(context.waker().clone());
            }
        });
        Poll::Pending
    }))
}

fn install() -> io::Result<()> {
    static INSTALLED: Once = Once::new();
    const FAILED: usize = usize::MAX;
    let mut outcome = Ok(());
    INSTALLED.call_once(|| {
        for number in [SIGTERM, SIGINT] {
            // SAFETY: the handler only does things that are allowed in a handler.
            if unsafe { signal(number, handle) } == FAILED {
                outcome = Err(io::Error::last_os_error());
            }
        }
    });
    outcome
}

/// Adds the calling thread's loop to the loops that the handler wakes. A loop's waker stays valid
/// (and without effect) after the loop has ended.
fn listen() {
    let waker = event_loop::expect_current().inbox.waker().clone();
    let mut head = LOOPS.load(Ordering::SeqCst);
    let mut listener = head.cast_const();
    // SAFETY: as in `handle`.
    while let Some(found) = unsafe { listener.as_ref() } {
        if found.waker.will_wake(&waker) {
            return;
        }
        listener = found.next;
    }
    let added = Box::into_raw(Box::new(Listener { waker, next: head }));
    loop {
        match LOOPS.compare_exchange(head, added, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return,
            Err(now) => {
                head = now;
                // SAFETY: the entry is not in the list yet, so this is the only access.
                unsafe { (*added).next = head };
            }
        }
    }
}

/// Wakes the tasks that wait for a signal if one has arrived. The event loop calls this at each
/// iteration.
pub(crate) fn deliver() {
    let arrived = ARRIVED.load(Ordering::Relaxed);
    if arrived == 0 {
        return;
    }
    let wakers = WAITING.with_borrow_mut(|waiting| {
        if waiting.seen == arrived {
            return Vec::new();
        }
        waiting.seen = arrived;
        std::mem::take(&mut waiting.wakers)
    });
    wakers.into_iter().for_each(Waker::wake);
}
