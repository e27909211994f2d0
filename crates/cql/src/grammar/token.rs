//! Tokens: what the lexer cuts the text into.

use super::keyword::Keyword;

/// A token, without its text: twelve bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// Byte offset of its first byte.
    pub(super) start: u32,
    /// Byte offset past its last byte.
    pub(super) end: u32,
}

/// The kinds of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word that is no keyword.
    Identifier,
    /// `"..."`, not empty.
    QuotedName,
    Keyword(Keyword),
    /// Digits, without a sign: the parser joins a `-` with what it touches.
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
    /// After the last token.
    End,
    /// What is no token.
    Invalid(Invalid),
}

/// Why some text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    Character,
    UnterminatedString,
    UnterminatedName,
    UnterminatedComment,
    EmptyName,
    Number,
    /// Whatever it is, it comes after [`super::MAXIMUM_TOKENS`] others.
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
