//! Helpers that the tests share: hex digits, escapes, and the lines of a file of test vectors.

#![allow(dead_code)]

pub mod arbitrary;

/// Returns the lines that are not comments.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// Decodes hex digits; `-` means no bytes.
pub fn unhex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    assert!(text.len().is_multiple_of(2), "odd hex: {text}");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}

/// Prints bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes the escapes `\xNN` and `\\`.
pub fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        if rest[at + 1..].starts_with('x') {
            out.push(char::from(u8::from_str_radix(&rest[at + 2..at + 4], 16).expect("escape")));
            rest = &rest[at + 4..];
        } else {
            out.push('\\');
            rest = &rest[at + 2..];
        }
    }
    out + rest
}

/// Collects differences, so that a failing test shows all of them at once.
#[derive(Default)]
pub struct Report {
    checked: usize,
    differences: Vec<String>,
}

impl Report {
    pub fn check<T: PartialEq + std::fmt::Debug>(&mut self, ours: T, theirs: T, context: &str) {
        self.checked += 1;
        if ours != theirs {
            self.differences.push(format!("{context}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }

    pub fn finish(self, at_least: usize) {
        let count = self.differences.len();
        assert!(count == 0, "{count} of {} differ:\n{}", self.checked, self.differences.join("\n"));
        assert!(self.checked >= at_least, "only {} checks", self.checked);
    }
}
