//! Parses `SELECT`.

use super::{Parser, Result};
use crate::grammar::ast::{Ordering, Select};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    pub(super) fn select(&mut self) -> Result<Select<'a>> {
        let position = self.position();
        self.keyword(Keyword::SELECT)?;
        let json = self.select_modifier(Keyword::JSON);
        let distinct = self.select_modifier(Keyword::DISTINCT);
        let selection = self.selection()?;
        self.keyword(Keyword::FROM)?;
        let table = self.qualified_name("name of a table")?;
        let where_clause = self.clause(Keyword::WHERE, Self::where_clause)?.unwrap_or_default();
        let group_by = self.by(Keyword::GROUP, Self::selector)?;
        let order_by = self.by(Keyword::ORDER, Self::ordering)?;
        let per_partition_limit = self.clause(Keyword::PER, |parser| {
            parser.keyword(Keyword::PARTITION)?;
            parser.keyword(Keyword::LIMIT)?;
            parser.integer_or_marker()
        })?;
        let limit = self.clause(Keyword::LIMIT, Self::integer_or_marker)?;
        let allow_filtering = self.accept_keyword(Keyword::ALLOW);
        if allow_filtering {
            self.keyword(Keyword::FILTERING)?;
        }
        let bypass_cache = self.is_word_ahead(1, "cache") && self.accept_word("bypass");
        if bypass_cache {
            self.advance();
        }
        let timeout = self.using_timeout()?;
        Ok(Select {
            json,
            distinct,
            selection,
            table,
            where_clause,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
            bypass_cache,
            timeout,
            position,
        })
    }

    /// Consumes `JSON` or `DISTINCT`, unless the word is the name of a column. The next tokens
    /// decide.
    fn select_modifier(&mut self, keyword: Keyword) -> bool {
        let names_column = match self.kind(1) {
            TokenKind::Comma | TokenKind::Dot => true,
            TokenKind::Plus | TokenKind::Slash | TokenKind::Percent => true,
            TokenKind::Keyword(Keyword::FROM) => true,
            // In `SELECT json AS as a`, `json` is the modifier, and the first `AS` is a column.
            TokenKind::Keyword(Keyword::AS) => {
                self.is_name(2) && !(self.is_keyword_ahead(2, Keyword::AS) && self.is_name(3))
            }
            _ => false,
        };
        !names_column && self.accept_keyword(keyword)
    }

    /// Parses `GROUP BY item, ...` or `ORDER BY item, ...`, if it follows.
    fn by<T>(&mut self, keyword: Keyword, item: fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let items = self.clause(keyword, |parser| {
            parser.keyword(Keyword::BY)?;
            parser.list(item)
        })?;
        Ok(items.unwrap_or_default())
    }

    fn ordering(&mut self) -> Result<Ordering<'a>> {
        let column = self.name("name of a column")?;
        let nearest_to = self.clause(Keyword::ANN, |parser| {
            parser.keyword(Keyword::OF)?;
            parser.term()
        })?;
        let descending = self.accept_keyword(Keyword::DESC);
        if !descending {
            self.accept_keyword(Keyword::ASC);
        }
        Ok(Ordering { column, nearest_to, descending })
    }
}
