//! Parses materialized views.

use super::{Failure, Parser, Result};
use crate::grammar::ast::{AlterView, CreateView, DropObject, ObjectKind, Position};
use crate::grammar::keyword::Keyword;

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE MATERIALIZED`.
    pub(super) fn create_view(&mut self, position: Position) -> Result<CreateView<'a>> {
        self.keyword(Keyword::VIEW)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified_name("name of a view")?;
        self.keyword(Keyword::AS)?;
        self.keyword(Keyword::SELECT)?;
        let selection = self.selection()?;
        self.keyword(Keyword::FROM)?;
        let base = self.qualified_name("name of a table")?;
        let where_clause = self.clause(Keyword::WHERE, Self::where_clause)?.unwrap_or_default();
        let primary_key = self.primary_key()?;
        let options = self.clause(Keyword::WITH, Self::table_options)?.unwrap_or_default();
        if let Some(compact) = options.compact_storage {
            let message = "COMPACT STORAGE is not for materialized views".into();
            return Err(Failure::message(self.token_at(compact), message));
        }
        Ok(CreateView {
            name,
            if_not_exists,
            selection,
            base,
            where_clause,
            primary_key,
            options,
            position,
        })
    }

    /// Parses the text after `ALTER MATERIALIZED`.
    pub(super) fn alter_view(&mut self, position: Position) -> Result<AlterView<'a>> {
        self.keyword(Keyword::VIEW)?;
        let if_exists = self.if_exists()?;
        let name = self.qualified_name("name of a view")?;
        self.keyword(Keyword::WITH)?;
        Ok(AlterView { name, if_exists, properties: self.properties()?, position })
    }

    /// Parses the text after `DROP MATERIALIZED`.
    pub(super) fn drop_view(&mut self, position: Position) -> Result<DropObject<'a>> {
        self.keyword(Keyword::VIEW)?;
        let if_exists = self.if_exists()?;
        let name = self.qualified_name("name of a view")?;
        Ok(DropObject { kind: ObjectKind::MaterializedView, name, if_exists, position })
    }
}
