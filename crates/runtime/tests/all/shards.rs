//! Tests that shards start, call each other, and end together.

use espalier_runtime::shard::loop_report;
use espalier_runtime::time::sleep;
use espalier_runtime::{
    ShardOptions, block_on, current_shard, spawn_blocking, spawn_local, start_shards, submit_to,
    submit_to_all, yield_now,
};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn shards(count: usize) -> ShardOptions {
    ShardOptions { count, ..ShardOptions::default() }
}

#[test]
fn every_shard_knows_itself_and_reaches_the_others() {
    let started = start_shards(&shards(3), |context| async move {
        assert_eq!(current_shard(), Some(context));
        let seen = submit_to_all(|shard| async move {
            assert_eq!(current_shard().unwrap().index, shard);
            sleep(Duration::from_millis(1)).await;
            shard * 10
        })
        .await;
        assert_eq!(seen, [0, 10, 20]);
        context.index
    });
    assert_eq!(started.unwrap().join().unwrap(), [0, 1, 2]);
}

#[test]
fn a_shard_whose_main_is_done_still_answers() {
    let started = start_shards(&shards(2), |context| async move {
        if context.index == 0 {
            sleep(Duration::from_millis(30)).await;
            submit_to(1, || async { current_shard().unwrap().index }).await
        } else {
            99
        }
    });
    assert_eq!(started.unwrap().join().unwrap(), [1, 99]);
}

#[test]
fn a_panic_in_a_call_goes_on_in_the_caller() {
    let started = start_shards(&shards(2), |context| async move {
        if context.index == 0 {
            submit_to(1, || async { panic!("on purpose") }).await
        }
    });
    let error = started.unwrap().join().unwrap_err();
    assert_eq!(error.to_string(), "shard 0 panicked: on purpose");
}

#[test]
fn other_threads_call_shards_from_block_on() {
    let is_over = Arc::new(AtomicBool::new(false));
    let may_end = Arc::clone(&is_over);
    let started = start_shards(&shards(2), move |_| {
        let may_end = Arc::clone(&may_end);
        async move {
            while !may_end.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(10)).await;
            }
        }
    });
    let started = started.unwrap();
    let caller = started.caller();
    let answer = block_on(caller.submit_to(1, || async { current_shard().unwrap().index }));
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(answer, Ok(1));
    started.join().unwrap();
    let late = block_on(caller.submit_to(1, || async {}));
    assert_eq!(late.unwrap_err().to_string(), "the shard stopped before it answered");
}

#[test]
fn tasks_share_the_shard_and_can_be_cancelled() {
    block_on(async {
        let count = Rc::new(Cell::new(0));
        let counting = Rc::clone(&count);
        let endless = spawn_local(async move {
            loop {
                counting.set(counting.get() + 1);
                yield_now().await;
            }
        });
        let joined = spawn_local(async { 7 }).await;
        assert_eq!(joined, 7);
        for _ in 0..1000 {
            if count.get() > 1 {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
        assert!(count.get() > 1);
        assert_eq!(endless.cancel().await, None::<()>);
        assert_eq!(Rc::strong_count(&count), 1);
    });
}

#[test]
fn tasks_left_over_are_dropped_with_the_loop() {
    let dropped = Rc::new(Cell::new(false));
    struct Flag(Rc<Cell<bool>>);
    impl Drop for Flag {
        fn drop(&mut self) {
            // Destructors may still look for the loop, and even try to spawn.
            spawn_local(async {}).detach();
            self.0.set(true);
        }
    }
    let flag = Flag(Rc::clone(&dropped));
    block_on(async {
        spawn_local(async move {
            let _flag = flag;
            std::future::pending::<()>().await
        })
        .detach();
        yield_now().await;
    });
    assert!(dropped.get());
}

#[test]
fn blocking_work_does_not_hold_the_core() {
    block_on(async {
        let work = (0..40).map(|index| {
            spawn_blocking(move || {
                std::thread::sleep(Duration::from_millis(2));
                index
            })
        });
        let mut all = futures_util::future::join_all(work).await;
        all.sort();
        assert_eq!(all, (0..40).collect::<Vec<_>>());
    });
}

#[test]
#[should_panic(expected = "inside of an event loop")]
fn block_on_inside_of_a_loop_is_a_mistake() {
    block_on(async { block_on(async {}) });
}

#[test]
fn pinned_shards_stay_on_their_processor() {
    let cpus = espalier_runtime::cpu::allowed_cpus();
    let options = ShardOptions { count: 2, pin_to: Some(cpus.clone()), ..ShardOptions::default() };
    let started = start_shards(&options, |_| async {
        let helper = spawn_blocking(espalier_runtime::cpu::allowed_cpus).await;
        (espalier_runtime::cpu::allowed_cpus(), helper)
    });
    let pinned = started.unwrap().join().unwrap();
    for (index, (shard, helper)) in pinned.iter().enumerate() {
        assert_eq!(shard, &[cpus[index % cpus.len()]]);
        assert_eq!(helper, &cpus, "helper threads leave the shard its processor");
    }
}

#[test]
fn a_panic_in_a_task_alone_is_counted() {
    block_on(async {
        spawn_local(async { panic!("on purpose") }).detach();
        spawn_local(std::future::pending::<()>()).detach();
        yield_now().await;
        yield_now().await;
        let report = loop_report().unwrap();
        assert_eq!((report.panicked_tasks, report.live_tasks), (1, 1));
    });
}

#[test]
fn a_spinning_shard_answers_and_then_sleeps() {
    let idle_spin = Duration::from_micros(200);
    let options = ShardOptions { count: 2, idle_spin, ..ShardOptions::default() };
    let started = start_shards(&options, |context| async move {
        for call in 0..100 {
            assert_eq!(submit_to(1 - context.index, move || async move { call }).await, call);
        }
        // Other processes may have the core while the shard spins, so one sleep of several counts.
        let mut is_asleep = false;
        for _ in 0..20 {
            let before = loop_report().unwrap().asleep_us;
            sleep(Duration::from_millis(50)).await;
            is_asleep = loop_report().unwrap().asleep_us - before > 20_000;
            if is_asleep {
                break;
            }
        }
        is_asleep
    });
    assert_eq!(started.unwrap().join().unwrap(), [true, true]);
}

#[test]
fn a_shard_that_waits_for_the_others_sleeps() {
    let options = ShardOptions { count: 2, ..ShardOptions::default() };
    let started = start_shards(&options, |context| async move {
        if context.index == 1 {
            let asleep_us = || submit_to(0, || async { loop_report().unwrap().asleep_us });
            let mut most = 0;
            // The first shard may begin late, because other processes have the core at times.
            for _ in 0..20 {
                let before = asleep_us().await;
                sleep(Duration::from_millis(60)).await;
                most = most.max(asleep_us().await - before);
                if most > 30_000 {
                    break;
                }
            }
            return most;
        }
        // Wakes `main` once more after its end.
        let waker =
            std::future::poll_fn(|context| std::task::Poll::Ready(context.waker().clone())).await;
        spawn_local(async move {
            sleep(Duration::from_millis(1)).await;
            waker.wake();
        })
        .detach();
        0
    });
    let asleep_us = started.unwrap().join().unwrap()[1];
    assert!(asleep_us > 30_000, "{asleep_us}");
}
