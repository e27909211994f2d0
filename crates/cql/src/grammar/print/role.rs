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
                self.text(" TO ROLE ")?;
                self.string(&role.text)
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
        self.text(verb)?;
        self.string(&role.text)?;
        self.text(word)?;
        self.string(&to.text)
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
                Password::Plain(text) => self.assigned("PASSWORD", text)?,
                Password::Hashed(text) => self.assigned("HASHED PASSWORD", text)?,
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
            self.bracketed(["{", "}"], custom, |printer, (name, value)| {
                printer.string(name)?;
                printer.text(": ")?;
                printer.string(value)
            })?;
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

    fn assigned(&mut self, name: &str, text: &str) -> fmt::Result {
        write!(self.out, "{name} = ")?;
        self.string(text)
    }

    fn grant(&mut self, verb: &str, preposition: &str, grant: &Grant<'_>) -> fmt::Result {
        self.text(verb)?;
        self.permissions(&grant.permissions)?;
        self.text(" ON ")?;
        self.resource(&grant.resource)?;
        self.text(preposition)?;
        self.string(&grant.role.text)
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
            self.text(" OF ")?;
            self.string(&role.text)?;
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
            Resource::Keyspace(name) => {
                self.text("KEYSPACE ")?;
                self.name(name)
            }
            Resource::AllTables(name) => {
                self.text("ALL TABLES IN KEYSPACE ")?;
                self.name(name)
            }
            Resource::Table(name) => {
                self.text("TABLE ")?;
                self.qualified_name(name)
            }
            Resource::AllRoles => self.text("ALL ROLES"),
            Resource::Role(name) => {
                self.text("ROLE ")?;
                self.string(&name.text)
            }
            Resource::AllFunctions => self.text("ALL FUNCTIONS"),
            Resource::FunctionsOf(name) => {
                self.text("ALL FUNCTIONS IN KEYSPACE ")?;
                self.name(name)
            }
            Resource::Function { name, arguments } => {
                self.text("FUNCTION ")?;
                self.qualified_name(name)?;
                self.bracketed([" (", ")"], arguments, Self::type_name)
            }
            Resource::AllMbeans => self.text("ALL MBEANS"),
            Resource::Mbean { pattern, plural } => {
                self.text(if *plural { "MBEANS " } else { "MBEAN " })?;
                self.string(pattern)
            }
        }
    }
}
