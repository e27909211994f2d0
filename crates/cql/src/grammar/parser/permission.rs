//! `GRANT`, `REVOKE` and `LIST`: their syntax is checked and their content dropped.

use super::statement::unsupported;
use super::{Parser, Result};
use crate::grammar::ast::{Feature, Unsupported};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    pub(super) fn grant(&mut self) -> Result<Unsupported<'a>> {
        self.give_or_take("GRANT", Keyword::TO)
    }

    pub(super) fn revoke(&mut self) -> Result<Unsupported<'a>> {
        self.give_or_take("REVOKE", Keyword::FROM)
    }

    /// Parses a permission on a resource, or a role.
    fn give_or_take(
        &mut self,
        statement: &'static str,
        preposition: Keyword,
    ) -> Result<Unsupported<'a>> {
        let position = self.position();
        self.advance();
        let feature = if self.begins_permission() && !self.is_keyword_ahead(1, preposition) {
            self.permissions()?;
            self.keyword(Keyword::ON)?;
            self.resource()?;
            Feature::Permissions
        } else {
            self.role_name()?;
            Feature::Roles
        };
        self.keyword(preposition)?;
        self.role_name()?;
        Ok(unsupported(statement, feature, None, position))
    }

    /// Parses `LIST USERS`, `LIST ROLES ...` or `LIST permissions ...`.
    pub(super) fn list_permissions(&mut self) -> Result<Unsupported<'a>> {
        let position = self.position();
        self.keyword(Keyword::LIST)?;
        if self.accept_keyword(Keyword::USERS) {
            return Ok(unsupported("LIST USERS", Feature::Roles, None, position));
        }
        if self.accept_keyword(Keyword::ROLES) {
            self.of_role()?;
            return Ok(unsupported("LIST ROLES", Feature::Roles, None, position));
        }
        if !self.begins_permission() {
            return Err(self.expected("USERS, ROLES or permission"));
        }
        self.permissions()?;
        if self.accept_keyword(Keyword::ON) {
            self.resource()?;
        }
        self.of_role()?;
        Ok(unsupported("LIST PERMISSIONS", Feature::Permissions, None, position))
    }

    fn of_role(&mut self) -> Result<()> {
        if self.accept_keyword(Keyword::OF) {
            self.role_name()?;
        }
        self.accept_keyword(Keyword::NORECURSIVE);
        Ok(())
    }

    fn begins_permission(&self) -> bool {
        is_permission(self.kind(0)) || self.is_keyword(Keyword::ALL)
    }

    /// Parses `ALL [PERMISSIONS]` or `permission [PERMISSION], ...`.
    fn permissions(&mut self) -> Result<()> {
        if self.accept_keyword(Keyword::ALL) {
            self.accept_keyword(Keyword::PERMISSIONS);
            return Ok(());
        }
        self.list(|parser| {
            if !is_permission(parser.kind(0)) {
                return Err(parser.expected("permission"));
            }
            parser.advance();
            parser.accept_keyword(Keyword::PERMISSION);
            Ok(())
        })
        .map(drop)
    }

    /// Parses the resource of a permission. Words that also name tables are names unless a word
    /// follows that they can introduce.
    fn resource(&mut self) -> Result<()> {
        let next = self.kind(1);
        let before_string = matches!(next, TokenKind::String | TokenKind::DollarString);
        let TokenKind::Keyword(keyword) = self.kind(0) else {
            return self.qualified_name("resource").map(drop);
        };
        match (keyword, next) {
            (Keyword::ALL, TokenKind::Keyword(plural)) if is_plural(plural) => {
                self.advance();
                self.advance();
                let must = plural == Keyword::TABLES || plural == Keyword::COLUMNFAMILIES;
                if must || (plural == Keyword::FUNCTIONS && self.is_keyword(Keyword::IN)) {
                    self.keyword(Keyword::IN)?;
                    self.keyword(Keyword::KEYSPACE)?;
                    self.name("name of a keyspace")?;
                }
                Ok(())
            }
            (Keyword::KEYSPACE, _) => {
                self.advance();
                self.name("name of a keyspace").map(drop)
            }
            (Keyword::ROLE, _) if self.is_name(1) || before_string => {
                self.advance();
                self.role_name()
            }
            (Keyword::FUNCTION, _) if self.is_name(1) || self.is_function_name(1) => {
                self.advance();
                self.function_name()?;
                self.argument_types().map(drop)
            }
            (Keyword::MBEAN | Keyword::MBEANS, _) if before_string => {
                self.advance();
                self.required_string()
            }
            _ => {
                if !self.accept_keyword(Keyword::TABLE) {
                    self.accept_keyword(Keyword::COLUMNFAMILY);
                }
                self.qualified_name("resource").map(drop)
            }
        }
    }
}

fn is_permission(kind: TokenKind) -> bool {
    let TokenKind::Keyword(keyword) = kind else { return false };
    matches!(
        keyword,
        Keyword::CREATE
            | Keyword::ALTER
            | Keyword::DROP
            | Keyword::SELECT
            | Keyword::MODIFY
            | Keyword::AUTHORIZE
            | Keyword::DESCRIBE
            | Keyword::EXECUTE
            | Keyword::UNMASK
            | Keyword::SELECT_MASKED
    )
}

fn is_plural(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::KEYSPACES
            | Keyword::TABLES
            | Keyword::COLUMNFAMILIES
            | Keyword::ROLES
            | Keyword::FUNCTIONS
            | Keyword::MBEANS
    )
}
