//! Masks hide values from roles without UNMASK on paths that the recorded scripts do not take:
//! prepared reads of one row, conditions on keys, write times of elements, and views that such a
//! role has created.

use std::sync::Arc;

use bytes::Bytes;
use espalier_cql::{ClientState, Now, QueryOptions, QueryProcessor, Value, Values};
use espalier_runtime::block_on;

use super::auth_scripts::{SUPERUSER, log_in, open};
use super::scripts::show_answer;

/// Opens a node with table `k.t` and with role `plain`, which may read and write the table. Returns
/// the clients of the superuser and of `plain`.
async fn node(columns: &str) -> (QueryProcessor, ClientState, ClientState) {
    let processor = open().await;
    let mut root = log_in(&processor, SUPERUSER).await;
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
        format!("CREATE TABLE k.t ({columns})").as_str(),
        "CREATE ROLE plain WITH PASSWORD = 'plain' AND LOGIN = true",
        "GRANT SELECT ON k.t TO plain",
        "GRANT MODIFY ON k.t TO plain",
    ] {
        ask(&processor, &mut root, statement).await;
    }
    let plain = log_in(&processor, "plain").await;
    (processor, root, plain)
}

/// Executes a statement, and returns its answer as the scripts show it.
async fn ask(processor: &QueryProcessor, client: &mut ClientState, statement: &str) -> String {
    let answer = processor.query(statement, client, &QueryOptions::default()).await;
    show_answer(answer)
}

/// Executes a prepared read of row 1 as a connection does. Returns true if `execute_now` has
/// returned the row, and the answer.
async fn read(processor: &QueryProcessor, client: &ClientState, id: &[u8]) -> (bool, String) {
    let prepared = processor.prepared(id).await.unwrap();
    let values = [Value::Bytes(Bytes::copy_from_slice(&1_i32.to_be_bytes()))];
    let options = QueryOptions { values: Values::Positional(&values), ..QueryOptions::default() };
    let mut row = Vec::new();
    match processor.execute_now(&prepared, client, &options, &mut row) {
        Now::Row { found } => {
            assert!(found);
            (true, format!("{row:?}"))
        }
        Now::MustWait => {
            let answer = processor.execute(&prepared, client, &options).await;
            (false, show_answer(answer))
        }
        Now::Done(answer) => (false, show_answer(answer)),
        Now::AfterSync(..) => panic!("a read that writes"),
    }
}

#[test]
fn prepared_reads_of_one_row_show_masks_also_when_the_mask_is_newer() {
    block_on(async {
        let (processor, mut root, mut plain) = node("k int PRIMARY KEY, v int").await;
        ask(&processor, &mut root, "INSERT INTO k.t (k, v) VALUES (1, 5)").await;
        let prepared = processor.prepare("SELECT v FROM k.t WHERE k = ?", &plain).unwrap();
        let id = prepared.id;
        // The node reads the roles again at the first statement.
        ask(&processor, &mut plain, "SELECT v FROM k.t WHERE k = 1").await;
        let unmasked = read(&processor, &plain, &id).await;
        assert_eq!(unmasked, (true, "[0, 0, 0, 4, 0, 0, 0, 5]".to_owned()));
        ask(&processor, &mut root, "ALTER TABLE k.t ALTER v MASKED WITH mask_replace(9)").await;
        let masked = (false, "v\n9\n".to_owned());
        assert_eq!(read(&processor, &plain, &id).await, masked);
        // The mask also holds after another preparation, and after the superuser has executed the
        // statement.
        let again = processor.prepare("SELECT v FROM k.t WHERE k = ?", &plain).unwrap();
        assert!(!Arc::ptr_eq(&prepared, &again));
        assert_eq!(read(&processor, &root, &id).await.1, "v\n5\n");
        assert_eq!(read(&processor, &plain, &id).await, masked);
        ask(&processor, &mut root, "GRANT UNMASK ON k.t TO plain").await;
        assert_eq!(read(&processor, &plain, &id).await.1, "v\n5\n");
        ask(&processor, &mut root, "REVOKE UNMASK ON k.t FROM plain").await;
        assert_eq!(read(&processor, &plain, &id).await, masked);
    });
}

