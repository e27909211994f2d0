//! Parses terms: expressions that read no row.

use super::{Parser, Result};
use crate::grammar::ast::{Expression, ExpressionKind, FunctionCall};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses any term.
    pub(super) fn term(&mut self) -> Result<Expression<'a>> {
        self.nested(|parser| parser.arithmetic(Self::term_operand, false))
    }

    /// Parses any term, but leaves a `+` before a column's name (see `arithmetic`).
    pub(super) fn term_before_column(&mut self) -> Result<Expression<'a>> {
        self.nested(|parser| parser.arithmetic(Self::term_operand, true))
    }

    fn term_operand(&mut self) -> Result<Expression<'a>> {
        let position = self.position();
        if self.is_literal(0) || !self.accept(TokenKind::Minus) {
            return self.simple_term();
        }
        let kind = ExpressionKind::Negate(Box::new(self.simple_term()?));
        Ok(Expression { kind, position })
    }

    /// Parses a term without operators.
    fn simple_term(&mut self) -> Result<Expression<'a>> {
        let position = self.position();
        if let Some(literal) = self.literal() {
            return Ok(Expression { kind: ExpressionKind::Literal(literal), position });
        }
        let kind = match self.kind(0) {
            TokenKind::QuestionMark | TokenKind::Colon => {
                ExpressionKind::BindMarker(self.marker()?)
            }
            TokenKind::LeftParenthesis => match self.type_in_parentheses() {
                Some(type_name) => {
                    let operand = self.nested(Self::simple_term)?;
                    ExpressionKind::TypeHint(type_name, Box::new(operand))
                }
                None => ExpressionKind::Tuple(self.parenthesized(Self::term)?),
            },
            TokenKind::LeftBracket => ExpressionKind::List(self.bracketed(Self::term)?),
            TokenKind::LeftBrace => self.braces()?,
            TokenKind::Keyword(Keyword::NULL) => {
                self.advance();
                ExpressionKind::Null
            }
            TokenKind::Keyword(Keyword::CAST) if self.kind(1) == TokenKind::LeftParenthesis => {
                self.cast(Self::simple_term)?
            }
            _ if self.is_function(0) => ExpressionKind::Function(self.function_call(Self::term)?),
            _ if self.is_reference() => return self.reference(),
            _ => return Err(self.expected("term")),
        };
        Ok(Expression { kind, position })
    }

    /// Parses `CAST(operand AS type)`.
    pub(super) fn cast(
        &mut self,
        operand: fn(&mut Self) -> Result<Expression<'a>>,
    ) -> Result<ExpressionKind<'a>> {
        self.keyword(Keyword::CAST)?;
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        let operand = self.nested(operand)?;
        self.keyword(Keyword::AS)?;
        let type_name = self.native_type()?;
        self.expect(TokenKind::RightParenthesis, "')'")?;
        Ok(ExpressionKind::Cast(Box::new(operand), type_name))
    }

    /// Returns whether a function call begins `ahead` tokens after the current one.
    pub(super) fn is_function(&self, ahead: usize) -> bool {
        let is_qualified = self.is_name(ahead) && self.kind(ahead + 1) == TokenKind::Dot;
        let name = if is_qualified { ahead + 2 } else { ahead };
        self.is_function_name(name) && self.kind(name + 1) == TokenKind::LeftParenthesis
    }

    /// Parses `f(argument, ...)`.
    pub(super) fn function_call(
        &mut self,
        argument: fn(&mut Self) -> Result<Expression<'a>>,
    ) -> Result<FunctionCall<'a>> {
        let name = self.function_name()?;
        Ok(FunctionCall { name, arguments: self.parenthesized_or_empty(argument)? })
    }

    /// Parses `[item, ...]`, perhaps empty.
    pub(super) fn bracketed(
        &mut self,
        item: fn(&mut Self) -> Result<Expression<'a>>,
    ) -> Result<Vec<Expression<'a>>> {
        self.expect(TokenKind::LeftBracket, "'['")?;
        self.list_until(TokenKind::RightBracket, "']'", item)
    }

    /// Parses `{}`, `{a, b}`, `{k: v}` or `{field: v}` of terms.
    fn braces(&mut self) -> Result<ExpressionKind<'a>> {
        if !(self.is_name(1) && self.kind(2) == TokenKind::Colon) {
            return self.set_or_map(Self::term);
        }
        self.advance();
        let fields = self.list(|parser| {
            let field = parser.name("name of a field")?;
            parser.expect(TokenKind::Colon, "':'")?;
            Ok((field, parser.term()?))
        })?;
        self.expect(TokenKind::RightBrace, "'}'")?;
        Ok(ExpressionKind::UserDefined(fields))
    }

    /// Parses `{}`, `{a, b}` or `{k: v}`.
    pub(super) fn set_or_map(
        &mut self,
        item: fn(&mut Self) -> Result<Expression<'a>>,
    ) -> Result<ExpressionKind<'a>> {
        self.expect(TokenKind::LeftBrace, "'{'")?;
        if self.accept(TokenKind::RightBrace) {
            return Ok(ExpressionKind::Set(Vec::new()));
        }
        let first = item(self)?;
        let kind = if self.accept(TokenKind::Colon) {
            let mut entries = vec![(first, item(self)?)];
            while self.accept(TokenKind::Comma) {
                let key = item(self)?;
                self.expect(TokenKind::Colon, "':'")?;
                entries.push((key, item(self)?));
            }
            ExpressionKind::Map(entries)
        } else {
            let mut items = vec![first];
            while self.accept(TokenKind::Comma) {
                items.push(item(self)?);
            }
            ExpressionKind::Set(items)
        };
        self.expect(TokenKind::RightBrace, "'}'")?;
        Ok(kind)
    }

    /// Consumes `(type)` and returns the type if the next token may begin a value. Otherwise, the
    /// parser does not advance. The parser need not try the value itself, because such a token
    /// cannot follow a tuple. The exception is a `[` in a selector (see `hint_or_tuple`).
    pub(super) fn type_in_parentheses(&mut self) -> Option<crate::grammar::ast::TypeName<'a>> {
        if !self.may_be_type(1) {
            return None;
        }
        let start = self.checkpoint();
        self.advance();
        if let Ok(type_name) = self.type_name()
            && self.accept(TokenKind::RightParenthesis)
            && self.begins_hinted()
        {
            return Some(type_name);
        }
        self.return_to(start);
        None
    }

    /// Returns whether the current token may follow a type in parentheses.
    fn begins_hinted(&self) -> bool {
        match self.kind(0) {
            TokenKind::LeftParenthesis | TokenKind::LeftBracket | TokenKind::LeftBrace => true,
            // In `SELECT (a) AS b`, `AS` is no column.
            TokenKind::Keyword(Keyword::AS) => !self.is_name(1),
            TokenKind::Keyword(Keyword::NULL | Keyword::TOKEN) => true,
            TokenKind::Colon => self.is_name(1),
            _ => self.is_literal(0) || self.is_marker(0) || self.is_name(0),
        }
    }
}
