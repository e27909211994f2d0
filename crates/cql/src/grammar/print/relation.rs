//! Prints relations, in `WHERE` and in `IF`.

use std::fmt::{self, Write};

use super::Printer;
use crate::grammar::ast::{
    Condition, CustomIndexExpression, InValues, Predicate, Relation, RelationTarget, WhereClause,
};

impl<W: Write> Printer<'_, W> {
    /// Prints ` WHERE ...`, or nothing.
    pub(super) fn where_clause(&mut self, clause: &WhereClause<'_>) -> fmt::Result {
        let mut keyword = " WHERE ";
        for relation in &clause.relations {
            self.text(std::mem::replace(&mut keyword, " AND "))?;
            self.relation(relation)?;
        }
        for expression in &clause.custom {
            self.text(std::mem::replace(&mut keyword, " AND "))?;
            self.custom_index_expression(expression)?;
        }
        Ok(())
    }

    fn custom_index_expression(&mut self, custom: &CustomIndexExpression<'_>) -> fmt::Result {
        self.text("expr(")?;
        self.name(&custom.index)?;
        self.with_expression(", ", &custom.value)?;
        self.text(")")
    }

    /// Prints ` IF ...`, or nothing.
    pub(super) fn condition(&mut self, condition: &Condition<'_>) -> fmt::Result {
        match condition {
            Condition::None => Ok(()),
            Condition::Exists => self.text(" IF EXISTS"),
            Condition::Relations(relations) => {
                self.text(" IF ")?;
                self.separated(" AND ", relations, Self::relation)
            }
        }
    }

    pub(super) fn relation(&mut self, relation: &Relation<'_>) -> fmt::Result {
        match &relation.target {
            RelationTarget::Column(column) => self.name(column)?,
            RelationTarget::Columns(columns) => self.bracketed(["(", ")"], columns, Self::name)?,
            RelationTarget::Token(columns) => {
                self.bracketed(["token(", ")"], columns, Self::name)?
            }
            RelationTarget::Element(column, key) => {
                self.name(column)?;
                self.with_expression("[", key)?;
                self.text("]")?;
            }
            RelationTarget::Field(column, field) => {
                self.name(column)?;
                self.with_name(".", field)?;
            }
        }
        self.predicate(&relation.predicate)
    }

    fn in_values(&mut self, operator: &str, values: &InValues<'_>) -> fmt::Result {
        self.text(operator)?;
        match values {
            InValues::BindMarker(marker) => self.marker(marker),
            InValues::Values(values) => self.bracketed(["(", ")"], values, Self::expression),
        }
    }

    pub(super) fn predicate(&mut self, predicate: &Predicate<'_>) -> fmt::Result {
        let (operator, value) = match predicate {
            Predicate::Compare(operator, value) => (operator.symbol(), value),
            Predicate::Contains(value) => ("CONTAINS", value),
            Predicate::ContainsKey(value) => ("CONTAINS KEY", value),
            Predicate::NotContains(value) => ("NOT CONTAINS", value),
            Predicate::NotContainsKey(value) => ("NOT CONTAINS KEY", value),
            Predicate::Like(value) => ("LIKE", value),
            Predicate::IsNotNull => return self.text(" IS NOT NULL"),
            Predicate::In(values) => return self.in_values(" IN ", values),
            Predicate::NotIn(values) => return self.in_values(" NOT IN ", values),
            Predicate::Between(low, high) => {
                self.with_expression(" BETWEEN ", low)?;
                return self.with_expression(" AND ", high);
            }
        };
        write!(self.out, " {operator} ")?;
        self.expression(value)
    }
}
