//! Parses `CREATE`, `ALTER` and `DROP KEYSPACE`, and `USE`.

use super::{Parser, Result};
use crate::grammar::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Position, Use};
use crate::grammar::keyword::Keyword;

const NAME: &str = "name of a keyspace";

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE KEYSPACE`.
    pub(super) fn create_keyspace(&mut self, position: Position) -> Result<CreateKeyspace<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name(NAME)?;
        self.keyword(Keyword::WITH)?;
        let properties = self.properties()?;
        Ok(CreateKeyspace { name, if_not_exists, properties, position })
    }

    /// Parses the text after `ALTER KEYSPACE`.
    pub(super) fn alter_keyspace(&mut self, position: Position) -> Result<AlterKeyspace<'a>> {
        let if_exists = self.if_exists()?;
        let name = self.name(NAME)?;
        self.keyword(Keyword::WITH)?;
        let properties = self.properties()?;
        Ok(AlterKeyspace { name, if_exists, properties, position })
    }

    /// Parses the text after `DROP KEYSPACE`.
    pub(super) fn drop_keyspace(&mut self, position: Position) -> Result<DropKeyspace<'a>> {
        let if_exists = self.if_exists()?;
        Ok(DropKeyspace { name: self.name(NAME)?, if_exists, position })
    }

    pub(super) fn use_keyspace(&mut self) -> Result<Use<'a>> {
        let position = self.position();
        self.keyword(Keyword::USE)?;
        Ok(Use { keyspace: self.name(NAME)?, position })
    }
}
