//! Tasks of a group have their turn together, and otherwise are tasks like all others.

#![allow(clippy::unwrap_used)]
// A thread that wakes a task is not the runtime's own.
#![allow(clippy::disallowed_methods)]

use espalier_runtime::shard::loop_report;
use espalier_runtime::sync::Notify;
use espalier_runtime::time::{Instant, sleep};
use espalier_runtime::{TaskGroup, block_on, spawn_local, yield_now};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Lets all that is ready run first, once.
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

fn spin(duration: Duration) {
    let from = Instant::now();
    while from.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Members that are always ready have 64 · 20 µs to do in a round; who is not of them waits for a turn of the group, which is four of them.
#[test]
fn who_is_not_of_a_group_does_not_wait_for_all_its_members() {
    const MEMBERS: u64 = 64;
    block_on(async {
        let (group, polls, stop) =
            (TaskGroup::new(), Rc::new(Cell::new(0u64)), Rc::new(Cell::new(false)));
        for _ in 0..MEMBERS {
            let (polls, stop) = (polls.clone(), stop.clone());
            group.spawn(async move {
                while !stop.get() {
                    spin(Duration::from_micros(20));
                    polls.set(polls.get() + 1);
                    stand_behind().await;
                }
            });
        }
        let mut waits = Vec::new();
        let own = spawn_local(async move {
            stand_behind().await;
            for _ in 0..32 {
                let before = polls.get();
                stand_behind().await;
                waits.push(polls.get() - before);
            }
            (waits, polls.get())
        });
        let (mut waits, all) = own.await;
        stop.set(true);
        waits.sort_unstable();
        // Not the last ones: the machine may take the core from a member that has just begun.
        assert!(waits[24] <= 4, "members polled in a turn of the group: {waits:?}");
        assert!(all >= MEMBERS, "each had its turn meanwhile: {all} polls");
    });
}

#[test]
fn members_run_in_the_order_in_which_they_become_ready() {
    block_on(async {
        let (group, order) = (TaskGroup::new(), Rc::new(RefCell::new(Vec::new())));
        let bells: Vec<_> = (0..4).map(|_| Rc::new(Notify::new())).collect();
        for (number, bell) in bells.iter().enumerate() {
            let (order, bell) = (order.clone(), bell.clone());
            group.spawn(async move {
                bell.notified().await;
                order.borrow_mut().push(number);
            });
        }
        stand_behind().await;
        assert_eq!(group.live(), 4);
        for number in [2, 0, 3, 1] {
            bells[number].notify_one();
        }
        while group.live() > 0 {
            stand_behind().await;
        }
        assert_eq!(*order.borrow(), [2, 0, 3, 1]);
    });
}

#[test]
fn a_panic_of_a_member_ends_nobody_else() {
    block_on(async {
        let (group, is_done) = (TaskGroup::new(), Rc::new(Cell::new(false)));
        group.spawn(async { panic!("on purpose") });
        let told = is_done.clone();
        group.spawn(async move {
            yield_now().await;
            told.set(true);
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
        let (heard, told) = (bell.clone(), is_done.clone());
        group.spawn(async move {
            heard.notified().await;
            told.set(true);
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

/// Tells when it is dropped, and has the group get another member then.
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
