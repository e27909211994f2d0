//! Roles, users and identities: their syntax is checked and their content dropped.

use super::statement::unsupported;
use super::{Failure, Parser, Result};
use crate::grammar::ast::{Feature, Position, Unsupported};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE ROLE`.
    pub(super) fn create_role(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_not_exists()?;
        self.role("CREATE ROLE", position)
    }

    /// Parses the text after `ALTER ROLE`.
    pub(super) fn alter_role(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_exists()?;
        self.role("ALTER ROLE", position)
    }

    fn role(&mut self, statement: &'static str, position: Position) -> Result<Unsupported<'a>> {
        self.role_name()?;
        if self.accept_keyword(Keyword::WITH) {
            let start = self.at;
            let mut given = self.conjunction(Self::role_option)?;
            // The two kinds of password exclude each other. Any other option may come once.
            given.sort_unstable_by_key(|option| option.text());
            if let Some(pair) = given.windows(2).find(|pair| pair[0] == pair[1]) {
                let message = format!("multiple definitions for property '{}'", pair[0].text());
                return Err(Failure::message(start, message));
            }
        }
        Ok(unsupported(statement, Feature::Roles, None, position))
    }

    fn role_option(&mut self) -> Result<Keyword> {
        let TokenKind::Keyword(keyword) = self.kind(0) else {
            return Err(self.expected("option of a role"));
        };
        match keyword {
            Keyword::PASSWORD | Keyword::HASHED => {
                self.accept_keyword(Keyword::HASHED);
                self.keyword(Keyword::PASSWORD)?;
                self.expect(TokenKind::Equal, "'='")?;
                self.required_string()?;
                return Ok(Keyword::PASSWORD);
            }
            Keyword::OPTIONS => {
                self.advance();
                self.expect(TokenKind::Equal, "'='")?;
                self.property_map()?;
            }
            Keyword::SUPERUSER | Keyword::LOGIN => {
                self.advance();
                self.expect(TokenKind::Equal, "'='")?;
                if !self.accept_keyword(Keyword::TRUE) && !self.accept_keyword(Keyword::FALSE) {
                    return Err(self.expected("true or false"));
                }
            }
            Keyword::ACCESS => {
                self.advance();
                let plural = if self.accept_keyword(Keyword::TO) {
                    Keyword::DATACENTERS
                } else {
                    self.expect(TokenKind::Keyword(Keyword::FROM), "TO or FROM")?;
                    Keyword::CIDRS
                };
                self.access(plural)?;
                return Ok(plural);
            }
            _ => return Err(self.expected("option of a role")),
        }
        Ok(keyword)
    }

    /// Parses `ALL plural` or `plural {'a', 'b'}`.
    fn access(&mut self, plural: Keyword) -> Result<()> {
        if self.accept_keyword(Keyword::ALL) {
            return self.keyword(plural);
        }
        self.keyword(plural)?;
        self.expect(TokenKind::LeftBrace, "'{'")?;
        self.list(Self::required_string)?;
        self.expect(TokenKind::RightBrace, "'}'").map(drop)
    }

    /// Parses the text after `DROP ROLE`.
    pub(super) fn drop_role(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_exists()?;
        self.role_name()?;
        Ok(unsupported("DROP ROLE", Feature::Roles, None, position))
    }

    /// Parses the text after `CREATE USER`.
    pub(super) fn create_user(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_not_exists()?;
        self.user("CREATE USER", position)
    }

    /// Parses the text after `ALTER USER`.
    pub(super) fn alter_user(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_exists()?;
        self.user("ALTER USER", position)
    }

    fn user(&mut self, statement: &'static str, position: Position) -> Result<Unsupported<'a>> {
        self.plain_name("name of a user")?;
        if self.accept_keyword(Keyword::WITH) {
            self.accept_keyword(Keyword::HASHED);
            self.keyword(Keyword::PASSWORD)?;
            self.required_string()?;
        }
        if !self.accept_keyword(Keyword::SUPERUSER) {
            self.accept_keyword(Keyword::NOSUPERUSER);
        }
        Ok(unsupported(statement, Feature::Roles, None, position))
    }

    /// Parses the text after `DROP USER`.
    pub(super) fn drop_user(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_exists()?;
        self.plain_name("name of a user")?;
        Ok(unsupported("DROP USER", Feature::Roles, None, position))
    }

    /// Takes a word or a string, but neither a keyword nor a quoted name.
    fn plain_name(&mut self, expected: &'static str) -> Result<()> {
        if self.accept(TokenKind::Identifier) || self.string().is_some() {
            return Ok(());
        }
        Err(self.expected(expected))
    }

    /// Parses `ADD IDENTITY ... TO ROLE ...`.
    pub(super) fn add_identity(&mut self) -> Result<Unsupported<'a>> {
        let position = self.position();
        self.keyword(Keyword::ADD)?;
        self.keyword(Keyword::IDENTITY)?;
        self.if_not_exists()?;
        self.plain_name("identity")?;
        self.keyword(Keyword::TO)?;
        self.keyword(Keyword::ROLE)?;
        self.plain_name("role name")?;
        Ok(unsupported("ADD IDENTITY", Feature::Identities, None, position))
    }

    /// Parses the text after `DROP IDENTITY`.
    pub(super) fn drop_identity(&mut self, position: Position) -> Result<Unsupported<'a>> {
        self.if_exists()?;
        self.plain_name("identity")?;
        Ok(unsupported("DROP IDENTITY", Feature::Identities, None, position))
    }
}
