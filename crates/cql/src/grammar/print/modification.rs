//! Prints `INSERT`, `UPDATE`, `DELETE` and `BATCH`.

use std::fmt::{self, Write};

use super::Printer;
use crate::grammar::ast::{
    Assignment, AssignmentOperation, Batch, BatchKind, Delete, DeleteTarget, Insert, InsertSource,
    Modification, Update, Using,
};

impl<W: Write> Printer<'_, W> {
    pub(super) fn modification(&mut self, modification: &Modification<'_>) -> fmt::Result {
        match modification {
            Modification::Insert(insert) => self.insert(insert),
            Modification::Update(update) => self.update(update),
            Modification::Delete(delete) => self.delete(delete),
        }
    }

    fn insert(&mut self, insert: &Insert<'_>) -> fmt::Result {
        self.with_qualified_name("INSERT INTO ", &insert.table)?;
        match &insert.source {
            InsertSource::Values { columns, values } => {
                self.bracketed([" (", ") VALUES ("], columns, Self::name)?;
                self.separated(", ", values, Self::expression)?;
                self.text(")")?;
            }
            InsertSource::Json { document, default_unset } => {
                self.with_expression(" JSON ", document)?;
                self.text_if(*default_unset, " DEFAULT UNSET")?;
            }
        }
        self.text_if(insert.if_not_exists, " IF NOT EXISTS")?;
        self.using(&insert.using)
    }

    fn update(&mut self, update: &Update<'_>) -> fmt::Result {
        self.with_qualified_name("UPDATE ", &update.table)?;
        self.using(&update.using)?;
        self.text(" SET ")?;
        self.separated(", ", &update.assignments, Self::assignment)?;
        self.where_clause(&update.where_clause)?;
        self.condition(&update.condition)
    }

    fn assignment(&mut self, assignment: &Assignment<'_>) -> fmt::Result {
        let column = &assignment.column;
        self.name(column)?;
        match &assignment.operation {
            AssignmentOperation::Set(value) => self.with_expression(" = ", value),
            AssignmentOperation::Add(value) => self.with_expression(" += ", value),
            AssignmentOperation::Subtract(value) => self.with_expression(" -= ", value),
            AssignmentOperation::Prepend(value) => {
                self.with_expression(" = ", value)?;
                self.with_name(" + ", column)
            }
            AssignmentOperation::SetElement(key, value) => {
                self.with_expression("[", key)?;
                self.with_expression("] = ", value)
            }
            AssignmentOperation::SetField(field, value) => {
                self.with_name(".", field)?;
                self.with_expression(" = ", value)
            }
        }
    }

    fn delete(&mut self, delete: &Delete<'_>) -> fmt::Result {
        self.text("DELETE ")?;
        self.separated(", ", &delete.targets, |printer, target| match target {
            DeleteTarget::Column(column) => printer.name(column),
            DeleteTarget::Element(column, key) => {
                printer.name(column)?;
                printer.with_expression("[", key)?;
                printer.text("]")
            }
            DeleteTarget::Field(column, field) => {
                printer.name(column)?;
                printer.with_name(".", field)
            }
        })?;
        self.text_if(!delete.targets.is_empty(), " ")?;
        self.with_qualified_name("FROM ", &delete.table)?;
        self.using(&delete.using)?;
        self.where_clause(&delete.where_clause)?;
        self.condition(&delete.condition)
    }

    /// Prints ` USING ...`, or nothing.
    fn using(&mut self, using: &Using<'_>) -> fmt::Result {
        let mut keyword = " USING";
        let options = [
            (" TIMESTAMP ", &using.timestamp),
            (" TTL ", &using.time_to_live),
            (" TIMEOUT ", &using.timeout),
        ];
        for (name, value) in options {
            if value.is_some() {
                self.text(std::mem::replace(&mut keyword, " AND"))?;
                self.option(name, value)?;
            }
        }
        Ok(())
    }

    pub(super) fn batch(&mut self, batch: &Batch<'_>) -> fmt::Result {
        self.text(match batch.kind {
            BatchKind::Logged => "BEGIN BATCH",
            BatchKind::Unlogged => "BEGIN UNLOGGED BATCH",
            BatchKind::Counter => "BEGIN COUNTER BATCH",
        })?;
        self.using(&batch.using)?;
        for statement in &batch.statements {
            self.text(" ")?;
            self.modification(statement)?;
            self.text(";")?;
        }
        self.text(" APPLY BATCH")
    }
}
