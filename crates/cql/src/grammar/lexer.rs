//! The lexer: splits text into tokens, in one pass from left to right, in time linear in the text.
//!
//! Memory: twelve bytes for each token; no text is copied. Text that is no token becomes
//! `TokenKind::Invalid` and ends the list, so that the parser reports earlier errors first.

mod number;

use super::MAX_TOKENS;
use super::keyword::Keyword;
use super::token::{Invalid, Token, TokenKind};

/// Splits `text` into tokens. The last is `End` or `Invalid`. `text` must be shorter than 4 GiB.
pub(super) fn tokenize(text: &str) -> Vec<Token> {
    // Typical statements have one token for every four to six bytes.
    let mut tokens = Vec::with_capacity((text.len() / 5 + 4).min(MAX_TOKENS + 1));
    let mut cursor = Cursor { bytes: text.as_bytes(), at: 0 };
    loop {
        let blank = cursor.skip_blank();
        let start = cursor.at;
        let kind = match blank {
            Ok(()) if tokens.len() == MAX_TOKENS => {
                cursor.token();
                TokenKind::Invalid(Invalid::TooMany)
            }
            Ok(()) => cursor.token(),
            Err(invalid) => {
                cursor.at = text.len();
                TokenKind::Invalid(invalid)
            }
        };
        tokens.push(Token { kind, start: start as u32, end: cursor.at as u32 });
        if matches!(kind, TokenKind::End | TokenKind::Invalid(_)) {
            return tokens;
        }
    }
}

/// Returns the text behind the white space and comments at its beginning; empty if a comment has no
/// end.
pub(super) fn behind_comments(text: &str) -> &str {
    let mut cursor = Cursor { bytes: text.as_bytes(), at: 0 };
    match cursor.skip_blank() {
        Ok(()) => text.get(cursor.at..).unwrap_or_default(),
        Err(_) => "",
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// Returns the byte that is `ahead` bytes after the current one, or zero past the end. A zero
    /// byte in the text begins no token, so callers need to distinguish the two only at the start
    /// of a token.
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_while(&mut self, accept: impl Fn(u8) -> bool) {
        while self.bytes.get(self.at).is_some_and(|&byte| accept(byte)) {
            self.at += 1;
        }
    }

    /// Skips white space and comments. A comment without an end leaves the cursor at the start of
    /// the comment.
    fn skip_blank(&mut self) -> Result<(), Invalid> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t' | b'\n' | b'\r', _) => self.at += 1,
                (b'-', b'-') | (b'/', b'/') => {
                    self.skip_while(|byte| byte != b'\n' && byte != b'\r')
                }
                (b'/', b'*') => {
                    let inside = &self.bytes[self.at + 2..];
                    let Some(length) = inside.windows(2).position(|pair| pair == b"*/") else {
                        return Err(Invalid::UnterminatedComment);
                    };
                    self.at += length + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    fn token(&mut self) -> TokenKind {
        let Some(&byte) = self.bytes.get(self.at) else { return TokenKind::End };
        match byte {
            b'A'..=b'F' | b'a'..=b'f' if self.uuid() => TokenKind::Uuid,
            b'P' if self.iso_duration() => TokenKind::Duration,
            b'A'..=b'Z' | b'a'..=b'z' => self.word(),
            b'0'..=b'9' => self.number(),
            b'\'' => self.quoted(b'\'', TokenKind::String, Invalid::UnterminatedString),
            b'"' if self.peek(1) == b'"' && self.peek(2) != b'"' => {
                self.at += 2;
                TokenKind::Invalid(Invalid::EmptyName)
            }
            b'"' => self.quoted(b'"', TokenKind::QuotedName, Invalid::UnterminatedName),
            b'$' if self.peek(1) == b'$' => self.dollar_string(),
            _ => self.symbol(byte),
        }
    }

    fn word(&mut self) -> TokenKind {
        let start = self.at;
        self.skip_while(is_word);
        Keyword::find(&self.bytes[start..self.at]).map_or(TokenKind::Identifier, TokenKind::Keyword)
    }

    /// Consumes text between two `quote`s. A doubled quote inside is a part of the text.
    fn quoted(&mut self, quote: u8, kind: TokenKind, unterminated: Invalid) -> TokenKind {
        self.at += 1;
        loop {
            let Some(length) = self.bytes[self.at..].iter().position(|&byte| byte == quote) else {
                self.at = self.bytes.len();
                return TokenKind::Invalid(unterminated);
            };
            self.at += length + 1;
            if self.peek(0) != quote {
                return kind;
            }
            self.at += 1;
        }
    }

    fn dollar_string(&mut self) -> TokenKind {
        self.at += 2;
        match self.bytes[self.at..].windows(2).position(|pair| pair == b"$$") {
            Some(length) => {
                self.at += length + 2;
                TokenKind::DollarString
            }
            None => {
                self.at = self.bytes.len();
                TokenKind::Invalid(Invalid::UnterminatedString)
            }
        }
    }

    fn symbol(&mut self, byte: u8) -> TokenKind {
        let (kind, length) = match (byte, self.peek(1)) {
            (b'(', _) => (TokenKind::LeftParenthesis, 1),
            (b')', _) => (TokenKind::RightParenthesis, 1),
            (b'[', _) => (TokenKind::LeftBracket, 1),
            (b']', _) => (TokenKind::RightBracket, 1),
            (b'{', _) => (TokenKind::LeftBrace, 1),
            (b'}', _) => (TokenKind::RightBrace, 1),
            (b',', _) => (TokenKind::Comma, 1),
            (b';', _) => (TokenKind::Semicolon, 1),
            (b':', _) => (TokenKind::Colon, 1),
            (b'.', b'.') => (TokenKind::Range, 2),
            (b'.', _) => (TokenKind::Dot, 1),
            (b'?', _) => (TokenKind::QuestionMark, 1),
            (b'=', _) => (TokenKind::Equal, 1),
            (b'!', b'=') => (TokenKind::NotEqual, 2),
            (b'<', b'=') => (TokenKind::LessOrEqual, 2),
            (b'<', _) => (TokenKind::Less, 1),
            (b'>', b'=') => (TokenKind::GreaterOrEqual, 2),
            (b'>', _) => (TokenKind::Greater, 1),
            (b'+', b'=') => (TokenKind::PlusEqual, 2),
            (b'+', _) => (TokenKind::Plus, 1),
            (b'-', b'=') => (TokenKind::MinusEqual, 2),
            (b'-', _) => (TokenKind::Minus, 1),
            (b'*', _) => (TokenKind::Star, 1),
            (b'/', _) => (TokenKind::Slash, 1),
            (b'%', _) => (TokenKind::Percent, 1),
            // Consume the whole character, so that messages never cut a character in two.
            _ => {
                self.at += 1;
                self.skip_while(|byte| (byte & 0xC0) == 0x80);
                return TokenKind::Invalid(Invalid::Character);
            }
        };
        self.at += length;
        kind
    }
}

/// Returns whether a word may contain `byte` after its first letter.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
