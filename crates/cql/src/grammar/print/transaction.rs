//! Prints `BEGIN TRANSACTION`.

use std::fmt::{self, Write};

use super::Printer;
use crate::grammar::ast::{
    Transaction, TransactionAnswer, TransactionCondition, TransactionPredicate,
};

impl<W: Write> Printer<'_, W> {
    pub(super) fn transaction(&mut self, transaction: &Transaction<'_>) -> fmt::Result {
        self.text("BEGIN TRANSACTION ")?;
        for assignment in &transaction.assignments {
            self.with_name("LET ", &assignment.name)?;
            self.text(" = (")?;
            self.select(&assignment.select)?;
            self.text("); ")?;
        }
        match &transaction.answer {
            TransactionAnswer::None => {}
            TransactionAnswer::Select(select) => {
                self.select(select)?;
                self.text("; ")?;
            }
            TransactionAnswer::References(references) => {
                self.text("SELECT ")?;
                self.separated(", ", references, Self::expression)?;
                self.text("; ")?;
            }
        }
        let is_conditional = !transaction.conditions.is_empty();
        if is_conditional {
            self.text("IF ")?;
            self.separated(" AND ", &transaction.conditions, Self::transaction_condition)?;
            self.text(" THEN ")?;
        }
        for update in &transaction.updates {
            self.modification(update)?;
            self.text("; ")?;
        }
        self.text_if(is_conditional, "END IF ")?;
        self.text("COMMIT TRANSACTION")
    }

    fn transaction_condition(&mut self, condition: &TransactionCondition<'_>) -> fmt::Result {
        self.expression(&condition.left)?;
        match &condition.predicate {
            TransactionPredicate::IsNull => self.text(" IS NULL"),
            TransactionPredicate::IsNotNull => self.text(" IS NOT NULL"),
            TransactionPredicate::Compare(operator, right) => {
                write!(self.out, " {} ", operator.symbol())?;
                self.expression(right)
            }
        }
    }
}
