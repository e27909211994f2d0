//! Statements that try to break a parser: deeply nested, or very long.

use std::time::Duration;

use espalier_cql::grammar::{MAX_NESTING, parse, parse_type};
use espalier_testing::Stopwatch;

const DEEP: usize = 100_000;
/// Length of the long statements in bytes. Quadratic time would take minutes.
const LONG: usize = 1 << 18;

fn nested(start: &str, open: &str, inside: &str, close: &str, end: &str, depth: usize) -> String {
    [start, &open.repeat(depth), inside, &close.repeat(depth), end].concat()
}

/// Ways to nest: text before, opening, inside, closing, after.
const NESTS: &[[&str; 5]] = &[
    ["SELECT ", "(", "a", ")", " FROM t"],
    ["SELECT ", "[", "a", "]", " FROM t"],
    ["SELECT ", "{", "a", "}", " FROM t"],
    ["SELECT ", "{a:", "a", "}", " FROM t"],
    ["SELECT ", "f(", "a", ")", " FROM t"],
    ["SELECT ", "cast(", "a", " as int)", " FROM t"],
    ["SELECT ", "(int)", "a", "", " FROM t"],
    ["SELECT ", "(a)[", "1..2", "]", " FROM t"],
    ["SELECT ", "(a)[", "a", "..2]", " FROM t"],
    ["SELECT ", "- ", "a", "", " FROM t"],
    ["SELECT ", "", "a", ".b", " FROM t"],
    ["SELECT ", "", "a", " + b", " FROM t"],
    ["SELECT ", "", "a", " * b", " FROM t"],
    ["SELECT a FROM t WHERE k = ", "? - ", "?", "", ""],
    ["SELECT a FROM t WHERE k = ", "1 % ", "1", "", ""],
    ["SELECT ", "", "a", "[1]", " FROM t"],
    ["SELECT ", "", "a", "[1..2]", " FROM t"],
    ["SELECT ", "(", "a", ").b", " FROM t"],
    ["SELECT writetime(", "", "a", ".b", ") FROM t"],
    ["SELECT a FROM t WHERE ", "(", "a = 1", ")", ""],
    ["SELECT a FROM t WHERE k = ", "(", "1", ")", ""],
    ["SELECT a FROM t WHERE k = ", "[", "1", "]", ""],
    ["SELECT a FROM t WHERE k = ", "{", "1", "}", ""],
    ["SELECT a FROM t WHERE k = ", "{a:", "1", "}", ""],
    ["SELECT a FROM t WHERE k = ", "{1:", "1", "}", ""],
    ["SELECT a FROM t WHERE k = ", "(int)", "1", "", ""],
    ["SELECT a FROM t WHERE k = ", "(int)(", "1", ")", ""],
    ["SELECT a FROM t WHERE k = ", "cast(", "1", " as int)", ""],
    ["SELECT a FROM t WHERE k = ", "f(", "1", ")", ""],
    ["CREATE TABLE t (k ", "frozen<", "a", ">", " PRIMARY KEY)"],
    ["CREATE TABLE t (k ", "tuple<int,", "int", ">", " PRIMARY KEY)"],
    ["CREATE TABLE t (k ", "map<int,", "int", ">", " PRIMARY KEY)"],
    ["CREATE TABLE t (k int PRIMARY KEY) WITH a = ", "{1:", "1", "}", ""],
];

#[test]
fn deep_nesting_is_refused() {
    for [start, open, inside, close, end] in NESTS {
        let depth = MAX_NESTING as usize / 3;
        let shallow = nested(start, open, inside, close, end, depth);
        // Properties do not nest at all, and `(a)[..][..]` is no term.
        let never = *open == "{1:" && start.starts_with("CREATE") || *open == "(a)[";
        assert!(parse(&shallow).is_ok() || never, "{shallow}");
        let deep = nested(start, open, inside, close, end, DEEP);
        let error = parse(&deep).unwrap_err();
        let reported = error.message.contains("nested deeper") || never;
        assert!(reported, "{start}{open}: {error}");
        // Without any closing brackets.
        assert!(parse(&nested(start, open, "", "", "", DEEP)).is_err());
    }
    assert!(parse_type(&nested("", "list<", "int", ">", "", DEEP)).is_err());
}

