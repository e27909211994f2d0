//! Runs a future where it is made if it can finish without waiting, and hands it back to be spawned if it cannot.
//!
//! This is what lets one connection answer a whole batch of requests with one write and no task switch. The memory of a
//! future that finished is used again for the next: the usual request allocates nothing for its future.

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

    /// Polls `future` once. `None` if it is done, else the future: spawn it, so that it is polled again and learns its
    /// new task's waker.
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
