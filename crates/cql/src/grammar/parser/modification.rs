//! `DELETE` and `BATCH`, and the parts that all writes share: `USING` and `IF`.

use super::{Parser, Result};
use crate::grammar::ast::{
    Batch, BatchKind, Condition, Delete, DeleteTarget, Expression, Modification, Using,
};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses an `INSERT`, `UPDATE` or `DELETE`, if one follows.
    pub(super) fn modification(&mut self) -> Result<Option<Modification<'a>>> {
        Ok(Some(match self.kind(0) {
            TokenKind::Keyword(Keyword::INSERT) => Modification::Insert(self.insert()?),
            TokenKind::Keyword(Keyword::UPDATE) => Modification::Update(self.update()?),
            TokenKind::Keyword(Keyword::DELETE) => Modification::Delete(self.delete()?),
            _ => return Ok(None),
        }))
    }

    fn delete(&mut self) -> Result<Delete<'a>> {
        let position = self.position();
        self.keyword(Keyword::DELETE)?;
        let whole = self.is_keyword(Keyword::FROM);
        let targets = if whole { Vec::new() } else { self.list(Self::delete_target)? };
        self.keyword(Keyword::FROM)?;
        let table = self.qualified_name("name of a table")?;
        let using = self.using_options(false)?;
        self.keyword(Keyword::WHERE)?;
        let where_clause = self.where_clause()?;
        let condition = self.if_condition()?;
        Ok(Delete { targets, table, using, where_clause, condition, position })
    }

    fn delete_target(&mut self) -> Result<DeleteTarget<'a>> {
        let column = self.name("FROM or name of a column")?;
        Ok(match self.kind(0) {
            TokenKind::LeftBracket => DeleteTarget::Element(column, self.element_key()?),
            TokenKind::Dot => {
                self.advance();
                DeleteTarget::Field(column, self.name("name of a field")?)
            }
            _ => DeleteTarget::Column(column),
        })
    }

    pub(super) fn batch(&mut self) -> Result<Batch<'a>> {
        let position = self.position();
        self.keyword(Keyword::BEGIN)?;
        let kind = if self.accept_keyword(Keyword::UNLOGGED) {
            BatchKind::Unlogged
        } else if self.accept_keyword(Keyword::COUNTER) {
            BatchKind::Counter
        } else {
            self.accept_word("logged");
            BatchKind::Logged
        };
        self.keyword(Keyword::BATCH)?;
        let using = self.using()?;
        let mut statements = Vec::new();
        while let Some(statement) = self.modification()? {
            statements.push(statement);
            self.accept(TokenKind::Semicolon);
        }
        self.expect(TokenKind::Keyword(Keyword::APPLY), "INSERT, UPDATE, DELETE or APPLY")?;
        self.keyword(Keyword::BATCH)?;
        Ok(Batch { kind, using, statements, position })
    }

    /// Parses `USING option AND ...`, if it follows. Of several options with the same name, the
    /// last one counts, as in Cassandra.
    pub(super) fn using(&mut self) -> Result<Using<'a>> {
        self.using_options(true)
    }

    fn using_options(&mut self, may_expire: bool) -> Result<Using<'a>> {
        let mut using = Using::default();
        if !self.accept_keyword(Keyword::USING) {
            return Ok(using);
        }
        self.conjunction(|parser| {
            if parser.accept_keyword(Keyword::TIMESTAMP) {
                using.timestamp = Some(parser.integer_or_marker()?);
            } else if may_expire && parser.accept_keyword(Keyword::TTL) {
                using.time_to_live = Some(parser.integer_or_marker()?);
            } else if parser.accept_word("timeout") {
                using.timeout = Some(parser.duration_or_marker()?);
            } else {
                return Err(parser.expected(if may_expire {
                    "TIMESTAMP or TTL"
                } else {
                    "TIMESTAMP"
                }));
            }
            Ok(())
        })?;
        Ok(using)
    }

    /// Parses `USING TIMEOUT duration`, if it follows.
    pub(super) fn using_timeout(&mut self) -> Result<Option<Expression<'a>>> {
        if !(self.is_keyword(Keyword::USING) && self.is_word_ahead(1, "timeout")) {
            return Ok(None);
        }
        self.advance();
        self.advance();
        self.duration_or_marker().map(Some)
    }

    /// Parses `IF condition`, if it follows.
    pub(super) fn if_condition(&mut self) -> Result<Condition<'a>> {
        if self.accept_keyword(Keyword::IF) { self.condition() } else { Ok(Condition::None) }
    }
}
