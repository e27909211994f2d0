//! The check of round trips: text to tree to text to tree.

use espalier_cql::grammar::ast::{Parsed, Statement};
use espalier_cql::grammar::parse;

/// Checks that `parsed` prints as CQL that parses to the same tree, and that this tree prints the
/// same again.
pub fn check_round_trip(parsed: &Parsed<'_>) {
    if matches!(parsed.statement, Statement::Unsupported(_)) {
        return;
    }
    let printed = parsed.to_string();
    let again = parse(&printed).unwrap_or_else(|error| panic!("{printed}\n{error}"));
    assert_eq!(without_places(parsed), without_places(&again), "{printed}");
    assert_eq!(printed, again.to_string());
}

/// Returns the tree without positions, and without the numbers of bind markers, because options are
/// printed in a fixed order.
fn without_places(parsed: &Parsed<'_>) -> String {
    let text = format!("{:?}", parsed.statement);
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.as_str();
    loop {
        let next = ["Position(", "index: "].map(|word| rest.find(word).map(|at| at + word.len()));
        let Some(at) = next.into_iter().flatten().min() else { return kept + rest };
        kept.push_str(&rest[..at]);
        rest = rest[at..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
}
