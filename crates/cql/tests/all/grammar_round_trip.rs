//! Round trips: statements print as CQL with the same meaning.

use std::path::{Path, PathBuf};

use crate::support::cases::all_inputs;
use crate::support::round_trip::check_round_trip;
use espalier_cql::grammar::ast::Statement;
use espalier_cql::grammar::{parse, parse_type};

#[test]
fn every_case_prints_as_the_same_statement() {
    let inputs = all_inputs();
    let accepted: Vec<_> = inputs.iter().filter_map(|input| parse(input).ok()).collect();
    assert!(accepted.len() > 300);
    accepted.iter().for_each(check_round_trip);
}

#[test]
fn printing_keeps_quotes_signs_parentheses_and_literals() {
    for statement in [
        "SELECT - 1, - -1, - - a, 1 .f, (int)1 .f, (a)-1, (a) - 1, 'it''s', $$a'b$$, \"a\"\"b\" FROM t",
        "SELECT (a)[1..2], (a)[1], (a), ((a)), (a) + b, a - -b, {a: b}, {}, m[..'x'], m[1.5..] FROM t",
        "SELECT \"json\", \"distinct\" AS \"as\", \"Token\", \"token\", \"select\" FROM \"from\".\"Where\"",
        "SELECT \"token\"(a), \"F\"(b), \"key\" FROM t WHERE \"token\" = :\"select\" AND \"a b\" = :\"C\"",
        "UPDATE t SET a = 1 + 2 + a, b = b - 1 - 2, c = c + 1, u.\"F\" = NULL WHERE k = 1 IF \"exists\" = 1",
        "SELECT a FROM t WHERE d = P1Y AND \"P1Y\" = -P0001-02-03T04:05:06 AND n = -Infinity",
    ] {
        check_round_trip(&parse(statement).unwrap());
    }
}

#[test]
fn types_print_as_they_parse() {
    for name in [
        "int",
        "text",
        "frozen<map<text, list<frozen<set<uuid>>>>>",
        "tuple<int, tuple<text, duration>>",
        "vector<vector<float, 3>, 1536>",
        "ks.address",
        "\"Ks\".\"Address\"",
        "frozen<address>",
        "'org.apache.cassandra.db.marshal.LexicalUUIDType'",
    ] {
        let plain = name.replace('"', "");
        assert_eq!(parse_type(name).unwrap().to_string(), plain);
    }
    assert_eq!(parse_type("VARCHAR").unwrap().to_string(), "text");
    assert!(parse_type("list<int").is_err());
    assert!(parse_type("int int").is_err());
}

/// The schemas are those of the shared SSTables, as Cassandra printed them.
#[test]
#[allow(clippy::disallowed_methods)] // A test reads its data as it likes.
fn schemas_that_cassandra_printed_are_taken() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let mut folders = vec![fixtures.clone()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "cql") {
                let text = std::fs::read_to_string(&path).unwrap();
                for statement in text.split(";\n").filter(|text| !text.trim().is_empty()) {
                    let parsed = parse(statement).unwrap_or_else(|e| panic!("{statement}\n{e}"));
                    let unsupported = matches!(parsed.statement, Statement::Unsupported(_));
                    assert!(!unsupported, "{statement}");
                    check_round_trip(&parsed);
                    count += 1;
                }
            }
        }
    }
    println!("{count} statements from {}", fixtures.display());
    if !fixtures.exists() {
        println!("skipped: no {}", fixtures.display());
    }
}
