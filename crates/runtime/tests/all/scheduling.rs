//! Tests that scheduling groups share the core by their shares.

use espalier_runtime::cpu::thread_time;
use espalier_runtime::scheduling::{GroupReport, group_reports};
use espalier_runtime::sync::Notify;
use espalier_runtime::time::{Instant, sleep};
use espalier_runtime::{
    SchedulingGroup, ShardOptions, block_on, maybe_yield, spawn_blocking, spawn_local,
    start_shards, submit_to, yield_now,
};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use SchedulingGroup::{CacheUpdate, Compaction, Flush, Maintenance, Statements, Streaming};

const MEASURED: Duration = Duration::from_millis(300);

fn report(group: SchedulingGroup) -> GroupReport {
    group_reports()[group as usize]
}

fn run_us(group: SchedulingGroup) -> f64 {
    report(group).run_us as f64
}

/// A task that never ends and yields when its slice is over.
async fn hog(stop: Rc<Cell<bool>>) {
    while !stop.get() {
        maybe_yield().await;
    }
}

/// Lets every ready statement run once before the caller continues.
async fn stand_behind() {
    let mut has_stood = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_stood, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

thread_local! {
    /// The polls of [`busy`].
    static BUSY_POLLS: Cell<u64> = const { Cell::new(0) };
}

/// A statement that is always ready, and never joins the queue of yielded tasks.
async fn busy(stop: Rc<Cell<bool>>) {
    while !stop.get() {
        BUSY_POLLS.set(BUSY_POLLS.get() + 1);
        let from = Instant::now();
        while from.elapsed() < Duration::from_micros(20) {
            std::hint::spin_loop();
        }
        stand_behind().await;
    }
}

/// A statement that never ends, and yields after more than the slice of a group.
async fn long_reads(stop: Rc<Cell<bool>>) {
    while !stop.get() {
        let from = Instant::now();
        while from.elapsed() < Duration::from_micros(400) {
            std::hint::spin_loop();
        }
        yield_now().await;
    }
}

/// The statements beside the groups.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Busy,
    LongReads,
}

/// Runs hogs of groups with shares beside statements, and returns the time of each group on the
/// core.
fn shared(hogs: &[(SchedulingGroup, u32)], beside: Beside) -> Vec<f64> {
    block_on(async {
        let stop = Rc::new(Cell::new(false));
        for (group, shares) in hogs.iter().copied() {
            group.set_controller(move || Some(shares));
            group.spawn(hog(stop.clone())).detach();
        }
        match beside {
            Beside::Nothing => {}
            Beside::Busy => spawn_local(busy(stop.clone())).detach(),
            Beside::LongReads => spawn_local(long_reads(stop.clone())).detach(),
        }
        sleep(Duration::from_millis(20)).await;
        let groups: Vec<_> = hogs.iter().map(|(group, _)| *group).chain([Statements]).collect();
        let before: Vec<_> = groups.iter().map(|group| run_us(*group)).collect();
        let began = thread_time();
        while thread_time() - began < MEASURED {
            sleep(Duration::from_millis(5)).await;
        }
        stop.set(true);
        groups.iter().zip(before).map(|(group, before)| run_us(*group) - before).collect()
    })
}

/// Asserts that the groups ran in these proportions, within 10 %, in one of three rounds. Other
/// processes have the core at times.
fn assert_shared(hogs: &[(SchedulingGroup, u32)], beside: Beside, expected: &[f64]) {
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let ran = shared(hogs, beside);
        let is_close = |(ran, expected): (&[f64], &[f64])| {
            (ran[1] / ran[0] * expected[0] / expected[1] - 1.0).abs() < 0.1
        };
        if ran.windows(2).zip(expected.windows(2)).all(is_close) {
            return;
        }
        rounds.push(ran);
    }
    panic!("µs of each group: {rounds:?} instead of {expected:?}");
}

