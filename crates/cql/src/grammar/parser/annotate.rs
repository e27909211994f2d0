//! `COMMENT ON` and `SECURITY LABEL ON`, as in Cassandra 6. Their words are no keywords.

use super::{Parser, Result};
use crate::grammar::ast::{Annotate, AnnotateTarget, Name, QualifiedName};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses the statement, if it follows.
    pub(super) fn annotate(&mut self) -> Result<Option<Annotate<'a>>> {
        let is_label = self.is_word_ahead(0, "security") && self.is_word_ahead(1, "label");
        if is_label {
            self.advance();
            self.advance();
            // The node stores one label for each object, without the provider.
            if self.accept_word("for") {
                self.name("name of a provider")?;
            }
        } else if !self.accept_word("comment") {
            return Ok(None);
        }
        self.keyword(Keyword::ON)?;
        let target = self.annotate_target()?;
        self.keyword(Keyword::IS)?;
        let text = if self.accept_keyword(Keyword::NULL) {
            None
        } else {
            Some(self.string().ok_or_else(|| self.expected("string or NULL"))?)
        };
        Ok(Some(Annotate { is_label, target, text }))
    }

    fn annotate_target(&mut self) -> Result<AnnotateTarget<'a>> {
        if self.accept_keyword(Keyword::KEYSPACE) {
            return Ok(AnnotateTarget::Keyspace(self.name("name of a keyspace")?));
        }
        if self.accept_keyword(Keyword::TABLE) || self.accept_keyword(Keyword::COLUMNFAMILY) {
            return Ok(AnnotateTarget::Table(self.qualified_name("name of a table")?));
        }
        if self.accept_keyword(Keyword::TYPE) {
            return Ok(AnnotateTarget::Type(self.user_type_name()?));
        }
        if self.accept_word("column") {
            let (table, column) = self.part_name("name of a column")?;
            return Ok(AnnotateTarget::Column(table, column));
        }
        if self.accept_word("field") {
            let (definition, field) = self.part_name("name of a field")?;
            return Ok(AnnotateTarget::Field(definition, field));
        }
        Err(self.expected("KEYSPACE, TABLE, COLUMN, TYPE or FIELD"))
    }

    /// Parses `owner.part` or `keyspace.owner.part`.
    fn part_name(&mut self, expected: &'static str) -> Result<(QualifiedName<'a>, Name<'a>)> {
        let first = self.name(expected)?;
        self.expect(TokenKind::Dot, "'.'")?;
        let second = self.name(expected)?;
        if !self.accept(TokenKind::Dot) {
            return Ok((QualifiedName { keyspace: None, name: first }, second));
        }
        let part = self.name(expected)?;
        Ok((QualifiedName { keyspace: Some(first), name: second }, part))
    }
}
