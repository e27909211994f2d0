//! Parses `CREATE`, `ALTER` and `DROP TYPE`.

use super::{Parser, Result};
use crate::grammar::ast::{AlterType, CreateType, DropType, Position, TypeChange};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

const FIELD: &str = "name of a field";

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE TYPE`.
    pub(super) fn create_type(&mut self, position: Position) -> Result<CreateType<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_type_name()?;
        let mut fields = Vec::new();
        self.definitions(|parser| {
            fields.push((parser.name(FIELD)?, parser.type_name()?));
            Ok(())
        })?;
        Ok(CreateType { name, if_not_exists, fields, position })
    }

    /// Parses the text after `ALTER TYPE`.
    pub(super) fn alter_type(&mut self, position: Position) -> Result<AlterType<'a>> {
        let if_exists = self.if_exists()?;
        let name = self.user_type_name()?;
        let change = match self.kind(0) {
            TokenKind::Keyword(Keyword::ADD) => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                let field = self.name(FIELD)?;
                TypeChange::Add { if_not_exists, field, type_name: self.type_name()? }
            }
            TokenKind::Keyword(Keyword::RENAME) => {
                self.advance();
                let if_exists = self.if_exists()?;
                TypeChange::Rename { if_exists, fields: self.renames(FIELD)? }
            }
            TokenKind::Keyword(Keyword::ALTER) => {
                self.advance();
                let field = self.name(FIELD)?;
                self.keyword(Keyword::TYPE)?;
                TypeChange::FieldType { field, type_name: self.type_name()? }
            }
            _ => return Err(self.expected("ADD, RENAME or ALTER")),
        };
        Ok(AlterType { name, if_exists, change, position })
    }

    /// Parses the text after `DROP TYPE`.
    pub(super) fn drop_type(&mut self, position: Position) -> Result<DropType<'a>> {
        let if_exists = self.if_exists()?;
        Ok(DropType { name: self.user_type_name()?, if_exists, position })
    }
}
