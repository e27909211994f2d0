//! Secondary indexes and triggers.

use super::statement::unsupported;
use super::{Parser, Result};
use crate::grammar::ast::{
    DropObject, Feature, Name, ObjectKind, Position, QualifiedName, Unsupported,
};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE [CUSTOM] INDEX`.
    pub(super) fn create_index(
        &mut self,
        statement: &'static str,
        position: Position,
    ) -> Result<Unsupported<'a>> {
        self.if_not_exists()?;
        let named = self.is_name(0);
        let name = if named { Some(unqualified(self.take_name())) } else { None };
        self.keyword(Keyword::ON)?;
        self.qualified_name("name of a table")?;
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        if !self.is(TokenKind::RightParenthesis) {
            self.list(Self::index_target)?;
        }
        self.expect(TokenKind::RightParenthesis, "')'")?;
        if self.accept_keyword(Keyword::USING) {
            self.required_string()?;
        }
        if self.accept_keyword(Keyword::WITH) {
            self.properties()?;
        }
        Ok(unsupported(statement, Feature::SecondaryIndexes, name, position))
    }

    /// Parses `column`, `keys(column)`, ...
    fn index_target(&mut self) -> Result<()> {
        let TokenKind::Keyword(keyword) = self.kind(0) else {
            return self.name("name of a column").map(drop);
        };
        let called = match keyword {
            Keyword::ENTRIES | Keyword::FULL => true,
            Keyword::KEYS | Keyword::VALUES => self.kind(1) == TokenKind::LeftParenthesis,
            _ => false,
        };
        if !called {
            return self.name("name of a column").map(drop);
        }
        self.advance();
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        self.name("name of a column")?;
        self.expect(TokenKind::RightParenthesis, "')'").map(drop)
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
        self.required_string()?;
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

    /// Takes a string, which is required here.
    pub(super) fn required_string(&mut self) -> Result<()> {
        self.string().map(drop).ok_or_else(|| self.expected("string"))
    }
}

fn unqualified(name: Name<'_>) -> QualifiedName<'_> {
    QualifiedName { keyspace: None, name }
}
