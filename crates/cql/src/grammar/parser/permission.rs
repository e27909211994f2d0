//! Parses `GRANT`, `REVOKE` and `LIST`.

use super::{Parser, Result};
use crate::grammar::ast::{Grant, ListPermissions, Name, Permissions, Resource, RoleStatement};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    pub(super) fn grant(&mut self) -> Result<RoleStatement<'a>> {
        self.advance();
        if self.gives_permissions(Keyword::TO) {
            return self.permissions_on(Keyword::TO).map(RoleStatement::GrantPermissions);
        }
        let role = self.role_name()?;
        self.keyword(Keyword::TO)?;
        Ok(RoleStatement::GrantRole { role, to: self.role_name()? })
    }

    pub(super) fn revoke(&mut self) -> Result<RoleStatement<'a>> {
        self.advance();
        if self.gives_permissions(Keyword::FROM) {
            return self.permissions_on(Keyword::FROM).map(RoleStatement::RevokePermissions);
        }
        let role = self.role_name()?;
        self.keyword(Keyword::FROM)?;
        Ok(RoleStatement::RevokeRole { role, from: self.role_name()? })
    }

    /// Returns whether permissions follow. A role may have the name of a permission.
    fn gives_permissions(&self, preposition: Keyword) -> bool {
        self.begins_permission() && !self.is_keyword_ahead(1, preposition)
    }

    /// Parses `permissions ON resource` and the role after `preposition`.
    fn permissions_on(&mut self, preposition: Keyword) -> Result<Grant<'a>> {
        let permissions = self.permissions()?;
        self.keyword(Keyword::ON)?;
        let resource = self.resource()?;
        self.keyword(preposition)?;
        Ok(Grant { permissions, resource, role: self.role_name()? })
    }

    /// Parses `LIST USERS`, `LIST ROLES ...` or `LIST permissions ...`.
    pub(super) fn list_permissions(&mut self) -> Result<RoleStatement<'a>> {
        self.keyword(Keyword::LIST)?;
        if self.accept_keyword(Keyword::USERS) {
            return Ok(RoleStatement::ListUsers);
        }
        if self.accept_keyword(Keyword::ROLES) {
            let (of, recursive) = self.of_role()?;
            return Ok(RoleStatement::ListRoles { of, recursive });
        }
        if !self.begins_permission() {
            return Err(self.expected("USERS, ROLES or permission"));
        }
        let permissions = self.permissions()?;
        let resource = self.clause(Keyword::ON, Self::resource)?;
        let (of, recursive) = self.of_role()?;
        let list = ListPermissions { permissions, resource, of, recursive };
        Ok(RoleStatement::ListPermissions(list))
    }

    /// Parses `[OF role] [NORECURSIVE]`.
    fn of_role(&mut self) -> Result<(Option<Name<'a>>, bool)> {
        let of = self.clause(Keyword::OF, Self::role_name)?;
        Ok((of, !self.accept_keyword(Keyword::NORECURSIVE)))
    }

    fn begins_permission(&self) -> bool {
        permission(self.kind(0)).is_some() || self.is_keyword(Keyword::ALL)
    }

    /// Parses `ALL [PERMISSIONS]` or `permission [PERMISSION], ...`.
    fn permissions(&mut self) -> Result<Permissions> {
        if self.accept_keyword(Keyword::ALL) {
            self.accept_keyword(Keyword::PERMISSIONS);
            return Ok(Permissions::All);
        }
        let names = self.list(|parser| {
            let Some(permission) = permission(parser.kind(0)) else {
                return Err(parser.expected("permission"));
            };
            parser.advance();
            parser.accept_keyword(Keyword::PERMISSION);
            Ok(permission.text())
        })?;
        Ok(Permissions::Some(names))
    }

    /// Parses the resource of a permission. A keyword that may also be a table's name is a table's
    /// name unless the next token fits the keyword, as in `ROLE r`.
    fn resource(&mut self) -> Result<Resource<'a>> {
        let next = self.kind(1);
        let before_string = matches!(next, TokenKind::String | TokenKind::DollarString);
        let TokenKind::Keyword(keyword) = self.kind(0) else {
            return self.qualified_name("resource").map(Resource::Table);
        };
        match (keyword, next) {
            (Keyword::ALL, TokenKind::Keyword(plural)) if is_plural(plural) => {
                self.advance();
                self.advance();
                self.all_of(plural)
            }
            (Keyword::KEYSPACE, _) => {
                self.advance();
                self.name("name of a keyspace").map(Resource::Keyspace)
            }
            (Keyword::ROLE, _) if self.is_name(1) || before_string => {
                self.advance();
                self.role_name().map(Resource::Role)
            }
            (Keyword::FUNCTION, _) if self.is_name(1) || self.is_function_name(1) => {
                self.advance();
                let name = self.function_name()?;
                Ok(Resource::Function { name, arguments: self.argument_types()? })
            }
            (Keyword::MBEAN | Keyword::MBEANS, _) if before_string => {
                self.advance();
                let plural = keyword == Keyword::MBEANS;
                Ok(Resource::Mbean { pattern: self.text_literal()?, plural })
            }
            _ => {
                if !self.accept_keyword(Keyword::TABLE) {
                    self.accept_keyword(Keyword::COLUMNFAMILY);
                }
                self.qualified_name("resource").map(Resource::Table)
            }
        }
    }

    /// Parses the text after `ALL plural`.
    fn all_of(&mut self, plural: Keyword) -> Result<Resource<'a>> {
        let of_keyspace = |parser: &mut Self| {
            parser.keyword(Keyword::IN)?;
            parser.keyword(Keyword::KEYSPACE)?;
            parser.name("name of a keyspace")
        };
        Ok(match plural {
            Keyword::TABLES | Keyword::COLUMNFAMILIES => Resource::AllTables(of_keyspace(self)?),
            Keyword::FUNCTIONS if self.is_keyword(Keyword::IN) => {
                Resource::FunctionsOf(of_keyspace(self)?)
            }
            Keyword::FUNCTIONS => Resource::AllFunctions,
            Keyword::ROLES => Resource::AllRoles,
            Keyword::MBEANS => Resource::AllMbeans,
            _ => Resource::AllKeyspaces,
        })
    }
}

/// Returns the keyword if it names a permission.
fn permission(kind: TokenKind) -> Option<Keyword> {
    let TokenKind::Keyword(keyword) = kind else { return None };
    let is_permission = matches!(
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
    );
    is_permission.then_some(keyword)
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
