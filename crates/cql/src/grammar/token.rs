//! Tokens: the units into which the lexer splits the text.

use super::keyword::Keyword;

/// A token without its text, in twelve bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// Byte offset of its first byte.
    pub(super) start: u32,
    /// Byte offset past its last byte.
    pub(super) end: u32,
}

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word that is no keyword.
    Identifier,
    /// `"..."`, not empty.
    QuotedName,
    Keyword(Keyword),
    /// Digits without a sign. The parser joins a `-` with the number that follows it directly.
    Integer,
    Float,
    /// `'...'`.
    String,
    /// `$$...$$`.
    DollarString,
    Uuid,
    Blob,
    Duration,
    LeftParenthesis,
    RightParenthesis,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    Comma,
    Semicolon,
    Colon,
    Dot,
    /// `..`.
    Range,
    QuestionMark,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    PlusEqual,
    MinusEqual,
    /// The end of the text.
    End,
    /// Text that is no token.
    Invalid(Invalid),
}

/// The reasons why text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    Character,
    UnterminatedString,
    UnterminatedName,
    UnterminatedComment,
    EmptyName,
    Number,
    /// More tokens than [`super::MAX_TOKENS`], of whatever kind.
    TooMany,
}

impl Invalid {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Character => "unexpected character",
            Self::UnterminatedString => "string without an end",
            Self::UnterminatedName => "quoted name without an end",
            Self::UnterminatedComment => "comment without an end",
            Self::EmptyName => "empty name",
            Self::Number => "malformed number",
            Self::TooMany => "statement of more than 2000000 words and signs",
        }
    }
}
