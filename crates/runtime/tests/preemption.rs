//! Tasks give way in time, and those that do not are found out.

#![allow(clippy::unwrap_used)]

use espalier_runtime::preempt::{self, TASK_BUDGET, set_stall_threshold, stall_report};
use espalier_runtime::time::{Instant, sleep};
use espalier_runtime::{block_on, maybe_yield, should_yield, spawn_local, yield_now};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

fn spin(duration: Duration) {
    let from = Instant::now();
    while from.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[test]
fn a_task_is_told_when_its_budget_is_used_up() {
    assert!(!should_yield(), "outside of a loop there is nobody to give way to");
    block_on(async {
        yield_now().await;
        spin(TASK_BUDGET * 2);
        assert!(should_yield());
        yield_now().await;
        let from = Instant::now();
        while !should_yield() {
            std::hint::spin_loop();
        }
        assert!(from.elapsed() >= TASK_BUDGET / 2, "{:?}", from.elapsed());
    });
}

#[test]
fn timers_fire_beside_a_task_that_gives_way() {
    block_on(async {
        let stop = Rc::new(Cell::new(false));
        let hogs: Vec<_> = (0..3)
            .map(|_| {
                let stop = Rc::clone(&stop);
                spawn_local(async move {
                    let mut rounds = 0u64;
                    while !stop.get() {
                        rounds += 1;
                        maybe_yield().await;
                    }
                    rounds
                })
            })
            .collect();
        let from = Instant::now();
        for _ in 0..10 {
            sleep(Duration::from_millis(1)).await;
        }
        println!("ten sleeps of 1 ms beside three hogs: {:?}", from.elapsed());
        stop.set(true);
        for hog in hogs {
            assert!(hog.await > 1000);
        }
    });
}

#[test]
fn a_stall_is_counted_and_its_task_named() {
    block_on(async {
        set_stall_threshold(Duration::from_millis(20), false);
        let before = stall_report();
        spawn_local(async { spin(Duration::from_millis(40)) }).await;
        let after = stall_report();
        assert!(after.stalls > before.stalls);
        assert!(after.longest_us >= 40_000);
        assert!(after.longest_task.unwrap().file().ends_with("preemption.rs"));
    });
}

#[test]
fn a_stall_can_fail_a_test() {
    let failed = std::panic::catch_unwind(|| {
        block_on(async {
            set_stall_threshold(Duration::from_millis(20), true);
            spawn_local(async { spin(Duration::from_millis(40)) }).await;
        });
    });
    let message = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("preemption.rs") && message.contains("held the core"), "{message}");
    set_stall_threshold(preempt::STALL_THRESHOLD, false);
}

#[test]
fn forced_yields_replay_from_their_seed() {
    let choices = |seed| {
        preempt::force_yields(Some(seed));
        let choices: Vec<bool> = (0..1000).map(|_| should_yield()).collect();
        preempt::force_yields(None);
        choices
    };
    assert_eq!(choices(7), choices(7));
    assert_ne!(choices(7), choices(9));
    let yields = choices(7).iter().filter(|&&choice| choice).count();
    assert!((150..350).contains(&yields), "{yields}");
}
