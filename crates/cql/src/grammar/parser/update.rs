//! Parses `UPDATE` and its assignments.

use super::{Failure, Parser, Result};
use crate::grammar::ast::{Assignment, AssignmentOperation, Name, Update};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    pub(super) fn update(&mut self) -> Result<Update<'a>> {
        let position = self.position();
        self.keyword(Keyword::UPDATE)?;
        let table = self.qualified_name("name of a table")?;
        let using = self.using()?;
        self.keyword(Keyword::SET)?;
        let assignments = self.list(Self::assignment)?;
        self.check_assignments(&assignments)?;
        self.keyword(Keyword::WHERE)?;
        let where_clause = self.where_clause()?;
        let condition = self.if_condition()?;
        Ok(Update { table, using, assignments, where_clause, condition, position })
    }

    fn assignment(&mut self) -> Result<Assignment<'a>> {
        let column = self.name("name of a column")?;
        let operation = match self.kind(0) {
            TokenKind::LeftBracket => {
                let key = self.element_key()?;
                self.expect(TokenKind::Equal, "'='")?;
                AssignmentOperation::SetElement(key, self.term()?)
            }
            TokenKind::Dot => {
                self.advance();
                let field = self.name("name of a field")?;
                self.expect(TokenKind::Equal, "'='")?;
                AssignmentOperation::SetField(field, self.term()?)
            }
            TokenKind::PlusEqual => {
                self.advance();
                AssignmentOperation::Add(self.term()?)
            }
            TokenKind::MinusEqual => {
                self.advance();
                AssignmentOperation::Subtract(self.term()?)
            }
            TokenKind::Equal => {
                self.advance();
                self.assigned(&column)?
            }
            _ => return Err(self.expected("'=', '+=', '-=', '[' or '.'")),
        };
        Ok(Assignment { column, operation })
    }

    /// Parses the text after `column =`.
    fn assigned(&mut self, column: &Name<'a>) -> Result<AssignmentOperation<'a>> {
        if self.is_column(0) && !self.is_reference() {
            let left = self.at;
            let same = self.take_name() == *column;
            let adds = self.accept(TokenKind::Plus);
            if !adds && !self.accept(TokenKind::Minus) {
                return Err(self.expected("'+' or '-'"));
            }
            if !same {
                let sign = if adds { '+' } else { '-' };
                let message =
                    format!("only expressions of the form X = X {sign} <value> are supported");
                return Err(Failure::message(left, message));
            }
            let value = self.term()?;
            return Ok(if adds {
                AssignmentOperation::Add(value)
            } else {
                AssignmentOperation::Subtract(value)
            });
        }
        let value = self.term_before_column()?;
        if !self.accept(TokenKind::Plus) {
            return Ok(AssignmentOperation::Set(value));
        }
        let right = self.at;
        if self.name("name of a column")? != *column {
            let message = "only expressions of the form X = <value> + X are supported".into();
            return Err(Failure::message(right, message));
        }
        Ok(AssignmentOperation::Prepend(value))
    }

    /// Refuses two assignments if one would undo the other. As in Cassandra, the error is a syntax
    /// error.
    fn check_assignments(&self, assignments: &[Assignment<'a>]) -> Result<()> {
        if assignments.len() < 2 {
            return Ok(());
        }
        // After sorting, conflicting assignments are neighbours.
        let mut sorted: Vec<_> = assignments.iter().collect();
        sorted.sort_by_key(|assignment| {
            let (rank, field) = match &assignment.operation {
                AssignmentOperation::Set(_) => (0, ""),
                AssignmentOperation::SetField(field, _) => (2, field.as_str()),
                _ => (1, ""),
            };
            (assignment.column.as_str(), rank, field)
        });
        for pair in sorted.windows(2) {
            let conflict = match (&pair[0].operation, &pair[1].operation) {
                (AssignmentOperation::Set(_), _) => true,
                (
                    AssignmentOperation::SetField(first, _),
                    AssignmentOperation::SetField(second, _),
                ) => first == second,
                _ => false,
            };
            if conflict && pair[0].column == pair[1].column {
                let column = &pair[1].column;
                let message = format!("multiple incompatible setting of column {column}");
                return Err(Failure::message(self.token_at(column.position), message));
            }
        }
        Ok(())
    }
}
