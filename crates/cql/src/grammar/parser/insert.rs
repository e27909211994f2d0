//! Parses `INSERT`.

use super::{Parser, Result};
use crate::grammar::ast::{Insert, InsertSource};
use crate::grammar::keyword::Keyword;

impl<'a> Parser<'a> {
    pub(super) fn insert(&mut self) -> Result<Insert<'a>> {
        let position = self.position();
        self.keyword(Keyword::INSERT)?;
        self.keyword(Keyword::INTO)?;
        let table = self.qualified_name("name of a table")?;
        let json = self.accept_keyword(Keyword::JSON);
        let source = if json { self.json_source()? } else { self.values_source()? };
        let if_not_exists = self.if_not_exists()?;
        let using = self.using()?;
        Ok(Insert { table, source, if_not_exists, using, position })
    }

    fn values_source(&mut self) -> Result<InsertSource<'a>> {
        let columns = self.parenthesized(|parser| parser.name("name of a column"))?;
        self.keyword(Keyword::VALUES)?;
        let values = self.parenthesized(Self::term)?;
        Ok(InsertSource::Values { columns, values })
    }

    fn json_source(&mut self) -> Result<InsertSource<'a>> {
        let document = self.string_or_marker()?;
        let mut default_unset = false;
        if self.accept_keyword(Keyword::DEFAULT) {
            default_unset = self.accept_keyword(Keyword::UNSET);
            if !default_unset && !self.accept_keyword(Keyword::NULL) {
                return Err(self.expected("NULL or UNSET"));
            }
        }
        Ok(InsertSource::Json { document, default_unset })
    }
}
