//! Tests that the tasks of a group share their slice and otherwise behave like all other tasks.

use espalier_runtime::shard::loop_report;
use espalier_runtime::sync::Notify;
use espalier_runtime::time::{Instant, sleep};
use espalier_runtime::{TaskGroup, block_on, spawn_local, yield_now};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Lets every ready task run once before the caller continues.
fn stand_behind() -> impl Future<Output = ()> {
    let mut has_stood = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut has_stood, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Waits until all members are done.
async fn until_empty(group: &TaskGroup) {
    while group.live() > 0 {
        stand_behind().await;
    }
}

fn spin(duration: Duration) {
    let from = Instant::now();
    while from.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// The 64 members are always ready, for 20 µs each. A task outside of the group waits for one
/// slice of the group, which three members fill.
#[test]
fn a_task_outside_a_group_waits_for_one_slice_of_the_group() {
    const MEMBERS: u64 = 64;
    block_on(async {
        let (group, polls, stop) =
            (TaskGroup::new(), Rc::new(Cell::new(0u64)), Rc::new(Cell::new(false)));
        let turns = Rc::new(RefCell::new([0u64; MEMBERS as usize]));
        for member in 0..MEMBERS as usize {
            let (polls, stop, turns) = (polls.clone(), stop.clone(), turns.clone());
            group.spawn(async move {
                while !stop.get() {
                    spin(Duration::from_micros(20));
                    polls.set(polls.get() + 1);
                    turns.borrow_mut()[member] += 1;
                    stand_behind().await;
                }
            });
        }
        let mut waits = Vec::new();
        let seen = polls.clone();
        let own = spawn_local(async move {
            stand_behind().await;
            for _ in 0..32 {
                let before = seen.get();
                stand_behind().await;
                waits.push(seen.get() - before);
            }
            waits
        });
        let mut waits = own.await;
        while polls.get() < 8 * MEMBERS {
            stand_behind().await;
        }
        stop.set(true);
        waits.sort_unstable();
        // The last quarter is left out, because other processes have the core at times.
        assert!(waits[24] <= 3, "members polled in a slice of the group: {waits:?}");
        let turns = turns.borrow();
        let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
        assert!(*least >= 7 && most - least <= 1, "they take turns: {turns:?}");
    });
}

#[test]
fn members_run_in_the_order_in_which_they_become_ready() {
    block_on(async {
        let (group, order) = (TaskGroup::new(), Rc::new(RefCell::new(Vec::new())));
        let bells: Vec<_> = (0..4).map(|_| Rc::new(Notify::new())).collect();
        let begun = Rc::new(Cell::new(0));
        for (number, bell) in bells.iter().enumerate() {
            let (order, bell, begun) = (order.clone(), bell.clone(), begun.clone());
            group.spawn(async move {
                begun.set(begun.get() + 1);
                bell.notified().await;
                order.borrow_mut().push(number);
            });
        }
        while begun.get() < 4 {
            stand_behind().await;
        }
        assert_eq!(group.live(), 4);
        for number in [2, 0, 3, 1] {
            bells[number].notify_one();
        }
        until_empty(&group).await;
        assert_eq!(*order.borrow(), [2, 0, 3, 1]);
    });
}

#[test]
fn a_panic_of_a_member_does_not_end_other_members() {
    block_on(async {
        let (group, is_done) = (TaskGroup::new(), Rc::new(Cell::new(false)));
        group.spawn(async { panic!("on purpose") });
        let reported = is_done.clone();
        group.spawn(async move {
            yield_now().await;
            reported.set(true);
        });
        while group.live() > 0 {
            yield_now().await;
        }
        assert!(is_done.get());
        assert_eq!(loop_report().unwrap().panicked_tasks, 1);
    });
}

#[test]
fn a_group_that_is_dropped_lets_its_members_go_on_and_is_gone_then() {
    block_on(async {
        let (bell, is_done) = (Rc::new(Notify::new()), Rc::new(Cell::new(false)));
        let group = TaskGroup::new();
        let (heard, reported) = (bell.clone(), is_done.clone());
        group.spawn(async move {
            heard.notified().await;
            reported.set(true);
        });
        stand_behind().await;
        drop(group);
        assert_eq!(loop_report().unwrap().live_tasks, 2, "the member, and the group itself");
        bell.notify_one();
        for _ in 0..4 {
            yield_now().await;
        }
        assert!(is_done.get());
        assert_eq!(loop_report().unwrap().live_tasks, 0);
    });
}

#[test]
fn a_member_is_woken_by_timers_and_by_other_threads() {
    block_on(async {
        let group = TaskGroup::new();
        group.spawn(sleep(Duration::from_millis(2)));
        group.spawn(poll_fn({
            let mut thread = None;
            move |context| {
                let waker = context.waker().clone();
                let begin = || {
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(2));
                        waker.wake();
                    })
                };
                match thread.take() {
                    None => {
                        thread = Some(begin());
                        Poll::Pending
                    }
                    Some(begun) => {
                        begun.join().unwrap();
                        Poll::Ready(())
                    }
                }
            }
        }));
        while group.live() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    });
}

/// Counts its drop, and spawns another member of its group then.
struct Last {
    group: Rc<TaskGroup>,
    dropped: Rc<Cell<usize>>,
}

impl Drop for Last {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
        self.group.spawn(async {});
    }
}

#[test]
fn the_end_of_the_loop_drops_members_that_hold_their_group() {
    let dropped = Rc::new(Cell::new(0));
    block_on(async {
        let group = Rc::new(TaskGroup::new());
        for _ in 0..3 {
            let last = Last { group: group.clone(), dropped: dropped.clone() };
            group.spawn(async move {
                pending::<()>().await;
                drop(last);
            });
        }
        stand_behind().await;
        assert_eq!(group.live(), 3);
    });
    assert_eq!(dropped.get(), 3);
}

/// The test has enough members that the group frees its slots when all are gone, and keeps the
/// members' wakers.
#[test]
fn a_waker_of_a_member_that_is_gone_wakes_no_other() {
    block_on(async {
        let (group, kept) = (TaskGroup::new(), Rc::new(RefCell::new(Vec::new())));
        for _ in 0..100 {
            let kept = kept.clone();
            group.spawn(poll_fn(move |context| {
                kept.borrow_mut().push(context.waker().clone());
                Poll::Ready(())
            }));
        }
        until_empty(&group).await;
        assert_eq!(kept.borrow().len(), 100);
        let (polls, bell) = (Rc::new(Cell::new(0)), Rc::new(Notify::new()));
        for _ in 0..10 {
            let (polls, bell) = (polls.clone(), bell.clone());
            group.spawn(async move {
                let mut notified = std::pin::pin!(bell.notified());
                poll_fn(|context| {
                    polls.set(polls.get() + 1);
                    notified.as_mut().poll(context)
                })
                .await;
            });
        }
        while polls.get() < 10 {
            stand_behind().await;
        }
        kept.borrow_mut().drain(..).for_each(Waker::wake);
        for _ in 0..10 {
            stand_behind().await;
        }
        assert_eq!(polls.get(), 10);
        assert_eq!(group.live(), 10, "all wait as before");
        bell.notify_all();
        until_empty(&group).await;
    });
}

#[test]
fn many_members_come_and_go() {
    block_on(async {
        let group = TaskGroup::new();
        for round in 1..=3 {
            let bell = Rc::new(Notify::new());
            for _ in 0..round * 100 {
                let bell = bell.clone();
                group.spawn(async move { bell.notified().await });
            }
            while group.live() > 0 {
                bell.notify_all();
                stand_behind().await;
            }
        }
    });
}
