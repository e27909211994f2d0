//! Enters a trace: for a call, or for each poll of a future.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{ENTERED, IS_ON, Trace};

/// Makes a trace the entered trace of the thread. The drop restores the previous one, also after a
/// panic.
pub(super) struct Entered {
    before: Option<Trace>,
}

impl Entered {
    pub(super) fn new(trace: &Trace) -> Self {
        let before = ENTERED.replace(Some(trace.clone()));
        IS_ON.set(true);
        Self { before }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        IS_ON.set(before.is_some());
        ENTERED.set(before);
    }
}

/// A future that is polled with a trace entered, if it has one.
#[derive(Debug)]
pub struct Traced<F> {
    trace: Option<Trace>,
    future: F,
}

impl<F> Traced<F> {
    pub(super) fn new(trace: Option<Trace>, future: F) -> Self {
        Self { trace, future }
    }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with `self` and never moved out; `trace` is not pinned; there
        // is no `Drop`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        match &this.trace {
            None => future.poll(context),
            Some(trace) => {
                let _entered = Entered::new(trace);
                future.poll(context)
            }
        }
    }
}
