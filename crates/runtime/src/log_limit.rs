//! Limits the log lines that clients and peers can cause, in number and in length.
//!
//! A line has a kind, which is a fixed text. In each [`PERIOD`] the log gets the first lines of a
//! kind, so a client cannot fill the disk. [`LogLimit::due`] returns the number of lines left out
//! before the next line, so that this line can report it. But a client can hide the lines of
//! others: a flood of failed log-ins suppresses the lines about failed log-ins from other
//! addresses. Metrics count all failed log-ins. Each owner of a [`LogLimit`], usually a shard, has
//! a limit of its own.

use std::{cell::RefCell, fmt, time::Duration};

use crate::time::Instant;

/// The time in which the log has a limited number of lines of a kind. Arbitrary.
pub const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of characters of a client's text in the log. Arbitrary.
const MAX_CHARACTERS: usize = 128;

/// A limit of log lines, with the lines of the present period. There are few kinds.
#[derive(Debug)]
pub struct LogLimit {
    max_lines: u32,
    kinds: RefCell<Vec<Kind>>,
}

#[derive(Debug)]
struct Kind {
    name: &'static str,
    /// The time at which the period began.
    began: Instant,
    /// Lines in this period.
    lines: u32,
    /// Lines since the last one in the log.
    left_out: u64,
}

impl LogLimit {
    /// Creates a limit of `max_lines` lines of each kind in each [`PERIOD`].
    pub const fn at_most(max_lines: u32) -> Self {
        Self { max_lines, kinds: RefCell::new(Vec::new()) }
    }

    /// Returns whether a line of this kind is to be logged now.
    pub fn is_due(&self, kind: &'static str) -> bool {
        self.due(kind).is_some()
    }

    /// Returns the number of lines that were left out before a line of this kind, or `None` if this
    /// line is to be left out, too.
    pub fn due(&self, kind: &'static str) -> Option<u64> {
        let (mut kinds, now) = (self.kinds.borrow_mut(), Instant::now());
        let place = kinds.iter().position(|known| known.name == kind).unwrap_or_else(|| {
            kinds.push(Kind { name: kind, began: now, lines: 0, left_out: 0 });
            kinds.len() - 1
        });
        let known = &mut kinds[place];
        if now.since(known.began) >= PERIOD {
            (known.began, known.lines) = (now, 0);
        }
        if known.lines >= self.max_lines {
            known.left_out += 1;
            return None;
        }
        known.lines += 1;
        Some(std::mem::take(&mut known.left_out))
    }
}

/// A text of a client for the log: quoted, and cut. Control characters are escaped.
pub struct Quoted<'t>(pub &'t str);

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
    use crate::time::ManualClock;

    #[test]
    fn lines_past_the_limit_are_counted_until_the_next_period() {
        let clock = ManualClock::new(0);
        let _installed = clock.install();
        let limit = LogLimit::at_most(2);
        assert_eq!(limit.due("one"), Some(0));
        assert_eq!(limit.due("one"), Some(0));
        for _ in 0..5 {
            assert_eq!(limit.due("one"), None);
        }
        assert_eq!(limit.due("another"), Some(0));
        clock.advance(PERIOD - Duration::from_nanos(1));
        assert_eq!(limit.due("one"), None);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(limit.due("one"), Some(6));
        assert_eq!(limit.due("one"), Some(0));
        assert!(!limit.is_due("one"));
    }

    #[test]
    fn a_text_of_a_client_is_quoted_and_cut() {
        assert_eq!(Quoted("a\nb\u{1b}[2K").to_string(), "\"a\\nb\\u{1b}[2K\"");
        let long = "é".repeat(129);
        assert_eq!(Quoted(&long).to_string(), format!("\"{}\"…", "é".repeat(128)));
    }
}
