//! Parses `ALTER`, `DROP` and `TRUNCATE TABLE`.

use super::{Parser, Result};
use crate::grammar::ast::{
    AlterTable, DropTable, Expression, Name, Position, TableChange, TableOptions, Truncate,
};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

const NAME: &str = "name of a table";
const COLUMN: &str = "name of a column";

impl<'a> Parser<'a> {
    /// Parses the text after `ALTER TABLE`.
    pub(super) fn alter_table(&mut self, position: Position) -> Result<AlterTable<'a>> {
        let if_exists = self.if_exists()?;
        let name = self.qualified_name(NAME)?;
        let change = match self.kind(0) {
            TokenKind::Keyword(Keyword::ADD) => self.add_columns()?,
            TokenKind::Keyword(Keyword::DROP) => self.drop_columns()?,
            TokenKind::Keyword(Keyword::ALTER) => self.alter_column()?,
            TokenKind::Keyword(Keyword::RENAME) => {
                self.advance();
                let if_exists = self.if_exists()?;
                TableChange::Rename { if_exists, columns: self.renames(COLUMN)? }
            }
            TokenKind::Keyword(Keyword::WITH) => {
                self.advance();
                let properties = self.properties()?;
                TableChange::Options(TableOptions { properties, ..TableOptions::default() })
            }
            _ => return Err(self.expected("ADD, DROP, ALTER, RENAME or WITH")),
        };
        Ok(AlterTable { name, if_exists, change, position })
    }

    /// Parses the columns of `ADD`. Cassandra 5.0 requires parentheses around several columns;
    /// older versions and ScyllaDB do not.
    fn add_columns(&mut self) -> Result<TableChange<'a>> {
        self.keyword(Keyword::ADD)?;
        let if_not_exists = self.if_not_exists()?;
        let columns = match self.kind(0) {
            TokenKind::LeftParenthesis => self.parenthesized(Self::column_definition)?,
            _ => self.list(Self::column_definition)?,
        };
        Ok(TableChange::Add { if_not_exists, columns })
    }

    fn drop_columns(&mut self) -> Result<TableChange<'a>> {
        self.keyword(Keyword::DROP)?;
        if self.is_keyword(Keyword::COMPACT) && self.is_keyword_ahead(1, Keyword::STORAGE) {
            self.advance();
            self.advance();
            return Ok(TableChange::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let column = |parser: &mut Self| parser.name(COLUMN);
        let columns = match self.kind(0) {
            TokenKind::LeftParenthesis => self.parenthesized(column)?,
            _ => self.list(column)?,
        };
        let timestamp = self.clause(Keyword::USING, |parser| {
            parser.keyword(Keyword::TIMESTAMP)?;
            parser.integer()
        })?;
        Ok(TableChange::Drop { if_exists, columns, timestamp })
    }

    fn integer(&mut self) -> Result<Expression<'a>> {
        let marker = self.is_marker(0);
        if marker { Err(self.expected("integer")) } else { self.integer_or_marker() }
    }

    fn alter_column(&mut self) -> Result<TableChange<'a>> {
        self.keyword(Keyword::ALTER)?;
        let if_exists = self.if_exists()?;
        let column = self.name(COLUMN)?;
        Ok(match self.kind(0) {
            TokenKind::Keyword(Keyword::TYPE) if !if_exists => {
                self.advance();
                TableChange::ColumnType { column, type_name: self.type_name()? }
            }
            TokenKind::Keyword(Keyword::DROP) => {
                self.advance();
                if self.accept_word("check") {
                    return Ok(TableChange::ColumnCheck { if_exists, column, checks: Vec::new() });
                }
                self.keyword(Keyword::MASKED)?;
                TableChange::ColumnMask { if_exists, column, mask: None }
            }
            TokenKind::Keyword(Keyword::MASKED) => {
                let mask = Some(self.column_mask()?);
                TableChange::ColumnMask { if_exists, column, mask }
            }
            _ if self.is_word_ahead(0, "check") => {
                TableChange::ColumnCheck { if_exists, column, checks: self.checks()? }
            }
            _ => return Err(self.expected("TYPE, MASKED or DROP MASKED")),
        })
    }

    /// Parses `a TO b AND ...`.
    pub(super) fn renames(&mut self, expected: &'static str) -> Result<Vec<(Name<'a>, Name<'a>)>> {
        self.conjunction(|parser| {
            let from = parser.name(expected)?;
            parser.keyword(Keyword::TO)?;
            Ok((from, parser.name(expected)?))
        })
    }

    /// Parses the text after `DROP TABLE`.
    pub(super) fn drop_table(&mut self, position: Position) -> Result<DropTable<'a>> {
        let if_exists = self.if_exists()?;
        Ok(DropTable { name: self.qualified_name(NAME)?, if_exists, position })
    }

    pub(super) fn truncate(&mut self) -> Result<Truncate<'a>> {
        let position = self.position();
        self.keyword(Keyword::TRUNCATE)?;
        if !self.accept_keyword(Keyword::TABLE) {
            self.accept_keyword(Keyword::COLUMNFAMILY);
        }
        let table = self.qualified_name(NAME)?;
        let timeout = self.using_timeout()?;
        Ok(Truncate { table, timeout, position })
    }
}
