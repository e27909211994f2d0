//! TRUNCATE of a table with materialized views.

use std::time::Duration;

use bytes::Bytes;
use espalier_mutation::DecoratedKey;
use espalier_runtime::{file::FileSystem, time};
use espalier_storage::{StorageError, TurnRows};

use super::{
    support::{node::execute, shards::on_shards},
    view_builds::{CREATE_VIEW, KEYSPACE, ROWS, count, insert, wait_for_view},
};

#[test]
fn a_truncation_without_its_turns_in_time_removes_nothing() {
    on_shards(1, &FileSystem::simulated(1), |processor| async move {
        let create = "CREATE TABLE k.t (k int, c text, v text, PRIMARY KEY (k, c))";
        for statement in [KEYSPACE, create, CREATE_VIEW] {
            execute(&processor, statement).await.unwrap();
        }
        wait_for_view(&processor).await;
        insert(&processor, 0..ROWS).await;
        let database = processor.database();
        let base = database.store().schema().table("k", "t").unwrap().clone();
        let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
        let turn = database.store().turns().take(TurnRows::new(&base, key.borrowed())).await;
        let truncation = database.truncate_within(base.id, Duration::from_millis(10));
        let truncated = time::timeout(Duration::from_secs(60), truncation).await;
        let truncated = truncated.expect("the truncation waits for the turn without a limit");
        assert!(matches!(truncated, Err(StorageError::TruncationTimedOut(_))), "{truncated:?}");
        // The view is not built again.
        let status = database.view_builds().status_of("k", "v").await.unwrap();
        assert_eq!(status.as_deref(), Some("SUCCESS"));
        drop(turn);
        for table in ["t", "v"] {
            assert_eq!(count(&processor, table).await, ROWS, "{table}");
        }
        database.truncate(base.id).await.unwrap();
        for table in ["t", "v"] {
            assert_eq!(count(&processor, table).await, 0, "{table}");
        }
    });
}