#[test]
fn conditions_do_not_probe_masked_keys() {
    block_on(async {
        let columns = "k int MASKED WITH DEFAULT, v int, PRIMARY KEY (k)";
        let (processor, mut root, mut plain) = node(columns).await;
        let refused = "Unauthorized: User plain has no UNMASK nor SELECT_MASKED permission on \
                       table k.t, cannot query masked columns [k]\n";
        let conditional = [
            "UPDATE k.t SET v = 1 WHERE k = 1 IF EXISTS",
            "UPDATE k.t SET v = 1 WHERE k = 1 IF v = 2",
            "DELETE FROM k.t WHERE k = 1 IF EXISTS",
            "INSERT INTO k.t (k) VALUES (1) IF NOT EXISTS",
            "BEGIN BATCH INSERT INTO k.t (k) VALUES (1) IF NOT EXISTS; APPLY BATCH",
        ];
        for statement in conditional {
            assert_eq!(ask(&processor, &mut plain, statement).await, refused, "{statement}");
        }
        assert_eq!(ask(&processor, &mut plain, "INSERT INTO k.t (k) VALUES (1)").await, "ok\n");
        ask(&processor, &mut root, "GRANT SELECT_MASKED ON k.t TO plain").await;
        for statement in conditional {
            let answer = ask(&processor, &mut plain, statement).await;
            assert!(answer.starts_with("[applied]"), "{statement}: {answer}");
        }
    });
}

#[test]
fn write_times_do_not_show_the_elements_of_masked_columns() {
    block_on(async {
        let columns = "k int PRIMARY KEY, v int MASKED WITH DEFAULT, \
                       m map<text, int> MASKED WITH DEFAULT, \
                       f frozen<map<text, int>> MASKED WITH DEFAULT, o map<text, int>";
        let (processor, mut root, mut plain) = node(columns).await;
        let insert = "INSERT INTO k.t (k, v, m, f, o) VALUES (1, 1, {'a': 1}, {'a': 1}, \
                      {'a': 1}) USING TIMESTAMP 7";
        ask(&processor, &mut root, insert).await;
        let select = "SELECT writetime(v) AS a, writetime(f) AS b, writetime(o['a']) AS c, \
                      writetime(m['a']) AS d, writetime(m) AS e, maxwritetime(m) AS f, \
                      writetime(f['a']) AS g, max(writetime(m['a'])) AS h FROM k.t WHERE k = 1";
        let columns = "a | b | c | d | e | f | g | h\n";
        assert_eq!(
            ask(&processor, &mut plain, select).await,
            format!("{columns}7 | 7 | 7 | null | null | null | null | null\n")
        );
        assert_eq!(
            ask(&processor, &mut root, select).await,
            format!("{columns}7 | 7 | 7 | 7 | [7] | 7 | 7 | 7\n")
        );
    });
}

#[test]
fn the_creator_of_a_view_sees_the_masks_of_the_base_table() {
    block_on(async {
        let columns = "k int PRIMARY KEY, v int MASKED WITH mask_replace(9), w int";
        let (processor, mut root, mut plain) = node(columns).await;
        ask(&processor, &mut root, "GRANT ALTER ON k.t TO plain").await;
        let create = "CREATE MATERIALIZED VIEW k.own AS SELECT * FROM k.t WHERE k IS NOT NULL \
                      AND w IS NOT NULL PRIMARY KEY (w, k)";
        let created = ask(&processor, &mut plain, create).await;
        assert!(created.starts_with("created"), "{created}");
        ask(&processor, &mut root, "INSERT INTO k.t (k, v, w) VALUES (1, 5, 6)").await;
        let select = "SELECT v FROM k.own WHERE w = 6";
        let query = "SELECT v FROM k.own WHERE w = 6 AND v = 5 ALLOW FILTERING";
        let refused = "Unauthorized: User plain has no UNMASK nor SELECT_MASKED permission on \
                       table k.t, cannot query masked columns [v]\n";
        assert_eq!(ask(&processor, &mut plain, select).await, "v\n9\n");
        assert_eq!(ask(&processor, &mut plain, query).await, refused);
        ask(&processor, &mut root, "GRANT UNMASK ON k.t TO plain").await;
        assert_eq!(ask(&processor, &mut plain, select).await, "v\n5\n");
        assert_eq!(ask(&processor, &mut plain, query).await, "v\n5\n");
    });
}
