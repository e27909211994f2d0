//! Parses user-defined functions and aggregates.

use super::statement::unsupported;
use super::{Parser, Result};
use crate::grammar::ast::{DropObject, Feature, ObjectKind, Position, TypeName, Unsupported};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE [OR REPLACE] FUNCTION`.
    pub(super) fn create_function(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_not_exists()?;
        let name = self.function_name()?;
        self.parenthesized_or_empty(|parser| {
            parser.name("name of an argument")?;
            parser.type_name().map(drop)
        })?;
        if self.accept_keyword(Keyword::RETURNS) {
            self.keyword(Keyword::NULL)?;
        } else {
            self.expect(TokenKind::Keyword(Keyword::CALLED), "CALLED or RETURNS NULL")?;
        }
        self.keyword(Keyword::ON)?;
        self.keyword(Keyword::NULL)?;
        self.keyword(Keyword::INPUT)?;
        self.keyword(Keyword::RETURNS)?;
        self.type_name()?;
        self.keyword(Keyword::LANGUAGE)?;
        self.expect(TokenKind::Identifier, "language")?;
        self.keyword(Keyword::AS)?;
        self.text_literal()?;
        let feature = Feature::UserDefinedFunctions;
        Ok(unsupported("CREATE FUNCTION", feature, Some(name), position))
    }

    /// Parses the text after `CREATE [OR REPLACE] AGGREGATE`.
    pub(super) fn create_aggregate(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_not_exists()?;
        let name = self.function_name()?;
        self.argument_types()?;
        self.keyword(Keyword::SFUNC)?;
        self.plain_function_name()?;
        self.keyword(Keyword::STYPE)?;
        self.type_name()?;
        if self.accept_keyword(Keyword::FINALFUNC) {
            self.plain_function_name()?;
        }
        if self.accept_keyword(Keyword::INITCOND) {
            self.term()?;
        }
        let feature = Feature::UserDefinedAggregates;
        Ok(unsupported("CREATE AGGREGATE", feature, Some(name), position))
    }

    /// Parses `(type, ...)`, perhaps empty.
    pub(super) fn argument_types(&mut self) -> Result<Vec<TypeName<'a>>> {
        self.parenthesized_or_empty(Self::type_name)
    }

    /// Parses the text after `DROP FUNCTION` or `DROP AGGREGATE`. `keyword` is the second word.
    pub(super) fn drop_function(
        &mut self,
        keyword: Keyword,
        position: Position,
    ) -> Result<DropObject<'a>> {
        let if_exists = self.if_exists()?;
        let name = self.function_name()?;
        let has_arguments = self.is(TokenKind::LeftParenthesis);
        let arguments = if has_arguments { Some(self.argument_types()?) } else { None };
        let kind = if keyword == Keyword::FUNCTION {
            ObjectKind::Function { arguments }
        } else {
            ObjectKind::Aggregate { arguments }
        };
        Ok(DropObject { kind, name, if_exists, position })
    }
}
