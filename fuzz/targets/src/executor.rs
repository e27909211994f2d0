//! Runs a future that never has to wait, because its files are in memory.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

/// Polls the future until it is ready. An event loop for each input would cost more than most
/// inputs.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}
