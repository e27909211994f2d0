//! Statements that only ScyllaDB has. This node does not support them, so the parser skips the
//! content of such a statement, and the error names the statement.

use super::{Parser, Result, statement::unsupported};
use crate::grammar::ast::{Feature, Unsupported};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses a statement that only ScyllaDB has, if one follows.
    pub(super) fn scylla_statement(&mut self) -> Result<Option<Unsupported<'a>>> {
        let position = self.position();
        if self.is_word_ahead(0, "prune") && self.is_keyword_ahead(1, Keyword::MATERIALIZED) {
            self.advance();
            self.advance();
            self.keyword(Keyword::VIEW)?;
            let name = self.qualified_name("name of a view")?;
            self.skip_rest();
            let (statement, feature) = ("PRUNE MATERIALIZED VIEW", Feature::PrunedViews);
            return Ok(Some(unsupported(statement, feature, Some(name), position)));
        }
        let statement = match self.kind(0) {
            TokenKind::Keyword(Keyword::CREATE) if self.is_service_level(1) => {
                "CREATE SERVICE LEVEL"
            }
            TokenKind::Keyword(Keyword::ALTER) if self.is_service_level(1) => "ALTER SERVICE LEVEL",
            TokenKind::Keyword(Keyword::DROP) if self.is_service_level(1) => "DROP SERVICE LEVEL",
            TokenKind::Keyword(Keyword::LIST) if self.is_word_ahead(1, "attached") => {
                "LIST ATTACHED SERVICE LEVEL"
            }
            TokenKind::Keyword(Keyword::LIST) if self.is_word_ahead(1, "effective") => {
                "LIST EFFECTIVE SERVICE LEVEL"
            }
            TokenKind::Keyword(Keyword::LIST)
                if self.is_service_level(1)
                    || self.is_keyword_ahead(1, Keyword::ALL) && self.is_service_level(2) =>
            {
                "LIST SERVICE LEVEL"
            }
            _ if self.is_word_ahead(0, "attach") && self.is_service_level(1) => {
                "ATTACH SERVICE LEVEL"
            }
            _ if self.is_word_ahead(0, "detach") && self.is_service_level(1) => {
                "DETACH SERVICE LEVEL"
            }
            _ => return Ok(None),
        };
        self.skip_rest();
        Ok(Some(unsupported(statement, Feature::ServiceLevels, None, position)))
    }

    /// Returns whether `SERVICE LEVEL`, `SERVICE_LEVEL` or a plural of it begins `ahead` tokens
    /// after the current one.
    fn is_service_level(&self, ahead: usize) -> bool {
        let joined = ["service_level", "service_levels"];
        let is = |ahead, word: &&str| self.is_word_ahead(ahead, word);
        joined.iter().any(|word| is(ahead, word))
            || self.is_word_ahead(ahead, "service")
                && ["level", "levels"].iter().any(|word| is(ahead + 1, word))
    }

    /// Skips the rest of the statement. An invalid token ends the text, as the end does.
    fn skip_rest(&mut self) {
        use TokenKind::{End, Invalid, Semicolon};
        while !matches!(self.kind(0), Semicolon | End | Invalid(_)) {
            self.advance();
        }
    }
}
