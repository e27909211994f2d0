//! Prints `CREATE` and `ALTER` of tables and types, `CREATE MATERIALIZED VIEW`, and comments and
//! labels.

use std::fmt::{self, Write};

use super::Printer;
use crate::grammar::ast::{
    AlterTable, AlterType, Annotate, AnnotateTarget, Check, CheckKind, ColumnDefinition,
    ColumnMask, ComparisonOperator, CreateTable, CreateTableLike, CreateType, CreateView,
    Expression, Name, PrimaryKey, Property, PropertyValue, TableChange, TableOptions, TypeChange,
    TypeName,
};

const PARENTHESES: [&str; 2] = ["(", ")"];

impl<W: Write> Printer<'_, W> {
    /// Prints ` WITH ...`.
    pub(super) fn properties(&mut self, properties: &[Property<'_>]) -> fmt::Result {
        self.text(" WITH ")?;
        self.separated(" AND ", properties, Self::property)
    }

    fn property(&mut self, property: &Property<'_>) -> fmt::Result {
        self.name(&property.name)?;
        self.text(" = ")?;
        match &property.value {
            PropertyValue::Text(text) => self.string(text),
            PropertyValue::Map(entries) => self.string_map(entries),
        }
    }

    pub(super) fn create_table(&mut self, create: &CreateTable<'_>) -> fmt::Result {
        self.head("CREATE TABLE ", "IF NOT EXISTS ", create.if_not_exists, &create.name)?;
        self.text(" (")?;
        self.separated(", ", &create.columns, Self::column_definition)?;
        let between = !create.columns.is_empty() && !create.primary_keys.is_empty();
        self.text_if(between, ", ")?;
        self.separated(", ", &create.primary_keys, Self::primary_key)?;
        self.text(")")?;
        self.table_options(&create.options)
    }

    pub(super) fn create_table_like(&mut self, create: &CreateTableLike<'_>) -> fmt::Result {
        self.head("CREATE TABLE ", "IF NOT EXISTS ", create.if_not_exists, &create.name)?;
        self.with_qualified_name(" LIKE ", &create.source)?;
        let mut keyword = " WITH ";
        for part in &create.copied {
            self.text(std::mem::replace(&mut keyword, " AND "))?;
            self.text(part.text())?;
        }
        for property in &create.options.properties {
            self.text(std::mem::replace(&mut keyword, " AND "))?;
            self.property(property)?;
        }
        Ok(())
    }

    pub(super) fn create_view(&mut self, create: &CreateView<'_>) -> fmt::Result {
        let words = "CREATE MATERIALIZED VIEW ";
        self.head(words, "IF NOT EXISTS ", create.if_not_exists, &create.name)?;
        self.text(" AS SELECT ")?;
        self.selection(&create.selection)?;
        self.with_qualified_name(" FROM ", &create.base)?;
        self.where_clause(&create.where_clause)?;
        self.text(" ")?;
        self.primary_key(&create.primary_key)?;
        self.table_options(&create.options)
    }

    pub(super) fn annotate(&mut self, annotate: &Annotate<'_>) -> fmt::Result {
        self.text(if annotate.is_label { "SECURITY LABEL ON " } else { "COMMENT ON " })?;
        match &annotate.target {
            AnnotateTarget::Keyspace(name) => self.with_name("KEYSPACE ", name)?,
            AnnotateTarget::Table(table) => self.with_qualified_name("TABLE ", table)?,
            AnnotateTarget::Type(name) => self.with_qualified_name("TYPE ", name)?,
            AnnotateTarget::Column(owner, part) | AnnotateTarget::Field(owner, part) => {
                let is_column = matches!(annotate.target, AnnotateTarget::Column(..));
                self.with_qualified_name(if is_column { "COLUMN " } else { "FIELD " }, owner)?;
                self.with_name(".", part)?;
            }
        }
        self.text(" IS ")?;
        match &annotate.text {
            Some(text) => self.string(text),
            None => self.text("NULL"),
        }
    }

    fn column_definition(&mut self, column: &ColumnDefinition<'_>) -> fmt::Result {
        self.name_and_type(&column.name, &column.type_name)?;
        self.text_if(column.is_static, " STATIC")?;
        if let Some(mask) = &column.mask {
            self.column_mask(mask)?;
        }
        self.checks(&column.checks)
    }

    /// Prints ` CHECK ...`, or nothing.
    fn checks(&mut self, checks: &[Check<'_>]) -> fmt::Result {
        self.text_if(!checks.is_empty(), " CHECK ")?;
        self.separated(" AND ", checks, |printer, check| match &check.kind {
            CheckKind::NotNull => printer.text("NOT NULL"),
            CheckKind::Column(name, operator, value) => {
                printer.name(name)?;
                printer.check_comparison(*operator, value)
            }
            CheckKind::Function { name, arguments, comparison } => {
                printer.name(name)?;
                printer.bracketed(PARENTHESES, arguments, Self::expression)?;
                match comparison {
                    Some((operator, value)) => printer.check_comparison(*operator, value),
                    None => Ok(()),
                }
            }
        })
    }

    fn check_comparison(
        &mut self,
        operator: ComparisonOperator,
        value: &Expression<'_>,
    ) -> fmt::Result {
        write!(self.out, " {} ", operator.symbol())?;
        self.expression(value)
    }

    fn name_and_type(&mut self, name: &Name<'_>, type_name: &TypeName<'_>) -> fmt::Result {
        self.name(name)?;
        self.text(" ")?;
        self.type_name(type_name)
    }

    fn column_mask(&mut self, mask: &ColumnMask<'_>) -> fmt::Result {
        self.text(" MASKED WITH ")?;
        match &mask.function {
            Some(function) => self.function_call(function),
            None => self.text("DEFAULT"),
        }
    }

    fn primary_key(&mut self, key: &PrimaryKey<'_>) -> fmt::Result {
        self.text("PRIMARY KEY (")?;
        self.bracketed(PARENTHESES, &key.partition, Self::name)?;
        for column in &key.clustering {
            self.with_name(", ", column)?;
        }
        self.text(")")
    }

    /// Prints ` WITH ...`, or nothing.
    fn table_options(&mut self, options: &TableOptions<'_>) -> fmt::Result {
        let mut keyword = " WITH ";
        if options.compact_storage.is_some() {
            self.text(std::mem::replace(&mut keyword, " AND "))?;
            self.text("COMPACT STORAGE")?;
        }
        if !options.clustering_order.is_empty() {
            self.text(std::mem::replace(&mut keyword, " AND "))?;
            self.text("CLUSTERING ORDER BY ")?;
            let order = &options.clustering_order;
            self.bracketed(PARENTHESES, order, |printer, (column, descending)| {
                printer.name(column)?;
                printer.text(if *descending { " DESC" } else { " ASC" })
            })?;
        }
        for property in &options.properties {
            self.text(std::mem::replace(&mut keyword, " AND "))?;
            self.property(property)?;
        }
        Ok(())
    }

    pub(super) fn alter_table(&mut self, alter: &AlterTable<'_>) -> fmt::Result {
        self.head("ALTER TABLE ", "IF EXISTS ", alter.if_exists, &alter.name)?;
        match &alter.change {
            TableChange::Add { if_not_exists, columns } => {
                self.text(" ADD ")?;
                self.text_if(*if_not_exists, "IF NOT EXISTS ")?;
                self.bracketed(PARENTHESES, columns, Self::column_definition)
            }
            TableChange::Drop { if_exists, columns, timestamp } => {
                self.text(" DROP ")?;
                self.text_if(*if_exists, "IF EXISTS ")?;
                self.bracketed(PARENTHESES, columns, Self::name)?;
                self.option(" USING TIMESTAMP ", timestamp)
            }
            TableChange::Rename { if_exists, columns } => self.renames(*if_exists, columns),
            TableChange::Options(options) => self.table_options(options),
            TableChange::DropCompactStorage => self.text(" DROP COMPACT STORAGE"),
            TableChange::ColumnType { column, type_name } => self.retype(column, type_name),
            TableChange::ColumnMask { if_exists, column, mask } => {
                self.text(" ALTER ")?;
                self.text_if(*if_exists, "IF EXISTS ")?;
                self.name(column)?;
                match mask {
                    Some(mask) => self.column_mask(mask),
                    None => self.text(" DROP MASKED"),
                }
            }
            TableChange::ColumnCheck { if_exists, column, checks } => {
                self.text(" ALTER ")?;
                self.text_if(*if_exists, "IF EXISTS ")?;
                self.name(column)?;
                self.text_if(checks.is_empty(), " DROP CHECK")?;
                self.checks(checks)
            }
        }
    }

    fn renames(&mut self, if_exists: bool, names: &[(Name<'_>, Name<'_>)]) -> fmt::Result {
        self.text(" RENAME ")?;
        self.text_if(if_exists, "IF EXISTS ")?;
        self.separated(" AND ", names, |printer, (from, to)| {
            printer.name(from)?;
            printer.with_name(" TO ", to)
        })
    }

    fn retype(&mut self, name: &Name<'_>, type_name: &TypeName<'_>) -> fmt::Result {
        self.with_name(" ALTER ", name)?;
        self.text(" TYPE ")?;
        self.type_name(type_name)
    }

    pub(super) fn create_type(&mut self, create: &CreateType<'_>) -> fmt::Result {
        self.head("CREATE TYPE ", "IF NOT EXISTS ", create.if_not_exists, &create.name)?;
        self.bracketed([" (", ")"], &create.fields, |printer, (name, type_name)| {
            printer.name_and_type(name, type_name)
        })
    }

    pub(super) fn alter_type(&mut self, alter: &AlterType<'_>) -> fmt::Result {
        self.head("ALTER TYPE ", "IF EXISTS ", alter.if_exists, &alter.name)?;
        match &alter.change {
            TypeChange::Add { if_not_exists, field, type_name } => {
                self.text(" ADD ")?;
                self.text_if(*if_not_exists, "IF NOT EXISTS ")?;
                self.name_and_type(field, type_name)
            }
            TypeChange::Rename { if_exists, fields } => self.renames(*if_exists, fields),
            TypeChange::FieldType { field, type_name } => self.retype(field, type_name),
        }
    }
}
