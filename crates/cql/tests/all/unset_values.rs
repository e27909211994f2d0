//! Unset values, and nulls inside tuples: a statement takes or refuses them as in Cassandra, with
//! the same text.

use espalier_cql::{Value, Values};
use espalier_runtime::block_on;

use crate::hostile_values::TestNode;

/// Returns the error of a statement whose only marker is unset.
async fn refusal_of_unset(node: &mut TestNode, text: &str) -> String {
    let values = [Value::Unset];
    match node.query(text, Values::Positional(&values)).await {
        Ok(_) => format!("{text}: accepted"),
        Err(error) => error.message,
    }
}

#[test]
fn an_unset_index_or_element_deletes_nothing() {
    block_on(async {
        let mut node = TestNode::new().await;
        for text in [
            "INSERT INTO t (k, s, l) VALUES (1, {1}, [1])",
            "CREATE TABLE texts (k int PRIMARY KEY, s set<text>)",
            "INSERT INTO texts (k, s) VALUES (1, {'', 'a'})",
        ] {
            node.query(text, Values::NONE).await.unwrap();
        }
        let selects = ["SELECT s, l FROM t WHERE k = 1", "SELECT s FROM texts WHERE k = 1"];
        let before = [node.row(selects[0]).await, node.row(selects[1]).await];
        let unset = [Value::Unset];
        for text in [
            "DELETE l[?] FROM t WHERE k = 1",
            "DELETE s[?] FROM t WHERE k = 1",
            "DELETE l[?] FROM t WHERE k = 2",
            // Cassandra writes a tombstone for the empty text here; this node writes nothing.
            "DELETE s[?] FROM texts WHERE k = 1",
        ] {
            node.query(text, Values::Positional(&unset)).await.unwrap();
        }
        assert_eq!([node.row(selects[0]).await, node.row(selects[1]).await], before);
        let refusal = refusal_of_unset(&mut node, "UPDATE t SET l[?] = 2 WHERE k = 1").await;
        assert_eq!(refusal, "Invalid unset value for list index");
    });
}

#[test]
fn an_unset_key_of_a_map_is_refused() {
    block_on(async {
        let mut node = TestNode::new().await;
        node.insert_map(1).await;
        for text in ["DELETE m[?] FROM m WHERE k = 1", "UPDATE m SET m[?] = 2 WHERE k = 1"] {
            assert_eq!(refusal_of_unset(&mut node, text).await, "Invalid unset map key");
        }
    });
}

#[test]
fn an_unset_part_or_argument_is_named() {
    block_on(async {
        let mut node = TestNode::new().await;
        for text in [
            "CREATE TYPE p (x int, y int)",
            "CREATE TABLE parts (k int PRIMARY KEY, u frozen<p>, t tuple<int, text, double>)",
            "CREATE TABLE wide (k int, b int, c int, PRIMARY KEY (k, b, c))",
            "CREATE TABLE times (k int, at timestamp, PRIMARY KEY (k, at))",
            "INSERT INTO times (k, at) VALUES (0, 0)",
        ] {
            node.query(text, Values::NONE).await.unwrap();
        }
        for (text, refusal) in [
            ("INSERT INTO parts (k, t) VALUES (0, (3, ?, 2.1))", "tuple field number 1"),
            ("SELECT * FROM wide WHERE k = 0 AND (b, c) = (?, 1)", "tuple field number 0"),
            ("SELECT * FROM wide WHERE k = 0 AND (b, c) > (1, ?)", "tuple field number 1"),
            (
                "INSERT INTO parts (k, u) VALUES (0, {x: 1, y: ?})",
                "field 'y' of user defined type p",
            ),
            (
                "SELECT * FROM parts WHERE k = blob_as_int(?)",
                "argument in call to function blob_as_int",
            ),
            ("SELECT floor(at, ?) FROM times", "argument in call to function floor"),
            ("SELECT k FROM times GROUP BY k, floor(at, ?)", "argument in call to function floor"),
            ("SELECT * FROM parts WHERE k = ?", "column k"),
        ] {
            let refusal = format!("Invalid unset value for {refusal}");
            assert_eq!(refusal_of_unset(&mut node, text).await, refusal, "{text}");
        }
    });
}

#[test]
fn an_unset_value_of_a_filter_is_unsupported() {
    block_on(async {
        let mut node = TestNode::new().await;
        node.insert_map(1).await;
        let index = "CREATE TABLE indexed (k int PRIMARY KEY, v int)";
        for text in [index, "CREATE INDEX ON indexed (v)"] {
            node.query(text, Values::NONE).await.unwrap();
        }
        for (text, refusal) in [
            ("SELECT * FROM m WHERE v = ? ALLOW FILTERING", "value for column v"),
            ("SELECT * FROM m WHERE v > ? ALLOW FILTERING", "value for column v"),
            ("SELECT * FROM m WHERE v IN (?) ALLOW FILTERING", "value for column v"),
            ("SELECT * FROM m WHERE m CONTAINS ? ALLOW FILTERING", "value for column m"),
            ("SELECT * FROM m WHERE m[?] = 1 ALLOW FILTERING", "map key for column m"),
            ("SELECT * FROM m WHERE m[1] = ? ALLOW FILTERING", "map value for column m"),
            ("SELECT * FROM indexed WHERE v = ?", "value for column v"),
        ] {
            let refusal = format!("Unsupported unset {refusal}");
            assert_eq!(refusal_of_unset(&mut node, text).await, refusal, "{text}");
        }
    });
}

#[test]
fn a_null_in_a_tuple_names_its_column() {
    block_on(async {
        let mut node = TestNode::new().await;
        let table = "CREATE TABLE wide (k int, b int, c int, d int, PRIMARY KEY (k, b, c, d))";
        node.query(table, Values::NONE).await.unwrap();
        for (condition, refusal) in [
            ("= (1, 2, null)", "value for column d"),
            ("= (1, ?, 3)", "value for column c"),
            ("IN ((1, 2, null))", "value for column d"),
            ("IN ((1, 2, null), (2, 1, 4))", "value in condition for columns: [b, c, d]"),
            ("> (1, null, 3)", "value in condition for column c"),
            ("<= (?, 1, 3)", "value in condition for column b"),
        ] {
            let text = format!("SELECT * FROM wide WHERE k = 0 AND (b, c, d) {condition}");
            let null = [Value::Null];
            let values = if text.contains('?') { &null[..] } else { &[] };
            let answer = node.query(&text, Values::Positional(values)).await;
            assert_eq!(answer.unwrap_err().message, format!("Invalid null {refusal}"), "{text}");
        }
    });
}
