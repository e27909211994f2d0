//! Parses `DESCRIBE`.

use super::{Parser, Result};
use crate::grammar::ast::{Describe, DescribeTarget};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    pub(super) fn describe(&mut self) -> Result<Describe<'a>> {
        // The caller has checked that the word is `DESCRIBE` or `DESC`.
        let position = self.position();
        self.advance();
        let target = self.describe_target()?;
        let with_internals = self.accept_keyword(Keyword::WITH);
        if with_internals {
            self.keyword(Keyword::INTERNALS)?;
        }
        Ok(Describe { target, with_internals, position })
    }

    fn describe_target(&mut self) -> Result<DescribeTarget<'a>> {
        let TokenKind::Keyword(keyword) = self.kind(0) else { return self.describe_any() };
        // The singulars are in `describe_one`. There, a word that may also be a table's name is a
        // table's name unless the next token fits the word.
        let plural = match keyword {
            Keyword::CLUSTER => DescribeTarget::Cluster,
            Keyword::SCHEMA => DescribeTarget::Schema { full: false },
            Keyword::KEYSPACES => DescribeTarget::Keyspaces,
            Keyword::TABLES | Keyword::COLUMNFAMILIES => DescribeTarget::Tables,
            Keyword::TYPES => DescribeTarget::Types,
            Keyword::FUNCTIONS => DescribeTarget::Functions,
            Keyword::AGGREGATES => DescribeTarget::Aggregates,
            _ => return self.describe_one(keyword),
        };
        self.advance();
        Ok(plural)
    }

    fn describe_one(&mut self, keyword: Keyword) -> Result<DescribeTarget<'a>> {
        let is_before_function = self.is_name(1) || self.is_function_name(1);
        match keyword {
            Keyword::FULL => {
                self.advance();
                self.keyword(Keyword::SCHEMA)?;
                Ok(DescribeTarget::Schema { full: true })
            }
            Keyword::KEYSPACE => self.describe_keyspace(false),
            Keyword::ONLY if self.is_keyword_ahead(1, Keyword::KEYSPACE) => {
                self.advance();
                self.describe_keyspace(true)
            }
            Keyword::TABLE | Keyword::COLUMNFAMILY => {
                self.advance();
                Ok(DescribeTarget::Table(self.qualified_name("name of a table")?))
            }
            Keyword::INDEX => {
                self.advance();
                Ok(DescribeTarget::Index(self.qualified_name("name of an index")?))
            }
            Keyword::MATERIALIZED => {
                self.advance();
                self.keyword(Keyword::VIEW)?;
                Ok(DescribeTarget::MaterializedView(self.qualified_name("name of a view")?))
            }
            Keyword::TYPE if self.is_name(1) => {
                self.advance();
                Ok(DescribeTarget::Type(self.user_type_name()?))
            }
            Keyword::FUNCTION if is_before_function => {
                self.advance();
                Ok(DescribeTarget::Function(self.function_name()?))
            }
            Keyword::AGGREGATE if is_before_function => {
                self.advance();
                Ok(DescribeTarget::Aggregate(self.function_name()?))
            }
            _ => self.describe_any(),
        }
    }

    fn describe_keyspace(&mut self, only: bool) -> Result<DescribeTarget<'a>> {
        self.keyword(Keyword::KEYSPACE)?;
        let named = self.is_name(0);
        let name = if named { Some(self.take_name()) } else { None };
        Ok(DescribeTarget::Keyspace { name, only })
    }

    fn describe_any(&mut self) -> Result<DescribeTarget<'a>> {
        Ok(DescribeTarget::Any(self.qualified_name("what to describe")?))
    }
}
