//! Prepared statements whose tables have changed since.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll};

use espalier_cql::{ClientState, QueryProcessor};
use espalier_runtime::{
    block_on,
    file::FileSystem,
    trace::{Trace, traced},
};

use crate::support::node::{execute, open_with_keyspace};

const CREATE: &str = "CREATE TABLE ks.t (k int PRIMARY KEY, v int)";
const DROP: &str = "DROP TABLE ks.t";

async fn change(processor: &QueryProcessor, statement: &str) {
    execute(processor, statement).await.unwrap();
}

/// A look-up removes a statement that no longer fits, so that later EXECUTEs do not plan its text.
#[test]
fn a_statement_that_no_longer_fits_the_schema_becomes_unknown() {
    block_on(async {
        let (_database, processor) = open_with_keyspace(&FileSystem::simulated(1), &[CREATE]).await;
        let (client, text) = (ClientState::default(), "SELECT v FROM ks.t WHERE k = ?");
        let id = processor.prepare(text, &client).unwrap().id;
        change(&processor, DROP).await;
        assert!(processor.known(&id).is_some());
        assert!(processor.prepared(&id).await.is_none());
        assert!(processor.known(&id).is_none(), "a cache still has the statement");
        assert!(processor.prepare(text, &client).is_err());
        change(&processor, CREATE).await;
        assert!(processor.prepared(&id).await.is_none());
        assert_eq!(processor.prepare(text, &client).unwrap().id, id);
        assert!(processor.prepared(&id).await.is_some());
        // Without a look-up in between, the statement stays prepared.
        change(&processor, DROP).await;
        change(&processor, CREATE).await;
        assert!(processor.prepared(&id).await.is_some());
    });
}

#[test]
fn a_second_preparation_keeps_that_the_columns_have_changed() {
    block_on(async {
        let (_database, processor) = open_with_keyspace(&FileSystem::simulated(1), &[CREATE]).await;
        let (client, text) = (ClientState::default(), "SELECT * FROM ks.t");
        assert!(!processor.prepare(text, &client).unwrap().result_changed);
        for alteration in ["ALTER TABLE ks.t ADD a int", "ALTER TABLE ks.t WITH comment = 'c'"] {
            change(&processor, alteration).await;
            assert!(processor.prepare(text, &client).unwrap().result_changed, "{alteration}");
        }
    });
}

/// Returns a text that a helper thread plans.
fn long_batch(statements: usize) -> String {
    let deletes = "DELETE FROM ks.t WHERE k = 1; ".repeat(statements);
    format!("BEGIN UNLOGGED BATCH {deletes} APPLY BATCH")
}

#[test]
fn a_long_stale_statement_is_planned_apart() {
    block_on(async {
        let (_database, processor) = open_with_keyspace(&FileSystem::simulated(1), &[CREATE]).await;
        let stale = processor.prepare(&long_batch(3000), &ClientState::default()).unwrap();
        change(&processor, "ALTER TABLE ks.t ADD a int").await;
        let mut found = pin!(processor.prepared(&stale.id));
        let mut other = pin!(processor.prepared(&stale.id));
        let first = poll_fn(|context| Poll::Ready(found.as_mut().poll(context))).await;
        assert!(first.is_pending(), "the shard plans the text itself");
        let second = poll_fn(|context| Poll::Ready(other.as_mut().poll(context))).await;
        assert!(second.is_pending());
        let found = found.await.unwrap();
        assert!(!Arc::ptr_eq(&stale, &found));
        assert!(Arc::ptr_eq(&found, &other.await.unwrap()), "the text was planned twice");
    });
}

#[test]
fn a_trace_says_that_a_long_stale_statement_is_planned() {
    block_on(async {
        let (_database, processor) = open_with_keyspace(&FileSystem::simulated(1), &[CREATE]).await;
        let stale = processor.prepare(&long_batch(3000), &ClientState::default()).unwrap();
        change(&processor, "ALTER TABLE ks.t ADD a int").await;
        let trace = Trace::new(None);
        let planned = traced(Some(trace.clone()), processor.prepared(&stale.id)).await;
        assert!(planned.is_some());
        let log = trace.take_log();
        let events: Vec<_> = log.events().into_iter().map(|event| event.text).collect();
        let expected = "The schema has changed: the statement must be prepared again";
        assert!(events.contains(&expected), "{events:?}");
        let missed = "Prepared statement not found in the cache of this shard";
        assert_eq!(events.iter().filter(|event| **event == missed).count(), 1, "{events:?}");
    });
}

/// The schema changes while a look-up waits until another long text is planned.
#[test]
fn a_look_up_of_an_older_schema_leaves_a_newer_plan() {
    block_on(async {
        let (_database, processor) = open_with_keyspace(&FileSystem::simulated(1), &[CREATE]).await;
        let (client, text, other) = (ClientState::default(), long_batch(3000), long_batch(3001));
        let additions = ["ALTER TABLE ks.t ADD a int", "ALTER TABLE ks.t ADD b int"];
        for changes in [additions, [DROP, CREATE]] {
            let id = processor.prepare(&text, &client).unwrap().id;
            let other_id = processor.prepare(&other, &client).unwrap().id;
            change(&processor, changes[0]).await;
            let mut before = pin!(processor.prepared(&other_id));
            let mut late = pin!(processor.prepared(&id));
            for look_up in [&mut before, &mut late] {
                let polled = poll_fn(|context| Poll::Ready(look_up.as_mut().poll(context))).await;
                assert!(polled.is_pending());
            }
            change(&processor, changes[1]).await;
            let newer = processor.prepare(&text, &client).unwrap();
            let (_, found) = (before.await, late.await);
            assert!(Arc::ptr_eq(&found.unwrap(), &newer), "{changes:?}");
            let kept = processor.planned(&id).expect("the newer plan");
            assert!(Arc::ptr_eq(&kept, &newer), "{changes:?}");
        }
    });
}
