//! Tests that tasks yield in time, and that tasks that do not are detected.

use espalier_runtime::cpu::{allowed_cpus, pin_current_thread, thread_time};
use espalier_runtime::preempt::{
    self, TASK_BUDGET, set_stall_threshold, stall_report, take_stall_report,
};
use espalier_runtime::sync::Notify;
use espalier_runtime::time::{Instant, sleep};
use espalier_runtime::{TaskGroup, block_on, maybe_yield, should_yield, spawn_local, yield_now};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn spin(duration: Duration) {
    let from = Instant::now();
    while from.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Holds the core for `duration` of processor time, however busy the machine is.
fn work(duration: Duration) {
    let from = thread_time();
    while thread_time() - from < duration {
        std::hint::spin_loop();
    }
}

#[test]
fn should_yield_is_true_once_the_task_budget_is_used_up() {
    assert!(!should_yield(), "outside of a loop no task yields");
    block_on(async {
        yield_now().await;
        spin(TASK_BUDGET * 2);
        assert!(should_yield());
        let mut longest = Duration::ZERO;
        // Other processes may have the core between the begin of a poll and the test's first look.
        for _ in 0..20 {
            yield_now().await;
            let from = Instant::now();
            while !should_yield() {
                std::hint::spin_loop();
            }
            longest = longest.max(from.elapsed());
            if longest >= TASK_BUDGET / 2 {
                break;
            }
        }
        assert!(longest >= TASK_BUDGET / 2, "{longest:?}");
    });
}

#[test]
fn timers_fire_beside_busy_tasks_that_yield() {
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

/// A task that becomes ready waits for the task that has the core, and not for all yielded tasks.
#[test]
fn a_task_that_becomes_ready_runs_before_yielded_tasks() {
    const HOGS: usize = 6;
    block_on(async {
        let stop = Rc::new(Cell::new(false));
        // The number of turns of all hogs together: so far, and at the last wake of the other task.
        let (turns, woken_at) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0u64)));
        let bell = Rc::new(Notify::new());
        let hog = |number: usize| {
            let (stop, turns, woken_at) = (stop.clone(), turns.clone(), woken_at.clone());
            let bell = bell.clone();
            spawn_local(async move {
                let mut own_turns = 0u64;
                while !stop.get() {
                    if should_yield() {
                        turns.set(turns.get() + 1);
                        own_turns += 1;
                        if number == 0 {
                            woken_at.set(turns.get());
                            bell.notify_one();
                        }
                        yield_now().await;
                    }
                }
                own_turns
            })
        };
        let hogs: Vec<_> = (0..HOGS).map(hog).collect();
        let answered = spawn_local(async move {
            // At first all hogs are new, and none has yielded.
            for _ in 0..4 {
                bell.notified().await;
            }
            for _ in 0..16 {
                bell.notified().await;
                let waited = turns.get() - woken_at.get();
                assert!(waited <= 1, "{waited} turns of yielded tasks came first");
            }
        });
        answered.await;
        stop.set(true);
        for hog in hogs {
            assert!(hog.await >= 18, "each has its slice");
        }
    });
}

/// While other tasks fill each iteration, tasks that yield after little work share a slice: none
/// waits for a slice of each of the others.
#[test]
fn tasks_that_yield_after_little_work_get_turns_beside_busy_tasks() {
    const GIVING_WAY: usize = 32;
    const CALLS: u64 = 200;
    block_on(async {
        let stop = Rc::new(Cell::new(false));
        let giving_way: Vec<_> = (0..GIVING_WAY)
            .map(|_| {
                let stop = stop.clone();
                spawn_local(async move {
                    let mut turns = 0u64;
                    while !stop.get() {
                        turns += 1;
                        yield_now().await;
                    }
                    turns
                })
            })
            .collect();
        let (there, back) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let answering = spawn_local({
            let (there, back, stop) = (there.clone(), back.clone(), stop.clone());
            async move {
                while !stop.get() {
                    there.notified().await;
                    work(Duration::from_micros(150));
                    back.notify_one();
                }
            }
        });
        let asking = spawn_local(async move {
            for _ in 0..CALLS {
                work(Duration::from_micros(150));
                there.notify_one();
                back.notified().await;
            }
            stop.set(true);
            there.notify_one();
        });
        asking.await;
        answering.await;
        for task in giving_way {
            let turns = task.await;
            assert!(turns >= CALLS / 8, "{turns} turns beside {CALLS} calls");
        }
    });
}

