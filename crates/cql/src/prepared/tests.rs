//! Tests the limits of the caches of prepared statements.

use std::collections::BTreeMap;

use espalier_types::CqlType;
use uuid::Uuid;

use super::*;
use crate::{metadata::ColumnSpec, planner::plan};

fn statement(number: u128, text_bytes: usize) -> Arc<Prepared> {
    statement_of_columns(number, text_bytes, 0)
}

/// Returns a statement with this number of result columns, and as many bind markers.
fn statement_of_columns(number: u128, text_bytes: usize, columns: usize) -> Arc<Prepared> {
    let column = ColumnSpec {
        keyspace: "k".into(),
        table: "t".into(),
        name: "c".to_string(),
        column_type: CqlType::Int,
    };
    let columns = vec![column; columns];
    let bind = BindMetadata { columns: columns.clone(), ..BindMetadata::default() };
    Arc::new(Prepared {
        id: number.to_be_bytes(),
        text: " ".repeat(text_bytes),
        keyspace: None,
        bind,
        result: Arc::new(ResultMetadata::of_one_answer(columns)),
        result_changed: false,
        timeout: None,
        plan: Plan::Schema,
        parts: 0,
        schema: Weak::new(),
        tables: Vec::new(),
        depends_on_schema: false,
        needs: Vec::new(),
        changes_roles: false,
        passed: AtomicU64::new(0),
    })
}

fn has(statements: &BoundedStatements, number: u128) -> bool {
    statements.by_id.contains_key(&number.to_be_bytes())
}

#[test]
fn a_full_cache_evicts_the_oldest_statements_that_were_not_used() {
    let mut statements = BoundedStatements::default();
    let count = MAX_STATEMENTS as u128;
    for number in 0..count {
        statements.insert(statement(number, 1));
    }
    for used in [0, 2, 4] {
        assert!(statements.get(&u128::to_be_bytes(used)).is_some());
    }
    for number in count..count + 3 {
        let evicted = statements.insert(statement(number, 1));
        assert!(has(&statements, number), "a new statement is there");
        assert_eq!(evicted.len(), 1);
    }
    let gone: Vec<_> = (0..count + 3).filter(|&number| !has(&statements, number)).collect();
    assert_eq!(gone, [1, 3, 5]);
    assert_eq!(statements.by_id.len(), MAX_STATEMENTS);
    assert_eq!(statements.queue.len(), MAX_STATEMENTS);
}

#[test]
fn columns_are_bounded() {
    let mut statements = BoundedStatements::default();
    for number in 0..300 {
        statements.insert(statement_of_columns(number, 20, 500));
    }
    assert_eq!(statements.by_id.len(), MAX_COLUMNS / 1000);
    assert!(has(&statements, 299) && !has(&statements, 0));
    assert_eq!(statements.columns, MAX_COLUMNS);
    statements.insert(statement_of_columns(299, 20, 1));
    assert_eq!(statements.columns, MAX_COLUMNS - 998);
    // A statement that grows when it is planned again evicts others, too.
    statements.insert(statement_of_columns(299, 20, 1000));
    assert!(statements.columns <= MAX_COLUMNS && has(&statements, 299));
    assert!(!has(&statements, 100));
}

#[test]
fn the_cache_of_a_shard_has_a_part_of_the_columns() {
    for (shards, divisor) in [(1, 1), (4, 4), (64, 8)] {
        let mut statements = BoundedStatements::of_shard(shards);
        for number in 0..300 {
            statements.insert(statement_of_columns(number, 20, 500));
        }
        assert_eq!(statements.columns, MAX_COLUMNS / divisor);
    }
}

#[test]
fn a_statement_above_the_part_of_a_shard_evicts_no_others() {
    // The part of a single shard is as large as the cache of the process.
    for shards in [8, 1] {
        let mut statements = BoundedStatements::of_shard(shards);
        for number in [1, 2] {
            statements.insert(statement_of_columns(number, 20, 500));
        }
        let large = |number| statement_of_columns(number, 20, MAX_COLUMNS / (2 * shards) + 1);
        assert!(statements.insert(large(3)).is_empty());
        assert!(has(&statements, 1) && has(&statements, 2) && !has(&statements, 3));
        // The plan of a kept statement has grown.
        assert_eq!(statements.insert(large(2)).len(), 1);
        assert!(has(&statements, 1) && !has(&statements, 2));
        assert_eq!((statements.columns, statements.queue.len()), (1000, 1));
    }
    let mut of_process = BoundedStatements::default();
    of_process.insert(statement_of_columns(1, 20, 500));
    of_process.insert(statement_of_columns(2, 20, MAX_COLUMNS / 2 + 1));
    assert!(has(&of_process, 2) && !has(&of_process, 1));
}

#[test]
fn a_select_from_the_tables_of_the_node_needs_no_schema() {
    for (text, keyspace, is_of_node) in [
        ("SELECT x FROM system.nonsense", None, true),
        ("SELECT * FROM peers_v2", Some("system"), true),
        ("SELECT * FROM system_views.clients", Some("ks"), true),
        ("SELECT * FROM ks.local", Some("system"), false),
        ("SELECT * FROM system_auth.roles", None, false),
        ("SELECT * FROM t", None, false),
        ("INSERT INTO system.local (key) VALUES ('x')", None, false),
        ("SELECT", Some("system"), false),
    ] {
        assert_eq!(selects_from_node(text, keyspace), is_of_node, "{text}");
    }
}

/// Only a LIST takes a permit of its connection.
#[test]
fn lists_of_roles_and_permissions_differ_from_other_statements() {
    let schema = Arc::new(Schema::new(BTreeMap::new(), Uuid::nil()));
    for (text, is_list) in [
        ("LIST ROLES OF r", true),
        ("LIST USERS", true),
        ("LIST ALL PERMISSIONS OF r", true),
        ("CREATE ROLE r WITH PASSWORD = 'p'", false),
        ("ALTER ROLE r WITH LOGIN = true", false),
        ("GRANT r TO s", false),
    ] {
        let prepared = plan(text, None, &schema).unwrap();
        assert!(prepared.concerns_roles(), "{text}");
        assert_eq!(prepared.lists_roles(), is_list, "{text}");
    }
}

#[test]
fn texts_are_bounded_and_a_statement_is_replaced_in_its_place() {
    let mut statements = BoundedStatements::default();
    for number in 0..40 {
        statements.insert(statement(number, MAX_STATEMENT_BYTES));
        assert!(statements.text_bytes <= MAX_TEXT_BYTES);
    }
    assert_eq!(statements.by_id.len(), MAX_TEXT_BYTES / MAX_STATEMENT_BYTES);
    statements.insert(statement(39, 5));
    assert_eq!(statements.text_bytes, MAX_TEXT_BYTES - MAX_STATEMENT_BYTES + 5);
    assert_eq!(statements.queue.len(), statements.by_id.len());
}
