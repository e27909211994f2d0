//! Prints whole statements: the short ones here, the others by the modules of their families.

use std::fmt::{self, Write};

use super::Printer;
use crate::grammar::ast::{
    CreateIndex, Describe, DescribeTarget, DropObject, ObjectKind, Statement, Truncate,
};

impl<W: Write> Printer<'_, W> {
    pub(super) fn statement(&mut self, statement: &Statement<'_>) -> fmt::Result {
        match statement {
            Statement::Select(select) => self.select(select),
            Statement::Modification(modification) => self.modification(modification),
            Statement::Batch(batch) => self.batch(batch),
            Statement::Transaction(transaction) => self.transaction(transaction),
            Statement::Use(use_keyspace) => self.with_name("USE ", &use_keyspace.keyspace),
            Statement::Describe(describe) => self.describe(describe),
            Statement::CreateKeyspace(create) => {
                self.text("CREATE KEYSPACE ")?;
                self.text_if(create.if_not_exists, "IF NOT EXISTS ")?;
                self.name(&create.name)?;
                self.properties(&create.properties)
            }
            Statement::AlterKeyspace(alter) => {
                self.text("ALTER KEYSPACE ")?;
                self.text_if(alter.if_exists, "IF EXISTS ")?;
                self.name(&alter.name)?;
                self.properties(&alter.properties)
            }
            Statement::DropKeyspace(drop) => {
                self.text("DROP KEYSPACE ")?;
                self.text_if(drop.if_exists, "IF EXISTS ")?;
                self.name(&drop.name)
            }
            Statement::CreateTable(create) => self.create_table(create),
            Statement::CreateTableLike(create) => self.create_table_like(create),
            Statement::AlterTable(alter) => self.alter_table(alter),
            Statement::DropTable(drop) => {
                self.head("DROP TABLE ", "IF EXISTS ", drop.if_exists, &drop.name)
            }
            Statement::Truncate(truncate) => self.truncate(truncate),
            Statement::CreateType(create) => self.create_type(create),
            Statement::AlterType(alter) => self.alter_type(alter),
            Statement::DropType(drop) => {
                self.head("DROP TYPE ", "IF EXISTS ", drop.if_exists, &drop.name)
            }
            Statement::CreateIndex(create) => self.create_index(create),
            Statement::DropObject(drop) => self.drop_object(drop),
            Statement::Annotate(annotate) => self.annotate(annotate),
            Statement::CreateView(create) => self.create_view(create),
            Statement::AlterView(alter) => {
                let words = "ALTER MATERIALIZED VIEW ";
                self.head(words, "IF EXISTS ", alter.if_exists, &alter.name)?;
                self.properties(&alter.properties)
            }
            Statement::Role(role) => self.role_statement(role),
            Statement::Unsupported(unsupported) => write!(self.out, "{unsupported}"),
        }
    }

    fn create_index(&mut self, create: &CreateIndex<'_>) -> fmt::Result {
        self.text(if create.is_custom { "CREATE CUSTOM INDEX " } else { "CREATE INDEX " })?;
        self.text_if(create.if_not_exists, "IF NOT EXISTS ")?;
        if let Some(name) = &create.name {
            self.name(name)?;
            self.text(" ")?;
        }
        self.with_qualified_name("ON ", &create.table)?;
        self.text(" ")?;
        self.bracketed(["(", ")"], &create.targets, |printer, target| match target.part.word() {
            Some(word) => {
                printer.text(word)?;
                printer.text("(")?;
                printer.name(&target.column)?;
                printer.text(")")
            }
            None => printer.name(&target.column),
        })?;
        if let Some(class) = &create.using {
            self.with_string(" USING ", class)?;
        }
        if create.properties.is_empty() { Ok(()) } else { self.properties(&create.properties) }
    }

    fn drop_object(&mut self, drop: &DropObject<'_>) -> fmt::Result {
        let words = match &drop.kind {
            ObjectKind::Index => "DROP INDEX ",
            ObjectKind::MaterializedView => "DROP MATERIALIZED VIEW ",
            ObjectKind::Function { .. } => "DROP FUNCTION ",
            ObjectKind::Aggregate { .. } => "DROP AGGREGATE ",
            ObjectKind::Trigger { .. } => "DROP TRIGGER ",
        };
        self.head(words, "IF EXISTS ", drop.if_exists, &drop.name)?;
        match &drop.kind {
            ObjectKind::Trigger { table } => self.with_qualified_name(" ON ", table),
            ObjectKind::Function { arguments: Some(arguments) }
            | ObjectKind::Aggregate { arguments: Some(arguments) } => {
                self.bracketed([" (", ")"], arguments, Self::type_name)
            }
            _ => Ok(()),
        }
    }

    fn truncate(&mut self, truncate: &Truncate<'_>) -> fmt::Result {
        self.with_qualified_name("TRUNCATE ", &truncate.table)?;
        self.option(" USING TIMEOUT ", &truncate.timeout)
    }

    fn describe(&mut self, describe: &Describe<'_>) -> fmt::Result {
        self.text("DESCRIBE ")?;
        match &describe.target {
            DescribeTarget::Cluster => self.text("CLUSTER"),
            DescribeTarget::Schema { full: false } => self.text("SCHEMA"),
            DescribeTarget::Schema { full: true } => self.text("FULL SCHEMA"),
            DescribeTarget::Keyspaces => self.text("KEYSPACES"),
            DescribeTarget::Keyspace { name, only } => {
                self.text_if(*only, "ONLY ")?;
                self.text("KEYSPACE")?;
                name.iter().try_for_each(|name| self.with_name(" ", name))
            }
            DescribeTarget::Tables => self.text("TABLES"),
            DescribeTarget::Table(name) => self.with_qualified_name("TABLE ", name),
            DescribeTarget::Index(name) => self.with_qualified_name("INDEX ", name),
            DescribeTarget::MaterializedView(name) => {
                self.with_qualified_name("MATERIALIZED VIEW ", name)
            }
            DescribeTarget::Types => self.text("TYPES"),
            DescribeTarget::Type(name) => self.with_qualified_name("TYPE ", name),
            DescribeTarget::Functions => self.text("FUNCTIONS"),
            DescribeTarget::Function(name) => self.with_qualified_name("FUNCTION ", name),
            DescribeTarget::Aggregates => self.text("AGGREGATES"),
            DescribeTarget::Aggregate(name) => self.with_qualified_name("AGGREGATE ", name),
            DescribeTarget::Any(name) => self.qualified_name(name),
        }?;
        self.text_if(describe.with_internals, " WITH INTERNALS")
    }
}
