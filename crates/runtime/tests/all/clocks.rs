//! Tests that clocks run, stand still, and move when a test moves them.

use espalier_runtime::cpu::thread_time;
use espalier_runtime::time::{
    Instant, ManualClock, interval, next_timestamp_micros, now_micros, now_seconds, sleep,
    sleep_until, timeout,
};
use espalier_runtime::{SchedulingGroup, block_on, spawn_local, yield_now};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn timestamps_grow_and_clocks_never_go_back() {
    let (mut last, mut wall) = (next_timestamp_micros(), now_micros());
    for _ in 0..100_000 {
        let next = next_timestamp_micros();
        assert!(next > last);
        last = next;
        let now = now_micros();
        assert!(now >= wall);
        wall = now;
    }
    let (before, seconds, after) = (now_micros(), now_seconds(), now_micros());
    assert!((before / 1_000_000..=after / 1_000_000).contains(&seconds));
    assert!(seconds > 1_700_000_000);
}

#[test]
fn sleeping_takes_its_time() {
    block_on(async {
        let before = Instant::now();
        sleep(Duration::from_millis(10)).await;
        assert!(before.elapsed() >= Duration::from_millis(10));
        assert!(Instant::coarse().elapsed() < SECOND);
        assert!(timeout(Duration::from_millis(5), sleep(SECOND)).await.is_err());
        assert_eq!(timeout(SECOND, async { 3 }).await, Ok(3));
    });
}

#[test]
fn a_clock_stands_still_while_a_statement_that_a_group_woke_is_ready() {
    let _installed = ManualClock::new(0).moving_when_idle().install();
    block_on(async {
        let _timer = spawn_local(sleep(3600 * SECOND));
        let waiting = spawn_local(async {
            let long_poll = async {
                let from = thread_time();
                while thread_time() - from < Duration::from_micros(300) {}
            };
            SchedulingGroup::Compaction.spawn(long_poll).await;
            now_seconds()
        });
        assert_eq!(waiting.await, 0);
    });
}

#[test]
fn an_interval_skips_the_ticks_that_it_missed() {
    let _installed = ManualClock::new(0).moving_when_idle().install();
    block_on(async {
        let mut ticks = interval(Duration::from_millis(2));
        let first = ticks.tick().await;
        assert_eq!(ticks.tick().await - first, Duration::from_millis(2));
        sleep(Duration::from_millis(9)).await;
        let late = ticks.tick().await;
        assert_eq!(late - first, Duration::from_millis(4));
        assert_eq!(ticks.tick().await - late, Duration::from_millis(8));
    });
}

#[test]
fn timers_fire_in_order() {
    block_on(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        // All timers are set within this second, even if other processes have the core for most of
        // it.
        let begin = Instant::now() + SECOND;
        let sleepers: Vec<_> = [7u64, 1, 5, 3]
            .into_iter()
            .map(|wait| {
                let order = Rc::clone(&order);
                spawn_local(async move {
                    sleep_until(begin + Duration::from_millis(wait * 4)).await;
                    order.borrow_mut().push(wait);
                })
            })
            .collect();
        for sleeper in sleepers {
            sleeper.await;
        }
        assert_eq!(*order.borrow(), [1, 3, 5, 7]);
    });
}

#[test]
fn a_manual_clock_moves_only_when_it_is_advanced() {
    let clock = ManualClock::new(5_000_000);
    let _installed = clock.install();
    block_on(async {
        assert_eq!((now_micros(), now_seconds()), (5_000_000, 5));
        assert_eq!(next_timestamp_micros() + 1, next_timestamp_micros());
        let sleeper = spawn_local(async {
            sleep(10 * SECOND).await;
            now_seconds()
        });
        yield_now().await;
        clock.advance(9 * SECOND);
        yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(SECOND);
        assert_eq!(sleeper.await, 15);
    });
}

#[test]
fn an_idle_manual_clock_jumps_to_the_next_timer() {
    let _installed = ManualClock::new(0).moving_when_idle().install();
    let began = std::time::Duration::from_micros(now_micros() as u64);
    block_on(async {
        let year = spawn_local(async {
            sleep(365 * 24 * 3600 * SECOND).await;
            now_seconds()
        });
        assert!(timeout(SECOND, std::future::pending::<()>()).await.is_err());
        assert_eq!(now_seconds(), 1);
        assert_eq!(year.await, 365 * 24 * 3600);
    });
    assert_eq!(began, Duration::ZERO);
}
