//! Parses literals.

use std::borrow::Cow;

use super::name::unquote;
use super::{Parser, Result};
use crate::grammar::ast::Literal;
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Returns whether a literal begins `ahead` tokens after the current one. A sign is a part of a
    /// number if no blank separates the two.
    pub(super) fn is_literal(&self, ahead: usize) -> bool {
        match self.kind(ahead) {
            TokenKind::Minus => {
                let touches = self.token(ahead).end == self.token(ahead + 1).start;
                touches && is_signed(self.kind(ahead + 1))
            }
            TokenKind::String | TokenKind::DollarString | TokenKind::Uuid | TokenKind::Blob => true,
            TokenKind::Keyword(Keyword::TRUE | Keyword::FALSE) => true,
            kind => is_signed(kind),
        }
    }

    /// Consumes the literal at the current token, if there is one.
    pub(super) fn literal(&mut self) -> Option<Literal<'a>> {
        if !self.is_literal(0) {
            return None;
        }
        let start = self.token(0).start;
        let negative = self.accept(TokenKind::Minus);
        let token = self.advance();
        let text = &self.text[start as usize..token.end as usize];
        Some(match token.kind {
            TokenKind::Integer => Literal::Integer(text),
            TokenKind::Float => Literal::Float(text),
            TokenKind::Duration => Literal::Duration(text),
            TokenKind::Keyword(Keyword::NAN) => Literal::Float("NaN"),
            TokenKind::Keyword(Keyword::INFINITY) if negative => Literal::Float("-Infinity"),
            TokenKind::Keyword(Keyword::INFINITY) => Literal::Float("Infinity"),
            TokenKind::Keyword(keyword) => Literal::Boolean(keyword == Keyword::TRUE),
            TokenKind::Uuid => Literal::Uuid(text),
            TokenKind::Blob => Literal::Blob(text),
            TokenKind::DollarString => Literal::String(Cow::Borrowed(&text[2..text.len() - 2])),
            _ => Literal::String(unquote(text, "'", "''")),
        })
    }

    /// Consumes the string at the current token, if there is one.
    pub(super) fn string(&mut self) -> Option<Cow<'a, str>> {
        if !matches!(self.kind(0), TokenKind::String | TokenKind::DollarString) {
            return None;
        }
        match self.literal() {
            Some(Literal::String(string)) => Some(string),
            _ => None,
        }
    }

    /// Parses a string.
    pub(super) fn text_literal(&mut self) -> Result<Cow<'a, str>> {
        self.string().ok_or_else(|| self.expected("string"))
    }
}

/// Returns whether a literal of this kind may have a sign.
fn is_signed(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Integer
            | TokenKind::Float
            | TokenKind::Duration
            | TokenKind::Keyword(Keyword::NAN | Keyword::INFINITY)
    )
}
