//! Materialized views.

use super::statement::unsupported;
use super::{Failure, Parser, Result};
use crate::grammar::ast::{AlterView, DropObject, Feature, ObjectKind, Position, Unsupported};
use crate::grammar::keyword::Keyword;

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE MATERIALIZED`.
    pub(super) fn create_view(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.keyword(Keyword::VIEW)?;
        self.if_not_exists()?;
        let name = self.qualified_name("name of a view")?;
        self.keyword(Keyword::AS)?;
        self.keyword(Keyword::SELECT)?;
        self.selection()?;
        self.keyword(Keyword::FROM)?;
        self.qualified_name("name of a table")?;
        if self.accept_keyword(Keyword::WHERE) {
            self.where_clause()?;
        }
        self.primary_key()?;
        if self.accept_keyword(Keyword::WITH)
            && let Some(compact) = self.table_options()?.compact_storage
        {
            let message = "COMPACT STORAGE is not for materialized views".into();
            return Err(Failure::message(self.token_at(compact), message));
        }
        let statement = "CREATE MATERIALIZED VIEW";
        Ok(unsupported(statement, Feature::MaterializedViews, Some(name), position))
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
