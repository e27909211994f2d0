//! Parses `SELECT`.

use super::{Parser, Result};
use crate::grammar::ast::{Ordering, Select, WhereClause};
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
        let filtered = self.accept_keyword(Keyword::WHERE);
        let where_clause = if filtered { self.where_clause()? } else { WhereClause::default() };
        let grouped = self.accept_by(Keyword::GROUP)?;
        let group_by = if grouped { self.list(Self::selector)? } else { Vec::new() };
        let ordered = self.accept_by(Keyword::ORDER)?;
        let order_by = if ordered { self.list(Self::ordering)? } else { Vec::new() };
        let per_partition_limit = if self.accept_keyword(Keyword::PER) {
            self.keyword(Keyword::PARTITION)?;
            self.keyword(Keyword::LIMIT)?;
            Some(self.integer_or_marker()?)
        } else {
            None
        };
        let limited = self.accept_keyword(Keyword::LIMIT);
        let limit = if limited { Some(self.integer_or_marker()?) } else { None };
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

    fn accept_by(&mut self, keyword: Keyword) -> Result<bool> {
        let is = self.accept_keyword(keyword);
        if is {
            self.keyword(Keyword::BY)?;
        }
        Ok(is)
    }

    fn ordering(&mut self) -> Result<Ordering<'a>> {
        let column = self.name("name of a column")?;
        let nearest_to = if self.accept_keyword(Keyword::ANN) {
            self.keyword(Keyword::OF)?;
            Some(self.term()?)
        } else {
            None
        };
        let descending = self.accept_keyword(Keyword::DESC);
        if !descending {
            self.accept_keyword(Keyword::ASC);
        }
        Ok(Ordering { column, nearest_to, descending })
    }
}
