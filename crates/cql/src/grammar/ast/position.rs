//! Positions of nodes in the statement's text.

use std::fmt;

/// A byte offset into the text of the statement. Statements are shorter than 4 GiB (the parser
/// refuses longer ones).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u32);

/// A place for human readers, as in Cassandra's messages: lines count from 1, columns (in
/// characters) from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineColumn {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 0.
    pub column: u32,
}

impl Position {
    /// Returns the offset as an index into the text.
    pub fn offset(self) -> usize {
        self.0 as usize
    }

    /// Returns the line and column of this position in `text`, the statement of the position. The
    /// time is linear in the offset, so use this function only for errors.
    pub fn line_column(self, text: &str) -> LineColumn {
        let before = &text.as_bytes()[..self.offset().min(text.len())];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let is_character_start = |byte: &&u8| (**byte & 0xC0) != 0x80;
        LineColumn {
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count() as u32,
            column: before[line_start..].iter().filter(is_character_start).count() as u32,
        }
    }
}

impl fmt::Display for LineColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
