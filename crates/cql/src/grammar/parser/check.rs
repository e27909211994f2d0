//! Parses `CHECK`: constraints of columns, as in Cassandra 6.

use super::{Parser, Result, relation::comparison_operator};
use crate::grammar::ast::{Check, CheckKind, ComparisonOperator, Expression};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses `NOT NULL` and `CHECK condition AND ...`, if they follow.
    pub(super) fn checks(&mut self) -> Result<Vec<Check<'a>>> {
        let mut checks = Vec::new();
        if self.is_keyword(Keyword::NOT) {
            checks.push(self.check()?);
        }
        if self.accept_word("check") {
            checks.extend(self.conjunction(Self::check)?);
        }
        Ok(checks)
    }

    fn check(&mut self) -> Result<Check<'a>> {
        let position = self.position();
        if self.accept_keyword(Keyword::NOT) {
            self.keyword(Keyword::NULL)?;
            return Ok(Check { kind: CheckKind::NotNull, position });
        }
        let name = self.name("condition")?;
        let is_call = self.is(TokenKind::LeftParenthesis);
        let arguments = if is_call { self.parenthesized_or_empty(Self::term)? } else { Vec::new() };
        let kind = match self.check_comparison()? {
            Some((operator, value)) if !is_call => CheckKind::Column(name, operator, value),
            comparison => CheckKind::Function { name, arguments, comparison },
        };
        Ok(Check { kind, position })
    }

    fn check_comparison(&mut self) -> Result<Option<(ComparisonOperator, Expression<'a>)>> {
        let Some(operator) = comparison_operator(self.kind(0)) else { return Ok(None) };
        self.advance();
        Ok(Some((operator, self.term()?)))
    }
}
