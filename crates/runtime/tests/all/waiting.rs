//! Tests of semaphores, locks, channels and gates inside of one shard.

use espalier_runtime::sync::{Event, Gate, Mutex, Notify, Semaphore, channel, oneshot};
use espalier_runtime::{block_on, random, spawn_local, yield_now};
use futures_util::FutureExt;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

/// Yields until the other tasks wait for something else.
async fn settle() {
    for _ in 0..5 {
        yield_now().await;
    }
}

#[test]
fn units_are_handed_out_in_the_order_of_asking() {
    block_on(async {
        let bytes = Semaphore::new(10);
        let order = Rc::new(RefCell::new(Vec::new()));
        let first = bytes.acquire(8).await;
        for (name, units) in [("large", 9), ("small", 1), ("none", 0)] {
            let (bytes, order) = (bytes.clone(), Rc::clone(&order));
            spawn_local(async move {
                let permit = bytes.acquire(units).await;
                order.borrow_mut().push(name);
                settle().await;
                drop(permit);
            })
            .detach();
            settle().await;
        }
        assert!(order.borrow().is_empty() && bytes.has_waiters());
        assert!(bytes.try_acquire(1).is_none(), "no task overtakes");
        drop(first);
        settle().await;
        settle().await;
        settle().await;
        assert_eq!(*order.borrow(), ["large", "small", "none"]);
        assert_eq!(bytes.available(), 10);
    });
}

#[test]
fn a_waiter_that_leaves_gives_up_its_place_and_its_units() {
    block_on(async {
        let units = Semaphore::new(1);
        let held = units.acquire(1).await;
        let mut large = Box::pin(units.acquire(5));
        assert!((&mut large).now_or_never().is_none());
        let mut granted = Box::pin(units.acquire(1));
        assert!((&mut granted).now_or_never().is_none());
        drop(large);
        drop(held);
        // `granted` owns the unit although it was not polled.
        assert_eq!(units.available(), 0);
        drop(granted);
        assert_eq!(units.available(), 1);
    });
}

#[test]
fn permits_shrink_merge_and_are_forgotten() {
    block_on(async {
        let units = Semaphore::new(10);
        let mut permit = units.acquire(6).await;
        permit.shrink_to(4);
        assert_eq!((permit.units(), units.available()), (4, 6));
        permit.merge(units.acquire(2).await);
        assert_eq!((permit.units(), units.available()), (6, 4));
        permit.forget();
        assert_eq!(units.available(), 4);
        units.release(6);
        assert_eq!(units.available(), 10);
    });
}

proptest! {
    /// Units are neither lost nor made, and no task waits for ever, however tasks come, go and give
    /// up.
    #[test]
    fn units_are_conserved(seed: u64, total in 1usize..20) {
        block_on(async {
            random::seed(seed);
            let units = Semaphore::new(total);
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    let units = units.clone();
                    spawn_local(async move {
                        for _ in 0..20 {
                            let wanted = random::below(total as u64 + 1) as usize;
                            let acquire = units.acquire(wanted);
                            if random::below(3) == 0 {
                                let impatient = futures_util::future::select(acquire, yield_now_boxed());
                                drop(impatient.await);
                            } else {
                                let permit = acquire.await;
                                yield_now().await;
                                drop(permit);
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            assert_eq!(units.available(), total);
            assert!(!units.has_waiters());
        });
    }
}

fn yield_now_boxed() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(yield_now())
}

#[test]
fn a_lock_is_held_across_waiting() {
    block_on(async {
        let log = Rc::new(Mutex::new(Vec::new()));
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let log = Rc::clone(&log);
                spawn_local(async move {
                    let mut log = log.lock().await;
                    log.push(writer);
                    settle().await;
                    log.push(writer);
                })
            })
            .collect();
        settle().await;
        assert!(log.try_lock().is_none() && log.peek().is_none());
        for writer in writers {
            writer.await;
        }
        assert_eq!(*log.lock().await, [0, 0, 1, 1, 2, 2]);
    });
}

#[test]
fn a_notification_is_kept_for_one_waiter_and_passed_on() {
    block_on(async {
        let notify = Notify::new();
        notify.notify_one();
        notify.notify_one();
        notify.notified().await;
        let mut first = Box::pin(notify.notified());
        let mut second = Box::pin(notify.notified());
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        notify.notify_one();
        drop(first);
        assert!((&mut second).now_or_never().is_some());
        let mut third = Box::pin(notify.notified());
        assert!((&mut third).now_or_never().is_none());
        notify.notify_all();
        assert!((&mut third).now_or_never().is_some());
        assert!(notify.notified().now_or_never().is_none());
    });
}

#[test]
fn an_event_lets_all_waiters_pass_until_cleared() {
    block_on(async {
        let event = Event::new();
        let passed = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let (event, passed) = (event.clone(), Rc::clone(&passed));
            spawn_local(async move {
                event.wait().await;
                passed.set(passed.get() + 1);
            })
            .detach();
        }
        settle().await;
        assert_eq!(passed.get(), 0);
        event.set();
        settle().await;
        assert_eq!(passed.get(), 3);
        event.wait().await;
        event.clear();
        assert!(event.wait().now_or_never().is_none());
    });
}

#[test]
fn a_bounded_channel_holds_its_senders_back() {
    block_on(async {
        let (sender, mut receiver) = channel::bounded(2);
        let producer = spawn_local(async move {
            for value in 0..10 {
                sender.send(value).await.unwrap();
            }
        });
        settle().await;
        assert_eq!(receiver.len(), 2);
        let mut received = Vec::new();
        while let Some(value) = receiver.receive().await {
            received.push(value);
        }
        producer.await;
        assert_eq!(received, (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn senders_learn_that_the_receiver_is_gone() {
    block_on(async {
        let (sender, receiver) = channel::bounded(1);
        sender.try_send(1).unwrap();
        assert!(matches!(sender.try_send(2), Err(channel::TrySendError::Full(2))));
        let waiting = sender.clone();
        let waiting = spawn_local(async move { waiting.send(3).await });
        settle().await;
        drop(receiver);
        assert_eq!(waiting.await.unwrap_err().0, 3);
        assert!(sender.is_closed());
        let (sender, mut receiver) = channel::unbounded::<()>();
        drop(sender);
        assert_eq!(receiver.receive().await, None);
    });
}

#[test]
fn one_value_or_none_comes_through_a_oneshot() {
    block_on(async {
        let (sender, receiver) = oneshot::oneshot();
        let waiter = spawn_local(receiver);
        settle().await;
        sender.send(5).unwrap();
        assert_eq!(waiter.await, Ok(5));
        let (sender, receiver) = oneshot::oneshot::<u8>();
        drop(sender);
        assert_eq!(receiver.await, Err(oneshot::SenderGone));
        let (sender, receiver) = oneshot::oneshot();
        drop(receiver);
        assert_eq!(sender.send(6), Err(6));
    });
}

#[test]
fn a_closed_gate_waits_for_those_inside() {
    block_on(async {
        let gate = Gate::new();
        let inside = gate.enter().unwrap();
        let also_inside = gate.enter().unwrap();
        assert_eq!(gate.count(), 2);
        let mut closing = Box::pin(gate.close());
        assert!(gate.enter().is_err() && gate.is_closed());
        drop(inside);
        assert!((&mut closing).now_or_never().is_none());
        drop(also_inside);
        closing.await;
        gate.close().await;
    });
}
