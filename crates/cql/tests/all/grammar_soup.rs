//! Random text and mutated statements: the parser must give an answer for any input.

use crate::support::cases::all_inputs;
use crate::support::round_trip::check_round_trip;
use espalier_cql::grammar::parse;
use proptest::prelude::*;

/// Pieces of statements. A few names stand for all possible names.
const PIECES: &[&str] = &[
    "SELECT",
    "INSERT INTO",
    "UPDATE",
    "DELETE",
    "BEGIN BATCH",
    "APPLY BATCH",
    "CREATE TABLE",
    "CREATE SERVICE LEVEL",
    "PRUNE MATERIALIZED VIEW",
    "ALTER TABLE",
    "CREATE TYPE",
    "FROM",
    "WHERE",
    "SET",
    "VALUES",
    "USING",
    "TIMESTAMP",
    "TTL",
    "TIMEOUT",
    "IF",
    "NOT",
    "EXISTS",
    "AND",
    "IN",
    "CONTAINS",
    "KEY",
    "LIKE",
    "BETWEEN",
    "IS",
    "NULL",
    "TOKEN",
    "JSON",
    "DISTINCT",
    "AS",
    "CAST",
    "COUNT",
    "WRITETIME",
    "GROUP BY",
    "ORDER BY",
    "ANN OF",
    "LIMIT",
    "PER PARTITION LIMIT",
    "ALLOW FILTERING",
    "BYPASS CACHE",
    "PRIMARY KEY",
    "STATIC",
    "WITH",
    "a",
    "b",
    "\"C\"",
    "\"\"",
    "ks.t",
    "t",
    "f(",
    "int",
    "text",
    "list<int>",
    "frozen<",
    "map<int,",
    "vector<float, 3>",
    "tuple<",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    "..",
    ":",
    ";",
    "?",
    ":x",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "+=",
    "-=",
    "1",
    "-1",
    "1.5",
    "1e3",
    "0xab",
    "'s'",
    "'",
    "$$",
    "$$s$$",
    "true",
    "nan",
    "infinity",
    "1mo2d",
    "P1D",
    "123e4567-e89b-12d3-a456-426614174000",
    "--",
    "//",
    "/*",
    "*/",
    "\n",
    "é",
    "😀",
    "\0",
    "!",
    "$",
    "_",
];

/// Parses the text, and checks the properties of any answer.
fn check(text: &str) {
    match parse(text) {
        Ok(parsed) => check_round_trip(&parsed),
        Err(error) => {
            assert!(error.line >= 1 && text.is_char_boundary(error.offset), "{error:?}");
            assert!(error.message.len() < 400, "{error}");
        }
    }
}

/// Generates a statement of the cases with a few pieces dropped, doubled, swapped or inserted.
fn mutant() -> impl Strategy<Value = String> {
    let inputs = all_inputs();
    let change = (0..4usize, any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let changes = prop::collection::vec(change, 1..4);
    (prop::sample::select(inputs), changes).prop_map(|(input, changes)| {
        let mut pieces: Vec<String> = Vec::new();
        let mut in_word = false;
        for character in input.chars() {
            let is_word = character.is_alphanumeric() || character == '_';
            match pieces.last_mut() {
                Some(piece) if is_word && in_word => piece.push(character),
                _ => pieces.push(character.to_string()),
            }
            in_word = is_word;
        }
        for (change, at, other) in changes {
            if pieces.is_empty() {
                break;
            }
            let (at, other_at) = (at.index(pieces.len()), other.index(pieces.len()));
            match change {
                0 => drop(pieces.remove(at)),
                1 => pieces.insert(at, pieces[other_at].clone()),
                2 => pieces.swap(at, other_at),
                _ => pieces.insert(at, format!(" {} ", PIECES[other.index(PIECES.len())])),
            }
        }
        pieces.concat()
    })
}

proptest! {
    #![proptest_config(espalier_testing::properties(4000))]

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_soup_of_tokens_is_answered(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
        check(&pieces.join(" "));
        check(&pieces.concat());
    }

    #[test]
    fn soup_after_a_beginning_is_answered(
        start in prop::sample::select(&[
            "SELECT ", "SELECT a FROM t WHERE ", "SELECT a FROM t WHERE k = ", "UPDATE t SET ", "INSERT INTO t (a) VALUES (",
            "CREATE TABLE t (", "DELETE ", "ALTER TABLE t ", "CREATE TABLE t (k int PRIMARY KEY) WITH ",
        ][..]),
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12),
        end in prop::sample::select(&["", " FROM t", " WHERE k = 1", ")"][..]),
    ) {
        check(&format!("{start}{}{end}", pieces.join(" ")));
    }

    #[test]
    fn mutants_of_statements_are_answered(text in mutant()) {
        check(&text);
    }
}
