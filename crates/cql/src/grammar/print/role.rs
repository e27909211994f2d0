//! Prints statements about roles and permissions.

use std::fmt::{self, Write};

use super::Printer;
use crate::grammar::ast::{
    Access, DefineRole, Grant, ListPermissions, Name, Password, Permissions, Resource,
    RoleStatement,
};

impl<W: Write> Printer<'_, W> {
    pub(super) fn role_statement(&mut self, statement: &RoleStatement<'_>) -> fmt::Result {
        match statement {
            RoleStatement::Create(define) => self.define_role("CREATE", "NOT EXISTS", define),
            RoleStatement::Alter(define) => self.define_role("ALTER", "EXISTS", define),
            RoleStatement::Drop { role, if_exists } => {
                self.text("DROP ROLE ")?;
                self.text_if(*if_exists, "IF EXISTS ")?;
                self.string(&role.text)
            }
            RoleStatement::AddIdentity { identity, role, if_not_exists } => {
                self.text("ADD IDENTITY ")?;
                self.text_if(*if_not_exists, "IF NOT EXISTS ")?;
                self.string(identity)?;
                self.with_string(" TO ROLE ", &role.text)
            }
            RoleStatement::DropIdentity { identity, if_exists } => {
                self.text("DROP IDENTITY ")?;
                self.text_if(*if_exists, "IF EXISTS ")?;
                self.string(identity)
            }
            RoleStatement::GrantRole { role, to } => self.between("GRANT ", role, " TO ", to),
            RoleStatement::RevokeRole { role, from } => {
                self.between("REVOKE ", role, " FROM ", from)
            }
            RoleStatement::GrantPermissions(grant) => self.grant("GRANT ", " TO ", grant),
            RoleStatement::RevokePermissions(grant) => self.grant("REVOKE ", " FROM ", grant),
            RoleStatement::ListUsers => self.text("LIST USERS"),
            RoleStatement::ListRoles { of, recursive } => {
                self.text("LIST ROLES")?;
                self.of_role(of.as_ref(), *recursive)
            }
            RoleStatement::ListPermissions(list) => self.list_permissions(list),
        }
    }

    fn between(&mut self, verb: &str, role: &Name<'_>, word: &str, to: &Name<'_>) -> fmt::Result {
        self.with_string(verb, &role.text)?;
        self.with_string(word, &to.text)
    }

    fn define_role(&mut self, verb: &str, condition: &str, define: &DefineRole<'_>) -> fmt::Result {
        write!(self.out, "{verb} ROLE ")?;
        if define.conditional {
            write!(self.out, "IF {condition} ")?;
        }
        self.string(&define.role.text)?;
        let options = &define.options;
        let mut word = " WITH ";
        let mut next = |printer: &mut Self| printer.text(std::mem::replace(&mut word, " AND "));
        if let Some(password) = &options.password {
            next(self)?;
            match password {
                Password::Plain(text) => self.with_string("PASSWORD = ", text)?,
                Password::Hashed(text) => self.with_string("HASHED PASSWORD = ", text)?,
                Password::Generated => self.text("GENERATED PASSWORD")?,
            }
        }
        for (name, value) in [("SUPERUSER", options.superuser), ("LOGIN", options.login)] {
            if let Some(value) = value {
                next(self)?;
                write!(self.out, "{name} = {value}")?;
            }
        }
        if let Some(custom) = &options.custom {
            next(self)?;
            self.text("OPTIONS = ")?;
            self.string_map(custom)?;
        }
        let accesses =
            [("TO", "DATACENTERS", &options.datacenters), ("FROM", "CIDRS", &options.cidrs)];
        for (preposition, plural, access) in accesses {
            let Some(access) = access else { continue };
            next(self)?;
            write!(self.out, "ACCESS {preposition} ")?;
            match access {
                Access::All => write!(self.out, "ALL {plural}")?,
                Access::Only(names) => {
                    write!(self.out, "{plural} ")?;
                    self.bracketed(["{", "}"], names, |printer, name| printer.string(name))?;
                }
            }
        }
        Ok(())
    }

    fn grant(&mut self, verb: &str, preposition: &str, grant: &Grant<'_>) -> fmt::Result {
        self.text(verb)?;
        self.permissions(&grant.permissions)?;
        self.text(" ON ")?;
        self.resource(&grant.resource)?;
        self.with_string(preposition, &grant.role.text)
    }

    fn list_permissions(&mut self, list: &ListPermissions<'_>) -> fmt::Result {
        self.text("LIST ")?;
        self.permissions(&list.permissions)?;
        if let Some(resource) = &list.resource {
            self.text(" ON ")?;
            self.resource(resource)?;
        }
        self.of_role(list.of.as_ref(), list.recursive)
    }

    fn of_role(&mut self, of: Option<&Name<'_>>, recursive: bool) -> fmt::Result {
        if let Some(role) = of {
            self.with_string(" OF ", &role.text)?;
        }
        self.text_if(!recursive, " NORECURSIVE")
    }

    fn permissions(&mut self, permissions: &Permissions) -> fmt::Result {
        match permissions {
            Permissions::All => self.text("ALL PERMISSIONS"),
            Permissions::Some(names) => {
                self.separated(", ", names, |printer, name| printer.text(name))
            }
        }
    }

    fn resource(&mut self, resource: &Resource<'_>) -> fmt::Result {
        match resource {
            Resource::AllKeyspaces => self.text("ALL KEYSPACES"),
            Resource::Keyspace(name) => self.with_name("KEYSPACE ", name),
            Resource::AllTables(name) => self.with_name("ALL TABLES IN KEYSPACE ", name),
            Resource::Table(name) => self.with_qualified_name("TABLE ", name),
            Resource::AllRoles => self.text("ALL ROLES"),
            Resource::Role(name) => self.with_string("ROLE ", &name.text),
            Resource::AllFunctions => self.text("ALL FUNCTIONS"),
            Resource::FunctionsOf(name) => self.with_name("ALL FUNCTIONS IN KEYSPACE ", name),
            Resource::Function { name, arguments } => {
                self.with_qualified_name("FUNCTION ", name)?;
                self.bracketed([" (", ")"], arguments, Self::type_name)
            }
            Resource::AllMbeans => self.text("ALL MBEANS"),
            Resource::Mbean { pattern, plural } => {
                self.with_string(if *plural { "MBEANS " } else { "MBEAN " }, pattern)
            }
        }
    }
}
