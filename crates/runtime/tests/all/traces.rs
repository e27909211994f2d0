//! Tests that a trace follows its request to other shards and returns with the events recorded
//! there.

use espalier_runtime::sync::oneshot::oneshot;
use espalier_runtime::trace::{self, Trace, traced};
use espalier_runtime::{
    ShardOptions, run_to_completion, spawn_local, start_shards, submit_to, time::sleep, trace_event,
};
use std::time::Duration;

fn on_first_of_three<F: Future<Output = ()> + 'static>(work: fn() -> F) {
    let options = ShardOptions { count: 3, ..ShardOptions::default() };
    let started = start_shards(&options, move |context| async move {
        if context.index == 0 {
            work().await;
        }
    });
    started.unwrap().join().unwrap();
}

async fn hop() -> u32 {
    trace_event!("before");
    let answer = submit_to(1, || async {
        trace_event!("first hop");
        sleep(Duration::from_millis(2)).await;
        submit_to(2, || async {
            trace_event!("second hop");
            trace::count("hops", 1);
        })
        .await;
        trace_event!("back on the first");
        7
    })
    .await;
    trace_event!("after");
    answer
}

#[test]
fn events_of_other_shards_come_back_in_order() {
    on_first_of_three(|| async {
        let trace = Trace::new(None);
        assert_eq!(traced(Some(trace.clone()), hop()).await, 7);
        assert_eq!(trace.enter(|| trace::take_count("hops")), 1);
        let log = trace.take_log();
        let events = log.events();
        let reported: Vec<_> = events.iter().map(|event| (event.shard, event.text)).collect();
        let expected = [
            (0, "before"),
            (0, "Sending a message to shard 1"),
            (1, "Message of another shard received"),
            (1, "first hop"),
            (1, "Sending a message to shard 2"),
            (2, "Message of another shard received"),
            (2, "second hop"),
            (1, "Answer of shard 2 received"),
            (1, "back on the first"),
            (0, "Answer of shard 1 received"),
            (0, "after"),
        ];
        assert_eq!(reported, expected);
        assert!(events.is_sorted_by_key(|event| event.elapsed_us));
        assert!(events[6].elapsed_us >= 2000);
    });
}

#[test]
fn other_requests_on_the_way_are_not_traced() {
    on_first_of_three(|| async {
        let trace = Trace::new(None);
        let other = spawn_local(async {
            for _ in 0..20 {
                submit_to(1, || async { assert!(!trace::is_on()) }).await;
                assert!(!trace::is_on());
            }
        });
        for _ in 0..20 {
            traced(Some(trace.clone()), hop()).await;
            assert!(!trace::is_on());
        }
        other.await;
        assert_eq!(trace.take_log().events().len(), 20 * 11);
    });
}

#[test]
fn an_error_of_a_traced_call_is_the_same_as_without() {
    let options = ShardOptions { count: 2, ..ShardOptions::default() };
    let started = start_shards(&options, |context| async move {
        if context.index == 0 {
            traced(Some(Trace::new(None)), submit_to(1, || async { panic!("on purpose") })).await
        }
    });
    assert_eq!(started.unwrap().join().unwrap_err().to_string(), "shard 0 panicked: on purpose");
}

#[test]
fn calls_on_the_same_shard_are_no_messages() {
    on_first_of_three(|| async {
        let trace = Trace::new(None);
        let here = submit_to(0, || async { trace_event!("here") });
        traced(Some(trace.clone()), here).await;
        let log = trace.take_log();
        assert_eq!(log.events().iter().map(|event| event.text).collect::<Vec<_>>(), ["here"]);
    });
}

#[test]
fn work_runs_to_completion_without_its_caller_and_in_its_trace() {
    on_first_of_three(|| async {
        let trace = Trace::new(None);
        let (sender, done) = oneshot();
        let work = || async move {
            trace_event!("begun");
            sleep(Duration::from_millis(2)).await;
            trace_event!("ended");
            sender.send(7).unwrap();
        };
        drop(trace.enter(|| run_to_completion(work())));
        assert_eq!(done.await, Ok(7));
        let log = trace.take_log();
        let events = log.events();
        let texts: Vec<_> = events.iter().map(|event| event.text).collect();
        assert_eq!(texts, ["begun", "ended"]);
        assert_eq!(run_to_completion(async { 8 }).await, Some(8));
    });
}
