//! Parses secondary indexes and triggers.

use espalier_mutation::schema::IndexPart;

use super::statement::unsupported;
use super::{Parser, Result};
use crate::grammar::ast::{
    CreateIndex, DropObject, Feature, IndexTarget, Name, ObjectKind, Position, QualifiedName,
    Unsupported,
};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE [CUSTOM] INDEX`.
    pub(super) fn create_index(
        &mut self,
        is_custom: bool,
        position: Position,
    ) -> Result<CreateIndex<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = if self.is_name(0) { Some(self.take_name()) } else { None };
        self.keyword(Keyword::ON)?;
        let table = self.qualified_name("name of a table")?;
        let targets = self.parenthesized_or_empty(Self::index_target)?;
        let using = self.clause(Keyword::USING, Self::text_literal)?;
        let properties = self.clause(Keyword::WITH, Self::properties)?.unwrap_or_default();
        Ok(CreateIndex {
            is_custom,
            if_not_exists,
            name,
            table,
            targets,
            using,
            properties,
            position,
        })
    }

    /// Parses `column`, `keys(column)`, ...
    fn index_target(&mut self) -> Result<IndexTarget<'a>> {
        let is_called = self.kind(1) == TokenKind::LeftParenthesis;
        let part = match self.kind(0) {
            TokenKind::Keyword(Keyword::ENTRIES) => IndexPart::Entries,
            TokenKind::Keyword(Keyword::FULL) => IndexPart::Full,
            TokenKind::Keyword(Keyword::KEYS) if is_called => IndexPart::Keys,
            TokenKind::Keyword(Keyword::VALUES) if is_called => IndexPart::Values,
            _ => {
                let column = self.name("name of a column")?;
                return Ok(IndexTarget { part: IndexPart::Simple, column });
            }
        };
        self.advance();
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        let column = self.name("name of a column")?;
        self.expect(TokenKind::RightParenthesis, "')'")?;
        Ok(IndexTarget { part, column })
    }

    /// Parses the text after `DROP INDEX`.
    pub(super) fn drop_index(&mut self, position: Position) -> Result<DropObject<'a>> {
        let if_exists = self.if_exists()?;
        let name = self.qualified_name("name of an index")?;
        Ok(DropObject { kind: ObjectKind::Index, name, if_exists, position })
    }

    /// Parses the text after `CREATE TRIGGER`.
    pub(super) fn create_trigger(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_not_exists()?;
        let (name, _) = self.trigger_of_table()?;
        self.keyword(Keyword::USING)?;
        self.text_literal()?;
        Ok(unsupported("CREATE TRIGGER", Feature::Triggers, Some(name), position))
    }

    /// Parses the text after `DROP TRIGGER`.
    pub(super) fn drop_trigger(&mut self, position: Position) -> Result<DropObject<'a>> {
        let if_exists = self.if_exists()?;
        let (name, table) = self.trigger_of_table()?;
        Ok(DropObject { kind: ObjectKind::Trigger { table }, name, if_exists, position })
    }

    fn trigger_of_table(&mut self) -> Result<(QualifiedName<'a>, QualifiedName<'a>)> {
        let name = unqualified(self.name("name of a trigger")?);
        self.keyword(Keyword::ON)?;
        Ok((name, self.qualified_name("name of a table")?))
    }
}

fn unqualified(name: Name<'_>) -> QualifiedName<'_> {
    QualifiedName { keyspace: None, name }
}
