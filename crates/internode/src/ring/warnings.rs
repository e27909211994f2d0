//! Limits the warnings that peers can cause: the log has each at most once a minute.

use std::{cell::RefCell, collections::HashMap, fmt, time::Duration};

use espalier_runtime::time::Instant;

/// The time between two warnings of a kind.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of characters of a peer's text in the log.
const MAX_CHARACTERS: usize = 128;

/// The times of the last warnings, by kind.
#[derive(Debug, Default)]
pub(super) struct Warnings(RefCell<HashMap<&'static str, Instant>>);

impl Warnings {
    /// Returns whether a warning of this kind is to be logged now.
    pub fn is_due(&self, kind: &'static str) -> bool {
        let (mut last, now) = (self.0.borrow_mut(), Instant::now());
        let is_due = last.get(kind).is_none_or(|last| now.since(*last) >= PERIOD);
        if is_due {
            last.insert(kind, now);
        }
        is_due
    }
}

/// A text of a peer for the log: quoted, and cut.
pub(super) struct Quoted<'t>(pub &'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start: String = self.0.chars().take(MAX_CHARACTERS).collect();
        let more = if start.len() < self.0.len() { "…" } else { "" };
        write!(f, "{start:?}{more}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_logged_once_in_a_minute() {
        let warnings = Warnings::default();
        assert!(warnings.is_due("one"));
        assert!(!warnings.is_due("one"));
        assert!(warnings.is_due("another"));
    }

    #[test]
    fn a_text_of_a_peer_is_quoted_and_cut() {
        assert_eq!(Quoted("a\nb").to_string(), "\"a\\nb\"");
        let long = "é".repeat(129);
        assert_eq!(Quoted(&long).to_string(), format!("\"{}\"…", "é".repeat(128)));
    }
}
