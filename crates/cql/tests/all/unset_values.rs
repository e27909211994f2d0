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
        node.query("INSERT INTO t (k, s, l) VALUES (1, {1}, [1])", Values::NONE).await.unwrap();
        let select = "SELECT s, l FROM t WHERE k = 1";
        let before = node.row(select).await;
        let unset = [Value::Unset];
        for text in [
            "DELETE l[?] FROM t WHERE k = 1",
            "DELETE s[?] FROM t WHERE k = 1",
            "DELETE l[?] FROM t WHERE k = 2",
        ] {
            node.query(text, Values::Positional(&unset)).await.unwrap();
        }
        assert_eq!(node.row(select).await, before);
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
