use super::*;
use crate::{block_on, yield_now};

fn texts(trace: &Trace) -> Vec<String> {
    trace.take_log().events().iter().map(|event| event.text.to_string()).collect()
}

#[test]
fn events_go_to_the_trace_that_is_entered() {
    trace_event!("nobody asks for {}", 0);
    let (outer, inner) = (Trace::new(None), Trace::new(None));
    outer.enter(|| {
        trace_event!("one");
        inner.enter(|| trace_event!("of the inner"));
        trace_event!("two {}", 2);
    });
    assert!(!is_on());
    assert_eq!(texts(&outer), ["one", "two 2"]);
    assert_eq!(texts(&inner), ["of the inner"]);
}

#[test]
fn a_panic_leaves_the_trace() {
    let trace = Trace::new(None);
    let caught =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| trace.enter(|| panic!())));
    assert!(caught.is_err() && !is_on());
}

#[test]
fn futures_that_take_turns_keep_to_their_own() {
    let (left, right) = (Trace::new(None), Trace::new(None));
    let steps = |name: &'static str| async move {
        for step in 0..3 {
            trace_event!("{name} {step}");
            yield_now().await;
            assert!(is_on());
        }
    };
    block_on(async {
        let (left, right) = (Some(left.clone()), Some(right.clone()));
        let others = async {
            for _ in 0..3 {
                assert!(!is_on());
                yield_now().await;
            }
        };
        futures_util::join!(traced(left, steps("left")), others, traced(right, steps("right")));
    });
    assert_eq!(texts(&left), ["left 0", "left 1", "left 2"]);
    assert_eq!(texts(&right), ["right 0", "right 1", "right 2"]);
}

#[test]
fn events_and_text_beyond_the_trace_limits_are_counted() {
    let trace = Trace::new(None);
    trace.enter(|| (0..MAX_EVENTS + 7).for_each(|number| trace_event!("{number}")));
    let log = trace.take_log();
    assert_eq!((log.events().len(), log.left_out()), (MAX_EVENTS, 7));
    drop(trace);

    let trace = Trace::new(None);
    let long = "ä".repeat(10_000);
    trace.enter(|| (0..1000).for_each(|_| trace_event!("{long}")));
    let log = trace.take_log();
    assert!(log.left_out() > 800 && log.text_bytes() <= MAX_TEXT_BYTES + 4096);
    assert!(log.events().iter().all(|event| event.text.ends_with("ä…")));
}

#[test]
fn all_traces_of_a_shard_share_one_bound() {
    let traces: Vec<_> = (0..200).map(|_| Trace::new(None)).collect();
    let text = "x".repeat(1000);
    for trace in &traces {
        trace.enter(|| (0..200).for_each(|_| trace_event!("{text}")));
    }
    assert!(SHARD_BYTES.get() <= MAX_SHARD_BYTES);
    let bytes: usize = traces.iter().map(|trace| trace.0.log.borrow().memory_bytes()).sum();
    assert!(bytes <= MAX_SHARD_BYTES && bytes > MAX_SHARD_BYTES / 4, "{bytes}");
    assert!(traces.iter().any(|trace| trace.0.log.borrow().left_out() == 200));
    drop(traces);
    assert_eq!(SHARD_BYTES.get(), 0);
    let trace = Trace::new(None);
    trace.enter(|| trace_event!("room again"));
    assert_eq!(texts(&trace), ["room again"]);
}

#[test]
fn taking_a_sum_resets_it() {
    let trace = Trace::new(None);
    trace.enter(|| {
        count("rows", 2);
        count("cells", 1);
        count("rows", 3);
        assert_eq!((take_count("rows"), take_count("rows"), take_count("cells")), (5, 0, 1));
    });
}
