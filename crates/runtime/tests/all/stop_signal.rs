//! Tests that SIGTERM and SIGINT arrive as futures on every waiting shard. There is one test,
//! because signals concern the whole process.

use espalier_runtime::signal::{StopSignal, stop_requested};
use espalier_runtime::time::{sleep, timeout};
use espalier_runtime::{ShardOptions, block_on, start_shards, submit_to};
use rustix::process::{Signal, getpid, kill_process};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

struct Unused;

impl Wake for Unused {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn signals_reach_sleeping_shards() {
    let started =
        start_shards(&ShardOptions { count: 2, ..ShardOptions::default() }, |context| async move {
            let stop = stop_requested().unwrap();
            if context.index == 0 {
                submit_to(1, || async {}).await;
                sleep(Duration::from_millis(20)).await;
                kill_process(getpid(), Signal::TERM).unwrap();
            }
            stop.await
        });
    assert_eq!(started.unwrap().join().unwrap(), [StopSignal::Terminate; 2]);
    block_on(async {
        let stop = stop_requested().unwrap();
        let mut stop = std::pin::pin!(stop);
        // A future that is polled for other reasons, as in a select, registers only one waker.
        let waker = Arc::new(Unused);
        for _ in 0..100 {
            let polled = stop.as_mut().poll(&mut Context::from_waker(&Waker::from(waker.clone())));
            assert!(polled.is_pending());
        }
        assert!(Arc::strong_count(&waker) <= 2, "{} wakers", Arc::strong_count(&waker) - 1);
        let early = timeout(Duration::from_millis(10), &mut stop).await;
        assert!(early.is_err(), "an old signal does not count");
        kill_process(getpid(), Signal::INT).unwrap();
        assert_eq!(stop.await, StopSignal::Interrupt);
    });
}
