//! Parses roles, users and identities.

use std::borrow::Cow;

use super::{Failure, Parser, Result};
use crate::grammar::ast::{Access, DefineRole, Name, Password, RoleOptions, RoleStatement};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

/// One option of a role.
enum RoleOption<'a> {
    Password(Password<'a>),
    Superuser(bool),
    Login(bool),
    Custom(Vec<(Cow<'a, str>, Cow<'a, str>)>),
    Datacenters(Access<'a>),
    Cidrs(Access<'a>),
}

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE ROLE`.
    pub(super) fn create_role(&mut self) -> Result<RoleStatement<'a>> {
        let conditional = self.if_not_exists()?;
        let mut define = self.role(conditional)?;
        define.options.login.get_or_insert(false);
        define.options.superuser.get_or_insert(false);
        Ok(RoleStatement::Create(define))
    }

    /// Parses the text after `ALTER ROLE`.
    pub(super) fn alter_role(&mut self) -> Result<RoleStatement<'a>> {
        let conditional = self.if_exists()?;
        Ok(RoleStatement::Alter(self.role(conditional)?))
    }

    fn role(&mut self, conditional: bool) -> Result<DefineRole<'a>> {
        let role = self.role_name()?;
        let mut options = RoleOptions::default();
        if self.accept_keyword(Keyword::WITH) {
            let start = self.at;
            for option in self.conjunction(Self::role_option)? {
                if let Some(twice) = set(&mut options, option) {
                    let message = format!("multiple definitions for property '{twice}'");
                    return Err(Failure::message(start, message));
                }
            }
        }
        Ok(DefineRole { role, conditional, options })
    }

    fn role_option(&mut self) -> Result<RoleOption<'a>> {
        if self.is_word_ahead(0, "generated") && self.is_keyword_ahead(1, Keyword::PASSWORD) {
            self.advance();
            self.advance();
            return Ok(RoleOption::Password(Password::Generated));
        }
        let TokenKind::Keyword(keyword) = self.kind(0) else {
            return Err(self.expected("option of a role"));
        };
        match keyword {
            Keyword::PASSWORD | Keyword::HASHED => {
                let is_hashed = self.accept_keyword(Keyword::HASHED);
                self.keyword(Keyword::PASSWORD)?;
                self.expect(TokenKind::Equal, "'='")?;
                let text = self.text_literal()?;
                let password =
                    if is_hashed { Password::Hashed(text) } else { Password::Plain(text) };
                Ok(RoleOption::Password(password))
            }
            Keyword::OPTIONS => {
                self.advance();
                self.expect(TokenKind::Equal, "'='")?;
                self.property_map().map(RoleOption::Custom)
            }
            Keyword::SUPERUSER | Keyword::LOGIN => {
                self.advance();
                self.expect(TokenKind::Equal, "'='")?;
                let value = self.accept_keyword(Keyword::TRUE);
                if !value && !self.accept_keyword(Keyword::FALSE) {
                    return Err(self.expected("true or false"));
                }
                let is_login = keyword == Keyword::LOGIN;
                Ok(if is_login { RoleOption::Login(value) } else { RoleOption::Superuser(value) })
            }
            Keyword::ACCESS => {
                self.advance();
                if self.accept_keyword(Keyword::TO) {
                    return self.access(Keyword::DATACENTERS).map(RoleOption::Datacenters);
                }
                self.expect(TokenKind::Keyword(Keyword::FROM), "TO or FROM")?;
                self.access(Keyword::CIDRS).map(RoleOption::Cidrs)
            }
            _ => Err(self.expected("option of a role")),
        }
    }

    /// Parses `ALL plural` or `plural {'a', 'b'}`.
    fn access(&mut self, plural: Keyword) -> Result<Access<'a>> {
        if self.accept_keyword(Keyword::ALL) {
            self.keyword(plural)?;
            return Ok(Access::All);
        }
        self.keyword(plural)?;
        self.expect(TokenKind::LeftBrace, "'{'")?;
        let names = self.list(Self::text_literal)?;
        self.expect(TokenKind::RightBrace, "'}'")?;
        Ok(Access::Only(names))
    }

    /// Parses the text after `DROP ROLE`.
    pub(super) fn drop_role(&mut self) -> Result<RoleStatement<'a>> {
        let if_exists = self.if_exists()?;
        Ok(RoleStatement::Drop { role: self.role_name()?, if_exists })
    }

    /// Parses the text after `CREATE USER`.
    pub(super) fn create_user(&mut self) -> Result<RoleStatement<'a>> {
        let conditional = self.if_not_exists()?;
        let mut define = self.user(conditional)?;
        define.options.login = Some(true);
        define.options.superuser.get_or_insert(false);
        Ok(RoleStatement::Create(define))
    }

    /// Parses the text after `ALTER USER`.
    pub(super) fn alter_user(&mut self) -> Result<RoleStatement<'a>> {
        let conditional = self.if_exists()?;
        Ok(RoleStatement::Alter(self.user(conditional)?))
    }

    fn user(&mut self, conditional: bool) -> Result<DefineRole<'a>> {
        let role = self.plain_name("name of a user")?;
        let mut options = RoleOptions::default();
        if self.accept_keyword(Keyword::WITH) {
            let is_hashed = self.accept_keyword(Keyword::HASHED);
            self.keyword(Keyword::PASSWORD)?;
            let text = self.text_literal()?;
            let password = if is_hashed { Password::Hashed(text) } else { Password::Plain(text) };
            options.password = Some(password);
        }
        if self.accept_keyword(Keyword::SUPERUSER) {
            options.superuser = Some(true);
        } else if self.accept_keyword(Keyword::NOSUPERUSER) {
            options.superuser = Some(false);
        }
        Ok(DefineRole { role, conditional, options })
    }

    /// Parses the text after `DROP USER`.
    pub(super) fn drop_user(&mut self) -> Result<RoleStatement<'a>> {
        let if_exists = self.if_exists()?;
        Ok(RoleStatement::Drop { role: self.plain_name("name of a user")?, if_exists })
    }

    /// Consumes a word or a string, but neither a keyword nor a quoted name. The case stays as
    /// written, as in Cassandra.
    fn plain_name(&mut self, expected: &'static str) -> Result<Name<'a>> {
        let position = self.position();
        if self.is(TokenKind::Identifier) {
            let token = self.advance();
            return Ok(Name { text: Cow::Borrowed(self.text_of(token)), position });
        }
        match self.string() {
            Some(text) => Ok(Name { text, position }),
            None => Err(self.expected(expected)),
        }
    }

    /// Parses `ADD IDENTITY ... TO ROLE ...`.
    pub(super) fn add_identity(&mut self) -> Result<RoleStatement<'a>> {
        self.keyword(Keyword::ADD)?;
        self.keyword(Keyword::IDENTITY)?;
        let if_not_exists = self.if_not_exists()?;
        let identity = self.plain_name("identity")?.text;
        self.keyword(Keyword::TO)?;
        self.keyword(Keyword::ROLE)?;
        let role = self.plain_name("role name")?;
        Ok(RoleStatement::AddIdentity { identity, role, if_not_exists })
    }

    /// Parses the text after `DROP IDENTITY`.
    pub(super) fn drop_identity(&mut self) -> Result<RoleStatement<'a>> {
        let if_exists = self.if_exists()?;
        let identity = self.plain_name("identity")?.text;
        Ok(RoleStatement::DropIdentity { identity, if_exists })
    }

    /// Parses the name of a role. It may also be a string, whose case is kept.
    pub(super) fn role_name(&mut self) -> Result<Name<'a>> {
        let position = self.position();
        match self.string() {
            Some(text) => Ok(Name { text, position }),
            None => self.name("role name"),
        }
    }
}

/// Sets an option. Returns the name of the option if it was set already. The three kinds of
/// password count as one option.
fn set<'a>(options: &mut RoleOptions<'a>, option: RoleOption<'a>) -> Option<&'static str> {
    fn put<T>(slot: &mut Option<T>, value: T, name: &'static str) -> Option<&'static str> {
        slot.replace(value).map(|_| name)
    }
    match option {
        RoleOption::Password(password) => put(&mut options.password, password, "PASSWORD"),
        RoleOption::Superuser(value) => put(&mut options.superuser, value, "SUPERUSER"),
        RoleOption::Login(value) => put(&mut options.login, value, "LOGIN"),
        RoleOption::Custom(map) => put(&mut options.custom, map, "OPTIONS"),
        RoleOption::Datacenters(access) => put(&mut options.datacenters, access, "DATACENTERS"),
        RoleOption::Cidrs(access) => put(&mut options.cidrs, access, "CIDRS"),
    }
}
