//! A page of many rows is put together in steps: what is done with the rows after storage has given them gives way, too.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use espalier_cql::{ClientState, PreparedCache, QueryOptions, QueryProcessor, QueryResult, Rows};
use espalier_mutation::{ClusteringSlices, DecoratedKey, Direction};
use espalier_runtime::{
    ShardContext, block_on,
    file::FileSystem,
    preempt::{force_yields, stall_report},
};
use espalier_storage::{
    ColumnSelection, Database, ReadCommand, ReadLimits, ReadTarget, SharedDatabase,
    StorageConfiguration,
};

const ROWS: u64 = 4000;

struct Node {
    processor: QueryProcessor,
    client: ClientState,
}

impl Node {
    async fn open() -> Self {
        let configuration = Arc::new(StorageConfiguration::new("node"));
        let context = ShardContext { index: 0, count: 1 };
        let files = FileSystem::simulated(1);
        let database = Database::open(context, files, configuration, SharedDatabase::new());
        let database = database.await.unwrap();
        let processor = QueryProcessor::new(database, Arc::new(PreparedCache::default()));
        let mut node = Self { processor, client: ClientState::default() };
        node.run(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )
        .await;
        node.run("CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))").await;
        node
    }

    async fn run(&mut self, text: &str) -> QueryResult {
        self.processor.query(text, &mut self.client, &QueryOptions::default()).await.unwrap()
    }

    async fn rows(&mut self, text: &str) -> Rows {
        match self.run(text).await {
            QueryResult::Rows(rows) => rows,
            other => panic!("{other:?}"),
        }
    }

    /// What storage alone does for a SELECT of the partition.
    async fn read(&self) -> usize {
        let database = self.processor.database();
        let command = ReadCommand {
            table: database.schema().table("ks", "t").unwrap().clone(),
            target: ReadTarget::Partition(DecoratedKey::new(vec![0, 0, 0, 1].into())),
            slices: Arc::new(ClusteringSlices::all()),
            direction: Direction::Forward,
            columns: ColumnSelection::All,
            now_s: 1_700_000_000,
            limits: ReadLimits::NONE,
            resume: None,
            bypass_cache: false,
        };
        database.read(command).await.unwrap().partitions[0].rows.len()
    }
}

#[test]
fn rows_of_a_page_are_emitted_in_steps() {
    block_on(async {
        let mut node = Node::open().await;
        for row in 0..ROWS {
            node.run(&format!("INSERT INTO ks.t (k, c, v) VALUES (1, {row}, 'value')")).await;
        }
        // Whoever asks whether to give way is told so once in four times.
        force_yields(Some(1));
        let before = stall_report().tasks_polled;
        assert_eq!(node.read().await, ROWS as usize);
        let of_storage = stall_report().tasks_polled - before;
        for (text, count) in [
            ("SELECT v FROM ks.t WHERE k = 1", ROWS),
            ("SELECT count(*) FROM ks.t WHERE k = 1", 1),
            ("SELECT v FROM ks.t WHERE k IN (1, 2) ORDER BY c DESC", ROWS),
        ] {
            let before = stall_report().tasks_polled;
            assert_eq!(node.rows(text).await.row_count as u64, count, "{text}");
            let polls = stall_report().tasks_polled - before;
            assert!(polls > of_storage + ROWS / 8, "{text}: {polls}, storage alone {of_storage}");
        }
        force_yields(None);
    });
}
