//! Results of the parser for the statements in `testdata/cql`: the tree, or the error.

use crate::support::cases::check;
use crate::support::compact::compact;
use espalier_cql::grammar::ast::{Selection, Statement};
use espalier_cql::grammar::{behind_comments, parse};

fn tree_or_error(statement: &str) -> String {
    let parsed = match parse(statement) {
        Ok(parsed) => parsed,
        Err(error) => return format!("error: {error}"),
    };
    let mut output = match &parsed.statement {
        Statement::Select(statement) => compact(statement),
        Statement::Modification(statement) => compact(statement),
        Statement::Batch(statement) => compact(statement),
        Statement::Transaction(statement) => compact(statement),
        Statement::Use(statement) => compact(statement),
        Statement::Describe(statement) => compact(statement),
        Statement::CreateKeyspace(statement) => compact(statement),
        Statement::AlterKeyspace(statement) => compact(statement),
        Statement::DropKeyspace(statement) => compact(statement),
        Statement::CreateTable(statement) => compact(statement),
        Statement::CreateTableLike(statement) => compact(statement),
        Statement::Annotate(statement) => compact(statement),
        Statement::AlterTable(statement) => compact(statement),
        Statement::DropTable(statement) => compact(statement),
        Statement::Truncate(statement) => compact(statement),
        Statement::CreateType(statement) => compact(statement),
        Statement::AlterType(statement) => compact(statement),
        Statement::DropType(statement) => compact(statement),
        Statement::CreateIndex(statement) => compact(statement),
        Statement::DropObject(statement) => compact(statement),
        Statement::AlterView(statement) => compact(statement),
        Statement::CreateView(statement) => compact(statement),
        Statement::Role(statement) => compact(statement),
        Statement::Unsupported(statement) => compact(statement),
    };
    if parsed.bind_markers.names.iter().any(Option::is_some) {
        let name = |name: &Option<_>| name.as_ref().map_or("?".into(), |name| format!(":{name}"));
        let names: Vec<_> = parsed.bind_markers.names.iter().map(name).collect();
        output += &format!("\n  bind markers: {}", names.join(" "));
    }
    output
}

/// Returns the names of the result columns of a `SELECT`, one line each.
fn result_names(statement: &str) -> String {
    let parsed = parse(statement).expect("a SELECT");
    let Statement::Select(select) = parsed.statement else { panic!("no SELECT: {statement}") };
    let Selection::Selectors(selectors) = select.selection else { panic!("*: {statement}") };
    let names = selectors.iter().map(|selector| match &selector.alias {
        Some(alias) => alias.to_string(),
        None => selector.expression.to_string(),
    });
    names.collect::<Vec<_>>().join("\n")
}

macro_rules! cases {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(concat!(stringify!($name), ".txt"), tree_or_error);
            }
        )*
    };
}

cases! {
    batch clients delete describe describe_output differences drop_objects errors identifiers insert
    keyspaces literals relations roles select selectors tables terms types unsupported update user_types
}

#[test]
fn names_of_result_columns() {
    check("result_names.txt", result_names);
}

#[test]
fn the_text_behind_comments_is_the_statement() {
    const STATEMENT: &str = "SELECT a FROM t -- b";
    for comments in ["", " \t\r\n", "--\n", "// é\r -- c\n", "/**/", "/*/ */ ", "/* -- */\n//*\n"]
    {
        let text = format!("{comments}{STATEMENT}");
        assert_eq!(behind_comments(&text), STATEMENT, "{text}");
        assert!(parse(&text).is_ok(), "{text}");
    }
    for text in ["", "--", "// c", "/*", "/*/", " /* c *"] {
        assert_eq!(behind_comments(text), "", "{text}");
        assert!(parse(text).is_err(), "{text}");
    }
}
