//! Parses bind markers.

use super::{Parser, Result};
use crate::grammar::ast::{BindMarker, Expression, ExpressionKind};
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Returns whether a bind marker begins `ahead` tokens after the current one.
    pub(super) fn is_marker(&self, ahead: usize) -> bool {
        matches!(self.kind(ahead), TokenKind::QuestionMark | TokenKind::Colon)
    }

    /// Parses `?` or `:name`.
    pub(super) fn marker(&mut self) -> Result<BindMarker> {
        let position = self.position();
        let name = if self.accept(TokenKind::Colon) {
            Some(self.name("name of a bind marker")?)
        } else {
            self.expect(TokenKind::QuestionMark, "bind marker")?;
            None
        };
        // There are fewer markers than bytes of text, and a u32 can count those.
        let index = self.markers.len() as u32;
        self.markers.push(name);
        Ok(BindMarker { index, position })
    }

    /// Parses a bind marker as an expression.
    pub(super) fn marker_expression(&mut self) -> Result<Expression<'a>> {
        let marker = self.marker()?;
        let kind = ExpressionKind::BindMarker(marker);
        Ok(Expression { kind, position: marker.position })
    }

    /// Parses an integer or a bind marker: the operand of `LIMIT`, `TIMESTAMP` or `TTL`.
    pub(super) fn integer_or_marker(&mut self) -> Result<Expression<'a>> {
        self.literal_or_marker(TokenKind::Integer, "integer or bind marker")
    }

    /// Parses a duration or a bind marker: the operand of `TIMEOUT`.
    pub(super) fn duration_or_marker(&mut self) -> Result<Expression<'a>> {
        self.literal_or_marker(TokenKind::Duration, "duration or bind marker")
    }

    /// Parses a string or a bind marker: the document of `INSERT JSON`.
    pub(super) fn string_or_marker(&mut self) -> Result<Expression<'a>> {
        let dollar = self.is(TokenKind::DollarString);
        let kind = if dollar { TokenKind::DollarString } else { TokenKind::String };
        self.literal_or_marker(kind, "string or bind marker")
    }

    fn literal_or_marker(
        &mut self,
        kind: TokenKind,
        expected: &'static str,
    ) -> Result<Expression<'a>> {
        let position = self.position();
        if self.is_marker(0) {
            return self.marker_expression();
        }
        let after_sign = usize::from(self.is(TokenKind::Minus));
        if self.kind(after_sign) != kind {
            return Err(self.expected(expected));
        }
        let literal = self.literal().ok_or_else(|| self.expected(expected))?;
        Ok(Expression { kind: ExpressionKind::Literal(literal), position })
    }
}
