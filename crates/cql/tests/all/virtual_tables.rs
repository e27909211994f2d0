//! Virtual tables on the paths by which a connection executes statements: prepared, without waiting
//! if possible, and page by page.

use std::sync::Arc;

use bytes::Bytes;
use espalier_cql::{
    ClientState, Now, Prepared, PreparedCache, QueryOptions, QueryProcessor, QueryResult, Result,
    Rows, Value, Values,
};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};

async fn processor() -> QueryProcessor {
    let shared = SharedStorage::new();
    let settings = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")];
    let settings = settings.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    shared.set_settings(settings.to_vec());
    let configuration = Arc::new(StorageConfiguration::new("node"));
    let context = ShardContext { index: 0, count: 1 };
    let opened = Node::open(context, FileSystem::simulated(1), configuration, shared);
    QueryProcessor::new(opened.await.unwrap(), Arc::new(PreparedCache::default()))
}

fn prepare(processor: &QueryProcessor, text: &str) -> Arc<Prepared> {
    processor.prepare(text, &ClientState::default()).unwrap()
}

fn text(value: &'static str) -> Value {
    Value::Bytes(Bytes::from_static(value.as_bytes()))
}

/// Executes the statement as a connection does: without waiting if possible, otherwise with waits.
async fn execute(
    processor: &QueryProcessor,
    prepared: &Arc<Prepared>,
    options: &QueryOptions<'_>,
) -> Result<QueryResult> {
    let client = ClientState::default();
    match processor.execute_now(prepared, &client, options, &mut Vec::new()) {
        Now::MustWait => processor.execute(prepared, &client, options).await,
        Now::Done(outcome) => outcome,
        Now::Row { .. } | Now::AfterSync(..) => {
            panic!("a virtual table has no cached rows and no writes")
        }
    }
}

async fn rows(
    processor: &QueryProcessor,
    prepared: &Arc<Prepared>,
    options: &QueryOptions<'_>,
) -> Rows {
    match execute(processor, prepared, options).await.unwrap() {
        QueryResult::Rows(rows) => rows,
        other => panic!("{other:?}"),
    }
}

/// Returns the values of rows of text.
fn values(rows: &Rows) -> Vec<String> {
    let (mut rest, mut found) = (rows.content.as_slice(), Vec::new());
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let (value, tail) = tail.split_at(i32::from_be_bytes(*length) as usize);
        found.push(String::from_utf8(value.to_vec()).unwrap());
        rest = tail;
    }
    found
}

#[test]
fn a_row_by_its_key_is_read_like_any_other() {
    block_on(async {
        let processor = processor().await;
        let select =
            prepare(&processor, "SELECT name, value FROM system_views.settings WHERE name = ?");
        for (name, expected) in [("b", vec!["b", "2"]), ("nothing", vec![])] {
            let bound = [text(name)];
            let options =
                QueryOptions { values: Values::Positional(&bound), ..QueryOptions::default() };
            assert!(!processor.can_look_ahead(&select));
            processor.look_ahead(&[(&select, options.values), (&select, options.values)]);
            assert_eq!(values(&rows(&processor, &select, &options).await), expected);
        }
        // The token decides which core a driver asks. Each core must give the answer.
        let many = "SELECT value FROM system_views.settings WHERE name IN ('e', 'a', 'nothing')";
        let many = rows(&processor, &prepare(&processor, many), &QueryOptions::default()).await;
        let mut many = values(&many);
        many.sort();
        assert_eq!(many, ["1", "5"]);
    });
}

#[test]
fn pages_follow_one_another() {
    block_on(async {
        let processor = processor().await;
        for statement in [
            "SELECT name FROM system_views.settings",
            "SELECT name FROM system_views.settings WHERE value IN ('1', '2', '3', '4', '5')",
            "SELECT table_name FROM system_virtual_schema.columns WHERE keyspace_name = 'system_views'",
        ] {
            let select = prepare(&processor, statement);
            let all = values(&rows(&processor, &select, &QueryOptions::default()).await);
            assert!(all.len() >= 5, "{statement}");
            let (mut paged, mut state) = (Vec::new(), None::<Bytes>);
            loop {
                let options = QueryOptions {
                    page_size: Some(2),
                    paging_state: state.as_deref(),
                    ..QueryOptions::default()
                };
                let page = rows(&processor, &select, &options).await;
                assert!(page.row_count <= 2);
                paged.extend(values(&page));
                state = page.paging_state;
                if state.is_none() {
                    break;
                }
            }
            assert_eq!(paged, all, "{statement}");
        }
    });
}

#[test]
fn prepared_writes_are_refused_when_they_are_executed() {
    block_on(async {
        let processor = processor().await;
        let insert = "INSERT INTO system_views.settings (name, value) VALUES (?, ?)";
        let insert = prepare(&processor, insert);
        let bound = [text("a"), text("b")];
        let options =
            QueryOptions { values: Values::Positional(&bound), ..QueryOptions::default() };
        processor.look_ahead(&[(&insert, options.values)]);
        let refused = execute(&processor, &insert, &options).await.unwrap_err();
        assert_eq!(refused.message, "Modification is not supported by table system_views.settings");
        let truncate = prepare(&processor, "TRUNCATE system_views.settings");
        let refused = execute(&processor, &truncate, &QueryOptions::default()).await.unwrap_err();
        assert_eq!(refused.message, "Truncation is not supported by table system_views.settings");
        let select =
            prepare(&processor, "SELECT value FROM system_views.settings WHERE name = 'a'");
        let kept = rows(&processor, &select, &QueryOptions::default()).await;
        assert_eq!(values(&kept), ["1"]);
    });
}