#[test]
fn groups_share_the_core_by_their_shares() {
    assert_shared(&[(Flush, 100), (Compaction, 300)], Beside::Nothing, &[1.0, 3.0]);
    // Beside statements, which have 1,000 shares.
    assert_shared(&[(Flush, 250), (Compaction, 500)], Beside::Busy, &[1.0, 2.0, 4.0]);
    assert_shared(&[(Flush, 250), (Compaction, 500)], Beside::LongReads, &[1.0, 2.0, 4.0]);
}

#[test]
fn an_idle_group_leaves_its_share_to_the_others() {
    block_on(async {
        let stop = Rc::new(Cell::new(false));
        Compaction.set_controller(|| Some(1));
        Compaction.spawn(hog(stop.clone())).detach();
        // The flush waits all the time.
        let bell = Rc::new(Notify::new());
        let heard = bell.clone();
        Flush.spawn(async move { heard.notified().await }).detach();
        sleep(Duration::from_millis(20)).await;
        let (began, before) = (thread_time(), run_us(Compaction));
        // Processor time, because other processes have the core at times.
        while thread_time() - began < Duration::from_millis(100) {
            sleep(Duration::from_millis(5)).await;
        }
        let share = (run_us(Compaction) - before) / (thread_time() - began).as_micros() as f64;
        assert!(share > 0.8, "{share}");
        stop.set(true);
    });
}

#[test]
fn a_group_that_wakes_runs_within_a_slice_and_has_no_credit() {
    block_on(async {
        let stop = Rc::new(Cell::new(false));
        spawn_local(busy(stop.clone())).detach();
        Compaction.spawn(hog(stop.clone())).detach();
        let (mut waits, bell) = (Vec::new(), Rc::new(Notify::new()));
        let rung_at = Rc::new(Cell::new(0));
        let (heard, at) = (bell.clone(), rung_at.clone());
        let flush = Flush.spawn(async move {
            for _ in 0..16 {
                heard.notified().await;
                waits.push(BUSY_POLLS.get() - at.get());
            }
            // The flush slept for a long time, but gets no more than its shares from here on.
            // Processor time, because other processes have the core at times.
            let before = (run_us(Flush), run_us(Statements));
            let from = thread_time();
            while thread_time() - from < Duration::from_millis(60) {
                maybe_yield().await;
            }
            let ran = (run_us(Flush) - before.0) / (run_us(Statements) - before.1);
            (waits, ran)
        });
        for _ in 0..16 {
            sleep(Duration::from_millis(5)).await;
            rung_at.set(BUSY_POLLS.get());
            bell.notify_one();
        }
        let (mut waits, ran) = flush.await;
        stop.set(true);
        waits.sort_unstable();
        // The last quarter is left out: other processes have the core at times, also in a poll of
        // the group, which is charged for it.
        assert!(waits[11] <= 3, "polls of statements before it: {waits:?}");
        assert!(ran < 0.45, "a third of the statements' shares, but {ran} of their time");
    });
}

#[test]
fn statements_that_wait_for_clients_are_not_delayed_by_each_slice() {
    block_on(async {
        let stop = Rc::new(Cell::new(false));
        Compaction.spawn(hog(stop.clone())).detach();
        // Requests of 100 µs, and a wait of 100 µs for the next one.
        let (began, before) = (Instant::now(), run_us(Compaction));
        let worked = thread_time();
        while began.elapsed() < MEASURED {
            let from = Instant::now();
            while from.elapsed() < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
            sleep(Duration::from_micros(100)).await;
        }
        let ran = run_us(Compaction) - before;
        let share = ran / began.elapsed().as_micros() as f64;
        // Other processes have the core at times, so the lower bound is of the thread's time.
        let share_of_thread = ran / (thread_time() - worked).as_micros() as f64;
        stop.set(true);
        assert!(share < 0.4, "at most a quarter, but {share}");
        assert!(share_of_thread > 0.01, "{share_of_thread}");
    });
}