/// A task of many futures that yield has its slice as one task.
#[test]
fn a_task_that_yields_often_in_a_poll_has_one_slice() {
    block_on(async {
        let stop = Rc::new(Cell::new(false));
        let turns = Rc::new(Cell::new(0u64));
        let many = spawn_local({
            let (stop, turns) = (stop.clone(), turns.clone());
            async move {
                let part = || async {
                    while !stop.get() {
                        turns.set(turns.get() + 1);
                        yield_now().await;
                    }
                };
                futures_util::future::join_all((0..16).map(|_| part())).await;
            }
        });
        for _ in 0..1000 {
            yield_now().await;
        }
        stop.set(true);
        many.await;
        let turns = turns.get() / 16;
        assert!((900..1100).contains(&turns), "{turns} turns beside 1000");
    });
}

#[test]
fn a_stall_is_counted_and_its_task_named() {
    block_on(async {
        set_stall_threshold(Duration::from_millis(20), false);
        let before = stall_report();
        spawn_local(async { work(Duration::from_millis(41)) }).await;
        let after = stall_report();
        assert!(after.stalls > before.stalls);
        assert!(after.longest_us >= 40_000);
        assert!(after.longest_task.unwrap().file().ends_with("preemption.rs"));
    });
}

#[test]
fn a_task_that_blocks_without_yielding_is_a_stall() {
    block_on(async {
        set_stall_threshold(Duration::from_millis(20), false);
        let before = stall_report();
        spawn_local(async { std::thread::sleep(Duration::from_millis(41)) }).await;
        let after = stall_report();
        assert!(after.stalls > before.stalls);
        assert!(after.longest_us >= 40_000);
    });
}

/// Four threads are pinned to one processor, so that the kernel makes them take turns.
#[test]
fn core_time_of_other_threads_is_not_a_stall() {
    let cpu = allowed_cpus()[0];
    let stop = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..3)
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                pin_current_thread(cpu).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    std::thread::spawn(move || {
        pin_current_thread(cpu).unwrap();
        block_on(async {
            take_stall_report();
            let (mut by_clock, began) = (Duration::ZERO, Instant::now());
            // Repeats until the kernel has taken the core away for longer than a poll lasts.
            while by_clock < Duration::from_millis(5) && began.elapsed() < Duration::from_secs(20) {
                let from = Instant::now();
                spawn_local(async { spin(Duration::from_micros(800)) }).await;
                by_clock = by_clock.max(from.elapsed());
            }
            let longest_us = take_stall_report().longest_us;
            assert!(
                by_clock >= Duration::from_millis(5),
                "the core was not taken away: {by_clock:?}"
            );
            assert!((100..3_000).contains(&longest_us), "{longest_us} of {by_clock:?}");
        });
    })
    .join()
    .unwrap();
    stop.store(true, Ordering::Relaxed);
    for other in others {
        other.join().unwrap();
    }
}

#[test]
fn a_stall_can_fail_a_test() {
    let fails = |stall: fn()| {
        let failed = std::panic::catch_unwind(|| {
            block_on(async {
                set_stall_threshold(Duration::from_millis(20), true);
                stall();
                yield_now().await;
                yield_now().await;
            });
        });
        let message = *failed.unwrap_err().downcast::<String>().unwrap();
        assert!(
            message.contains("preemption.rs") && message.contains("held the core"),
            "{message}"
        );
        set_stall_threshold(preempt::STALL_THRESHOLD, false);
    };
    fails(|| spawn_local(async { work(Duration::from_millis(40)) }).detach());
    // A stall of a group's member fails the loop after the poll of the group, not inside that poll.
    fails(|| TaskGroup::new().spawn(async { work(Duration::from_millis(40)) }));
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

#[test]
fn forced_yields_make_should_yield_always_true() {
    preempt::force_every_yield(true);
    assert!((0..1000).all(|_| should_yield()));
    preempt::force_every_yield(false);
    assert!(!should_yield(), "outside of a loop no task yields");
}