/// Chains of `.b` and parentheses add to the depth of the expression that contains them.
#[test]
fn depth_of_chains_adds_up() {
    let mut selector = "a".to_owned();
    for _ in 0..20 {
        selector = format!("({selector}{})", ".b".repeat(20));
    }
    let error = parse(&format!("SELECT {selector} FROM t")).unwrap_err();
    assert!(error.message.contains("nested deeper"), "{error}");
    // The depths of expressions side by side do not add up.
    let selectors = vec![format!("a{} + b * c", ".b".repeat(50)); 50].join(", ");
    assert!(parse(&format!("SELECT [{selectors}], ({selectors}) FROM t")).is_ok());
}

#[test]
fn long_statements_parse_in_linear_time() {
    let many = |item: &str, separator: &str| {
        let count = LONG / (item.len() + separator.len());
        vec![item; count].join(separator)
    };
    let statements = [
        format!("SELECT {} FROM t", many("a", ", ")),
        format!("SELECT {} FROM t", many("(a)", ", ")),
        format!("SELECT {} FROM t", many("(a)[1..2]", ", ")),
        format!("SELECT (tuple<{}>)? FROM t", many("int", ", ")),
        format!("SELECT a FROM t WHERE k IN ({})", many("1", ", ")),
        format!("SELECT a FROM t WHERE k IN ({})", many("(f(1))", ", ")),
        format!("SELECT a FROM t WHERE {}", many("k = ?", " AND ")),
        format!("SELECT a FROM t WHERE k = '{}'", many("''", "")),
        format!("SELECT a FROM t WHERE k = 0x{}", many("ab", "")),
        format!("SELECT a FROM t WHERE k = {}", many("1", "")),
        format!("SELECT a FROM t WHERE k = {}", many("1d", "")),
        format!("SELECT {} FROM t", many("P1", "")),
        format!("SELECT a FROM t {}", many("/* comment */", " ")),
        format!("SELECT a FROM t {}", many(";", "")),
        format!("INSERT INTO t (a) VALUES ({{{}}})", many("'k': (1, [2])", ", ")),
        format!("UPDATE t SET {} WHERE k = 1", many("m['a'] = :b", ", ")),
        format!("BEGIN BATCH {} APPLY BATCH", many("UPDATE t SET a = 1 WHERE k = 1", "; ")),
        format!("CREATE TABLE t ({}, PRIMARY KEY (k))", many("k frozen<list<int>>", ", ")),
        format!("CREATE TABLE t (k int PRIMARY KEY,{})", many(",", "")),
    ];
    for statement in &statements {
        assert!(statement.len() > LONG, "{}", statement.len());
        let start = Stopwatch::start();
        let parsed = parse(statement).unwrap();
        // Linear time takes hundredths of a second without optimisation, quadratic time takes
        // minutes.
        assert!(start.elapsed() < Duration::from_secs(5), "{}", &statement[..60]);
        drop(parsed);
    }
    // Statements that are refused at their end must be as fast.
    for statement in &statements {
        let start = Stopwatch::start();
        assert!(parse(&format!("{statement} ~")).is_err());
        assert!(start.elapsed() < Duration::from_secs(5), "{}", &statement[..60]);
    }
}

#[test]
fn positions_count_characters_and_lines() {
    let error = parse("SELECT 'é',\n  '日本' FORM t").unwrap_err();
    assert_eq!((error.line, error.column), (2, 7));
    assert_eq!(&"SELECT 'é',\n  '日本' FORM t"[error.offset..][..4], "FORM");
    assert!(error.to_string().starts_with("line 2:7 "));
}

#[test]
fn too_many_words_are_refused_before_they_take_memory() {
    let error = parse(&format!("SELECT {} FROM t", "a, ".repeat(1 << 20))).unwrap_err();
    assert!(error.message.starts_with("statement of more than 2000000 words"), "{error}");
    // One long literal counts as one word.
    assert!(parse(&format!("SELECT a FROM t WHERE k = 0x{}", "ab".repeat(4 << 20))).is_ok());
}
