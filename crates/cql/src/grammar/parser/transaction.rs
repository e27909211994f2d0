//! Parses `BEGIN TRANSACTION`.

use super::{Parser, Result};
use crate::grammar::ast::{
    Expression, ExpressionKind, Let, Position, Selection, Transaction, TransactionAnswer,
    TransactionCondition, TransactionPredicate,
};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses the text after `BEGIN TRANSACTION`.
    pub(super) fn transaction(&mut self, position: Position) -> Result<Transaction<'a>> {
        self.accept(TokenKind::Semicolon);
        let mut assignments = Vec::new();
        while self.accept_word("let") {
            assignments.push(self.assigned_row()?);
        }
        self.has_references = true;
        let answer = self.transaction_answer()?;
        let mut conditions = Vec::new();
        let is_conditional = self.accept_keyword(Keyword::IF);
        if is_conditional {
            conditions = self.conjunction(Self::transaction_condition)?;
            self.expect_word("then", "THEN")?;
        }
        let mut updates = Vec::new();
        while let Some(update) = self.modification()? {
            updates.push(update);
            self.accept(TokenKind::Semicolon);
        }
        if is_conditional {
            self.expect_word("end", "END")?;
            self.keyword(Keyword::IF)?;
            self.accept(TokenKind::Semicolon);
        }
        self.expect_word("commit", "COMMIT")?;
        self.expect_word("transaction", "TRANSACTION")?;
        self.has_references = false;
        Ok(Transaction { assignments, answer, conditions, updates, position })
    }

    /// Parses the text after `LET`.
    fn assigned_row(&mut self) -> Result<Let<'a>> {
        let name = self.name("name of a row")?;
        self.expect(TokenKind::Equal, "'='")?;
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        let select = self.select()?;
        self.expect(TokenKind::RightParenthesis, "')'")?;
        self.accept(TokenKind::Semicolon);
        Ok(Let { name, select })
    }

    fn transaction_answer(&mut self) -> Result<TransactionAnswer<'a>> {
        if !self.is_keyword(Keyword::SELECT) {
            return Ok(TransactionAnswer::None);
        }
        let start = self.checkpoint();
        self.advance();
        // The parser first tries a list of references. If FROM follows, it parses the selection
        // again as a query. This happens at most once.
        let answer = match self.selection() {
            Ok(Selection::Selectors(selectors)) if !self.is_keyword(Keyword::FROM) => {
                let references = selectors.into_iter().map(|selector| selector.expression);
                TransactionAnswer::References(references.collect())
            }
            _ => {
                self.return_to(start);
                TransactionAnswer::Select(Box::new(self.select()?))
            }
        };
        self.accept(TokenKind::Semicolon);
        Ok(answer)
    }

    fn transaction_condition(&mut self) -> Result<TransactionCondition<'a>> {
        let position = self.position();
        let is_row = self.is_name(0) && self.kind(1) == TokenKind::Keyword(Keyword::IS);
        let left = if is_row {
            let kind = ExpressionKind::Column(self.take_name());
            Expression { kind, position }
        } else {
            self.term()?
        };
        if self.accept_keyword(Keyword::IS) {
            let negated = self.accept_keyword(Keyword::NOT);
            self.keyword(Keyword::NULL)?;
            let predicate = if negated {
                TransactionPredicate::IsNotNull
            } else {
                TransactionPredicate::IsNull
            };
            return Ok(TransactionCondition { left, predicate });
        }
        let Some(operator) = super::relation::comparison_operator(self.kind(0)) else {
            return Err(self.expected("operator"));
        };
        self.advance();
        let predicate = TransactionPredicate::Compare(operator, self.term()?);
        Ok(TransactionCondition { left, predicate })
    }

    /// Returns whether a reference to a row of `LET` begins here: `x.column`.
    pub(super) fn is_reference(&self) -> bool {
        self.has_references
            && self.is_name(0)
            && self.kind(1) == TokenKind::Dot
            && !self.is_function(0)
    }

    /// Parses `x.column`, `x.column[key]` or `x.column.field`.
    pub(super) fn reference(&mut self) -> Result<Expression<'a>> {
        self.with_modifiers(|parser| {
            let position = parser.position();
            Ok(Expression { kind: ExpressionKind::Column(parser.take_name()), position })
        })
    }

    fn expect_word(&mut self, word: &str, expected: &'static str) -> Result<()> {
        if self.accept_word(word) { Ok(()) } else { Err(self.expected(expected)) }
    }
}
