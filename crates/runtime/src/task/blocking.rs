//! Runs blocking work on helper threads.

use crate::cpu::become_helper_thread;
use crate::driver::BLOCKING_THREADS;
use crate::sync::Semaphore;
use compio::BufResult;
use compio::buf::IntoInner;
use compio::driver::op::Asyncify;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::LocalKey;

/// Runs `work` on a helper thread and waits for its end without holding the core. It is for system
/// calls that block, and for long computations. Each shard runs at most 15 such calls at the same
/// time; further calls wait. Dropping the future does not stop `work` once `work` has begun.
pub async fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking_holding((), work).await
}

/// Runs `work` as [`spawn_blocking`] does, and drops `held` on this shard when the thread is free.
/// A permit in `held` therefore limits the threads that work, even if callers drop this future,
/// for example because their clients disconnect.
pub async fn spawn_blocking_holding<T: Send + 'static>(
    held: impl Sized + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
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
        drop((permit, held));
        operation.into_inner()
    })
    .await;
    match outcome {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs `work` on `bytes` bytes. From `min_long` bytes on, a helper thread does the work, so that
/// other tasks of the shard do not wait for it. Such work waits for a permit of `permits`, because
/// the shard also needs the helper threads for files.
pub async fn spawn_blocking_if_long<T: Send + 'static>(
    bytes: usize,
    min_long: usize,
    permits: &'static LocalKey<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes < min_long {
        return work();
    }
    let permit = permits.with(Semaphore::clone).acquire(1).await;
    spawn_blocking_holding(permit, work).await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::rc::Rc;
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;
    use crate::{block_on, time};

    #[test]
    fn a_permit_is_held_until_an_abandoned_thread_is_free() {
        block_on(async {
            let (end, ends) = mpsc::channel::<()>();
            let permit = Rc::new(());
            let abandoned = spawn_blocking_holding(Rc::clone(&permit), move || ends.recv());
            assert!(time::timeout(Duration::from_millis(20), abandoned).await.is_err());
            assert_eq!(Rc::strong_count(&permit), 2);
            end.send(()).unwrap();
            while Rc::strong_count(&permit) == 2 {
                time::sleep(Duration::from_millis(1)).await;
            }
        });
    }

    #[test]
    fn only_long_work_waits_for_a_permit() {
        thread_local! {
            static PERMITS: Semaphore = Semaphore::new(1);
        }
        block_on(async {
            let permits = PERMITS.with(Semaphore::clone);
            let permit = permits.acquire(1).await;
            let run = |bytes| spawn_blocking_if_long(bytes, 10, &PERMITS, move || bytes);
            assert_eq!(run(9).await, 9);
            let mut long = pin!(run(10));
            assert!(long.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(permits.has_waiters());
            drop(permit);
            assert_eq!(long.await, 10);
            assert_eq!(permits.available(), 1);
        });
    }
}
