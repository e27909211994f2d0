//! Selectors: the expressions that a `SELECT` computes from each row.

use super::{Parser, Result};
use crate::grammar::ast::{
    CellMetadata, Expression, ExpressionKind, Selection, Selector, TypeName,
};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses `*`, or selectors with commas between them.
    pub(super) fn selection(&mut self) -> Result<Selection<'a>> {
        if self.accept(TokenKind::Star) {
            return Ok(Selection::All);
        }
        Ok(Selection::Selectors(self.list(|parser| {
            let expression = parser.selector()?;
            let alias = parser.clause(Keyword::AS, |parser| parser.name("alias"))?;
            Ok(Selector { expression, alias })
        })?))
    }

    /// Parses any selector, without an alias.
    pub(super) fn selector(&mut self) -> Result<Expression<'a>> {
        self.nested(|parser| parser.arithmetic(Self::selector_operand, false))
    }

    fn selector_operand(&mut self) -> Result<Expression<'a>> {
        let position = self.position();
        if self.is_literal(0) || !self.accept(TokenKind::Minus) {
            return self.with_modifiers(Self::simple_selector);
        }
        let operand = self.nested(Self::selector_operand)?;
        Ok(Expression { kind: ExpressionKind::Negate(Box::new(operand)), position })
    }

    /// Parses a selector and any number of `.field`, `[key]` and `[from..to]` after it.
    pub(super) fn with_modifiers(
        &mut self,
        base: fn(&mut Self) -> Result<Expression<'a>>,
    ) -> Result<Expression<'a>> {
        let outer_depth = std::mem::replace(&mut self.deepest, self.nesting);
        let mut expression = base(self)?;
        loop {
            let position = expression.position;
            let kind = match self.kind(0) {
                TokenKind::Dot => {
                    self.advance();
                    let field = self.name("name of a field")?;
                    ExpressionKind::Field(Box::new(expression), field)
                }
                TokenKind::LeftBracket => self.element_or_slice(expression)?,
                _ => break,
            };
            // `a.b.c.d` makes a deep tree without recursion here, but later passes recurse over it.
            self.deepen()?;
            expression = Expression { kind, position };
        }
        self.deepest = self.deepest.max(outer_depth);
        Ok(expression)
    }

    fn element_or_slice(&mut self, base: Expression<'a>) -> Result<ExpressionKind<'a>> {
        let base = Box::new(base);
        self.expect(TokenKind::LeftBracket, "'['")?;
        let kind = if self.accept(TokenKind::Range) {
            ExpressionKind::Slice(base, None, Some(Box::new(self.term()?)))
        } else {
            let first = Box::new(self.term()?);
            if self.accept(TokenKind::Range) {
                let is_open = self.is(TokenKind::RightBracket);
                let to = if is_open { None } else { Some(Box::new(self.term()?)) };
                ExpressionKind::Slice(base, Some(first), to)
            } else {
                ExpressionKind::Element(base, first)
            }
        };
        self.expect(TokenKind::RightBracket, "']'")?;
        Ok(kind)
    }

    /// Parses a selector without operators and modifiers.
    fn simple_selector(&mut self) -> Result<Expression<'a>> {
        let position = self.position();
        if let Some(literal) = self.literal() {
            return Ok(Expression { kind: ExpressionKind::Literal(literal), position });
        }
        let called = self.kind(1) == TokenKind::LeftParenthesis;
        let kind = match self.kind(0) {
            TokenKind::QuestionMark | TokenKind::Colon => {
                ExpressionKind::BindMarker(self.marker()?)
            }
            TokenKind::LeftParenthesis => self.hint_or_tuple()?,
            TokenKind::LeftBracket => ExpressionKind::List(self.bracketed(Self::selector)?),
            TokenKind::LeftBrace => self.set_or_map(Self::selector)?,
            TokenKind::Keyword(Keyword::NULL) => {
                self.advance();
                ExpressionKind::Null
            }
            TokenKind::Keyword(Keyword::CAST) if called => self.cast(Self::selector)?,
            TokenKind::Keyword(Keyword::COUNT) if called && self.kind(2) == TokenKind::Star => {
                self.count_rows()?
            }
            TokenKind::Keyword(Keyword::WRITETIME) if called => {
                self.cell_metadata(CellMetadata::WriteTime)?
            }
            TokenKind::Keyword(Keyword::MAXWRITETIME) if called => {
                self.cell_metadata(CellMetadata::MaximumWriteTime)?
            }
            TokenKind::Keyword(Keyword::TTL) if called => {
                self.cell_metadata(CellMetadata::TimeToLive)?
            }
            _ if self.is_function(0) => {
                ExpressionKind::Function(self.function_call(Self::selector)?)
            }
            _ => ExpressionKind::Column(self.name("selector")?),
        };
        Ok(Expression { kind, position })
    }

    fn count_rows(&mut self) -> Result<ExpressionKind<'a>> {
        self.keyword(Keyword::COUNT)?;
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        self.expect(TokenKind::Star, "'*'")?;
        self.expect(TokenKind::RightParenthesis, "')'")?;
        Ok(ExpressionKind::CountRows)
    }

    fn cell_metadata(&mut self, what: CellMetadata) -> Result<ExpressionKind<'a>> {
        self.advance();
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        let cell = self.with_modifiers(|parser| {
            let column = parser.name("name of a column")?;
            let position = column.position;
            Ok(Expression { kind: ExpressionKind::Column(column), position })
        })?;
        self.expect(TokenKind::RightParenthesis, "')'")?;
        Ok(ExpressionKind::CellMetadata(what, Box::new(cell)))
    }

    /// Parses `(type) selector`, `(selector)` or `(selector, ...)`.
    ///
    /// As in Cassandra, `(a)[1]` is the list `[1]` with the type hint `a`, but `(a)[1..2]` is a
    /// slice. If `[...]` turns out to be no list, the parser parses it again, as terms. Terms have
    /// no such choice, so the cost is bounded.
    fn hint_or_tuple(&mut self) -> Result<ExpressionKind<'a>> {
        let start = self.checkpoint();
        if let Some(type_name) = self.type_in_parentheses() {
            let is_list = self.is(TokenKind::LeftBracket);
            match self.hinted(type_name) {
                Err(_) if is_list => self.return_to(start),
                result => return result,
            }
        }
        Ok(ExpressionKind::Tuple(self.parenthesized(Self::selector)?))
    }

    fn hinted(&mut self, type_name: TypeName<'a>) -> Result<ExpressionKind<'a>> {
        let operand = self.nested(Self::simple_selector)?;
        Ok(ExpressionKind::TypeHint(type_name, Box::new(operand)))
    }
}
