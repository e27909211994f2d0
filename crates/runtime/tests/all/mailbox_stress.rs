//! Tests that no call and no wake is lost while shards fall asleep and wake.

use espalier_runtime::mailbox::MAX_IN_FLIGHT;
use espalier_runtime::time::{Instant, sleep, timeout};
use espalier_runtime::{
    ShardOptions, current_shard, random, spawn_local, start_shards, submit_to, yield_now,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const LOST: Duration = Duration::from_secs(60);

fn shards(count: usize) -> ShardOptions {
    ShardOptions { count, ..ShardOptions::default() }
}

/// Sends one call at a time. Each shard falls asleep before the next message, which makes a million
/// wakes in a full run.
#[test]
fn wakes_of_sleeping_shards_are_not_lost() {
    let calls = espalier_testing::cases(500_000);
    let began = Instant::now();
    let started = start_shards(&shards(2), move |context| async move {
        if context.index == 1 {
            return 0;
        }
        let mut sum = 0;
        for call in 0..calls {
            let answer = timeout(LOST, submit_to(1, move || async move { call }));
            sum += answer.await.expect("a wake was lost");
        }
        sum
    });
    assert_eq!(started.unwrap().join().unwrap(), [calls * (calls - 1) / 2, 0]);
    println!("{:?} per call that wakes two sleepers", began.elapsed() / calls as u32);
}

/// Many callers in all directions, with pauses that let shards fall asleep at odd moments.
#[test]
fn a_million_calls_with_pauses_in_all_directions() {
    const SHARDS: usize = 3;
    const CALLERS: usize = 50;
    const CALLS: usize = 1_000_000 / SHARDS / CALLERS;
    let served = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&served);
    let began = Instant::now();
    let started = start_shards(&shards(SHARDS), move |context| {
        let served = Arc::clone(&counting);
        async move {
            let callers: Vec<_> = (0..CALLERS)
                .map(|caller| spawn_local(call_around(context.index, caller, Arc::clone(&served))))
                .collect();
            for caller in callers {
                caller.await;
            }
        }
    });
    started.unwrap().join().unwrap();
    assert_eq!(served.load(Ordering::Relaxed), SHARDS * CALLERS * CALLS);
    println!("{:?} for each call", began.elapsed() / (SHARDS * CALLERS * CALLS) as u32);

    async fn call_around(from: usize, caller: usize, served: Arc<AtomicUsize>) {
        for call in 0..CALLS {
            let to = (from + 1 + (caller + call) % (SHARDS - 1)) % SHARDS;
            let served = Arc::clone(&served);
            let pause = random::below(1000);
            let answer = submit_to(to, move || async move {
                assert_eq!(current_shard().unwrap().index, to);
                served.fetch_add(1, Ordering::Relaxed);
                if pause == 1 {
                    sleep(Duration::from_micros(random::below(500))).await;
                }
                (from, call)
            });
            let answer = timeout(LOST, answer).await.expect("a call was lost");
            assert_eq!(answer, (from, call));
            if pause == 2 {
                sleep(Duration::from_micros(random::below(500))).await;
            }
        }
    }
}

/// Calls beyond the bound wait on their own shard, and all calls are answered.
#[test]
fn calls_beyond_the_bound_wait_and_keep_their_order() {
    const CALLS: usize = 3 * MAX_IN_FLIGHT;
    let started = start_shards(&shards(2), |context| async move {
        if context.index == 1 {
            return;
        }
        let under_way = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let mut calls = Vec::new();
        for _ in 0..CALLS {
            let (under_way, most) = (Arc::clone(&under_way), Arc::clone(&most));
            calls.push(submit_to(1, move || async move {
                let now = under_way.fetch_add(1, Ordering::Relaxed) + 1;
                most.fetch_max(now, Ordering::Relaxed);
                yield_now().await;
                // On a busy machine, the first calls would end before MAX_IN_FLIGHT / 2 calls are
                // under way.
                let began = Instant::now();
                while most.load(Ordering::Relaxed) < MAX_IN_FLIGHT / 2 && began.elapsed() < LOST / 2
                {
                    sleep(Duration::from_millis(1)).await;
                }
                sleep(Duration::from_millis(2)).await;
                under_way.fetch_sub(1, Ordering::Relaxed);
            }));
        }
        timeout(LOST, futures_util::future::join_all(calls)).await.expect("a call was lost");
        let most = most.load(Ordering::Relaxed);
        assert!((MAX_IN_FLIGHT / 2..=MAX_IN_FLIGHT).contains(&most), "{most}");
    });
    started.unwrap().join().unwrap();
}

/// A caller that drops its call neither stops the work nor leaves anything behind.
#[test]
fn abandoned_calls_are_done_and_forgotten() {
    const CALLS: usize = 4 * MAX_IN_FLIGHT;
    let done = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&done);
    let started = start_shards(&shards(2), move |context| {
        let done = Arc::clone(&counting);
        async move {
            if context.index == 1 {
                return;
            }
            for call in 0..CALLS {
                let done = Arc::clone(&done);
                let work = submit_to(1, move || async move {
                    done.fetch_add(1, Ordering::Relaxed);
                });
                if call % 2 == 0 {
                    let waited = timeout(Duration::ZERO, work).await;
                    let _ = waited;
                } else {
                    work.await;
                }
            }
        }
    });
    started.unwrap().join().unwrap();
    assert_eq!(done.load(Ordering::Relaxed), CALLS);
}
