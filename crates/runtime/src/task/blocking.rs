//! Runs blocking work on helper threads.

use crate::cpu::become_helper_thread;
use crate::driver::BLOCKING_THREADS;
use crate::sync::Semaphore;
use compio::BufResult;
use compio::buf::IntoInner;
use compio::driver::op::Asyncify;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs `work` on a helper thread and waits for its end without holding the core. It is for system
/// calls that block, and for long computations. Each shard runs at most 15 such calls at the same
/// time; further calls wait. Dropping the future does not stop `work` once `work` has begun.
pub async fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    thread_local! {
        // One less than the threads of the pool, because the runtime spins when its pool is full.
        static PLACES: Semaphore = Semaphore::new(BLOCKING_THREADS - 1);
    }
    let places = PLACES.with(Semaphore::clone);
    let permit = places.acquire(1).await;
    let operation = Asyncify::new(move || {
        become_helper_thread();
        BufResult(Ok(0), catch_unwind(AssertUnwindSafe(work)))
    });
    let submitted = compio::runtime::submit(operation);
    // A task of its own waits for the thread. So the place stays taken until the thread is free,
    // even if the caller drops this future.
    let outcome = super::spawn_local(async move {
        let BufResult(_, operation) = submitted.await;
        drop(permit);
        operation.into_inner()
    })
    .await;
    match outcome {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}
