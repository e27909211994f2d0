//! The inline runner polls a future once in the calling task. If the future has to wait, the runner
//! returns it to the caller, which spawns it.
//!
//! So one connection answers a whole batch of requests with one write and without a task switch.
//! The runner reuses the memory of a finished future for the next one: the usual request allocates
//! nothing for its future.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs futures of one type, one at a time.
#[derive(Debug)]
pub(super) struct InlineRunner<F> {
    finished: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = ()>> InlineRunner<F> {
    pub fn new() -> Self {
        Self { finished: None }
    }

    /// Polls `future` once. Returns `None` if it is done, else the future. The caller spawns it, so
    /// that the new task polls it again and registers its own waker.
    pub async fn run(&mut self, future: F) -> Option<Pin<Box<F>>> {
        let mut running = match self.finished.take() {
            Some(mut memory) => {
                memory.set(future);
                memory
            }
            None => Box::pin(future),
        };
        match poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await {
            Poll::Pending => Some(running),
            Poll::Ready(()) => {
                self.finished = Some(running);
                None
            }
        }
    }
}