#[test]
fn a_task_has_the_group_of_the_task_that_spawned_it() {
    let started =
        start_shards(&ShardOptions { count: 2, ..ShardOptions::default() }, |context| async move {
            if context.index > 0 {
                return;
            }
            assert_eq!(SchedulingGroup::current(), Statements);
            let inner = Maintenance.spawn(async {
                yield_now().await;
                let group = spawn_local(async { SchedulingGroup::current() }).await;
                assert_eq!(group, Maintenance);
                assert_eq!(submit_to(1, || async { SchedulingGroup::current() }).await, group);
                assert_eq!(spawn_blocking(|| 7).await, 7);
                sleep(Duration::from_millis(1)).await;
                let other = Streaming.spawn(async { SchedulingGroup::current() }).await;
                (SchedulingGroup::current(), other)
            });
            assert_eq!(inner.await, (Maintenance, Streaming));
            assert_eq!(SchedulingGroup::current(), Statements);
        });
    started.unwrap().join().unwrap();
}

#[test]
fn groups_are_reported() {
    block_on(async {
        let work = CacheUpdate.spawn(async {
            let from = thread_time();
            while thread_time() - from < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
        });
        work.await;
        let report = report(CacheUpdate);
        assert!(report.run_us >= 1_000 && report.longest_us >= 1_000, "{report:?}");
        assert_eq!((report.polls, report.shares, report.group), (1, 333, CacheUpdate));
    });
}

/// A panic, a cancellation and the end of the loop are the same in each group.
#[test]
fn tasks_of_groups_end_by_cancellation_panic_or_end_of_loop() {
    struct Dropped(Rc<Cell<usize>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            Flush.spawn(async {}).detach();
        }
    }
    let dropped = Rc::new(Cell::new(0));
    let held = || Dropped(dropped.clone());
    block_on(async {
        let (first, second) = (held(), held());
        let task = Flush.spawn(async move {
            let _held = first;
            std::future::pending::<()>().await;
        });
        yield_now().await;
        assert_eq!(task.cancel().await, None);
        assert_eq!(dropped.get(), 1);
        Compaction.spawn(async { panic!("on purpose") }).detach();
        Flush
            .spawn(async move {
                let _held = second;
                std::future::pending::<()>().await;
            })
            .detach();
        sleep(Duration::from_millis(1)).await;
        // Another thread wakes a task of a group.
        let mut thread = None;
        let woken = Maintenance.spawn(poll_fn(move |context| match thread.take() {
            None => {
                let waker = context.waker().clone();
                thread = Some(std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(2));
                    waker.wake();
                }));
                Poll::Pending
            }
            Some(thread) => {
                thread.join().unwrap();
                Poll::Ready(())
            }
        }));
        woken.await;
    });
    assert_eq!(dropped.get(), 2);
}

/// Returns the average time of a slice of maintenance beside statements, in microseconds.
fn average_slice_us(beside: Beside) -> f64 {
    block_on(async move {
        let stop = Rc::new(Cell::new(false));
        Maintenance.set_controller(|| Some(1000));
        Maintenance.spawn(hog(stop.clone())).detach();
        if let Beside::Busy = beside {
            spawn_local(busy(stop.clone())).detach();
        }
        sleep(Duration::from_millis(20)).await;
        let before = report(Maintenance);
        let began = thread_time();
        while thread_time() - began < MEASURED {
            sleep(Duration::from_millis(5)).await;
        }
        stop.set(true);
        let after = report(Maintenance);
        (after.run_us - before.run_us) as f64 / (after.polls - before.polls) as f64
    })
}

#[test]
fn a_slice_is_shorter_beside_statements() {
    // Other processes may lengthen the slices of a round.
    let rounds: Vec<_> = (0..5)
        .map(|_| (average_slice_us(Beside::Nothing), average_slice_us(Beside::Busy)))
        .collect();
    let is_shorter = |(alone, beside): &(f64, f64)| *beside < 0.75 * alone;
    assert!(rounds.iter().any(is_shorter), "µs alone, and beside statements: {rounds:?}");
}
