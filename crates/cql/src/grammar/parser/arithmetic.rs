//! Parses arithmetic over terms and over selectors.

use super::{Parser, Result};
use crate::grammar::ast::{Arithmetic, ArithmeticOperator, Expression, ExpressionKind};
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses `a + b * c - d`. With `before_column`, the chain ends at a `+` before a column's
    /// name, because in `SET c = 1 + 2 + c` the last `+` prepends the term to the column.
    pub(super) fn arithmetic(
        &mut self,
        operand: fn(&mut Self) -> Result<Expression<'a>>,
        before_column: bool,
    ) -> Result<Expression<'a>> {
        let outer_depth = std::mem::replace(&mut self.deepest, self.nesting);
        let first = self.product(operand)?;
        let mut rest = Vec::new();
        loop {
            let operator = match self.kind(0) {
                TokenKind::Plus if before_column && self.is_column(1) => break,
                TokenKind::Plus => ArithmeticOperator::Add,
                TokenKind::Minus => ArithmeticOperator::Subtract,
                _ => break,
            };
            self.advance();
            rest.push((operator, self.product(operand)?));
            // `a + b + c` is a flat list here, but the planner makes a deep tree of calls from it.
            self.deepen()?;
        }
        self.deepest = self.deepest.max(outer_depth);
        Ok(chain(first, rest))
    }

    fn product(
        &mut self,
        operand: fn(&mut Self) -> Result<Expression<'a>>,
    ) -> Result<Expression<'a>> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        loop {
            let operator = match self.kind(0) {
                TokenKind::Star => ArithmeticOperator::Multiply,
                TokenKind::Slash => ArithmeticOperator::Divide,
                TokenKind::Percent => ArithmeticOperator::Modulo,
                _ => break,
            };
            self.advance();
            rest.push((operator, operand(self)?));
            self.deepen()?;
        }
        Ok(chain(first, rest))
    }

    /// Returns whether the token that is `ahead` tokens after the current one names a column, and
    /// does not begin a term.
    pub(super) fn is_column(&self, ahead: usize) -> bool {
        let next = self.kind(ahead + 1);
        self.is_name(ahead) && !matches!(next, TokenKind::LeftParenthesis | TokenKind::Dot)
    }
}

fn chain<'a>(
    first: Expression<'a>,
    rest: Vec<(ArithmeticOperator, Expression<'a>)>,
) -> Expression<'a> {
    if rest.is_empty() {
        return first;
    }
    let position = first.position;
    let kind = ExpressionKind::Arithmetic(Arithmetic { first: Box::new(first), rest });
    Expression { kind, position }
}
