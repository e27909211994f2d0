//! `BEGIN TRANSACTION`: reads and writes of any partitions and tables, in the syntax of Cassandra
//! 6.
//!
//! 1. `plan` prepares the reads, the conditions and the updates. Terms refer to values of the rows
//!    that the transaction reads (`term::reference`).
//! 2. `rows` evaluates the keys before the transaction reads.
//! 3. `execute` takes turns on all rows, one shard after the other in ascending order. It reads,
//!    decides and writes, and ends the turns when all memtables have the writes. Other transactions
//!    and conditional statements therefore see all writes or none, with the exceptions in
//!    docs/decisions/0030-turns.md; plain reads may see a part.
//!
//! If one shard owns all rows of the transaction, the updates are one record of its commit log;
//! otherwise they are a logged batch. So a crash keeps all updates or none, with the same
//! exceptions.

mod decide;
mod execute;
mod plan;
mod rows;

use std::sync::Arc;

pub use execute::{TransactionRequest, execute};
pub use plan::plan_transaction;

use crate::{
    grammar::ast::ComparisonOperator,
    metadata::ResultMetadata,
    modify::PlannedModification,
    select::PlannedSelect,
    term::{Reference, Term},
};

/// A planned transaction.
#[derive(Debug)]
pub struct PlannedTransaction {
    /// The `LET`s. Each reads at most one row.
    pub reads: Vec<PlannedSelect>,
    /// The references of all terms.
    pub references: Vec<Reference>,
    /// The result.
    pub answer: Answer,
    /// The conditions of `IF`.
    pub conditions: Vec<TransactionCondition>,
    /// The updates, in the order of the text.
    pub updates: Vec<PlannedModification>,
}

impl PlannedTransaction {
    /// Returns the queries of the `LET`s and of the result.
    pub fn selects(&self) -> impl Iterator<Item = &PlannedSelect> {
        let answer = match &self.answer {
            Answer::Select(select) => Some(&**select),
            _ => None,
        };
        self.reads.iter().chain(answer)
    }

    /// Returns the number of columns that the plan names.
    pub fn column_count(&self) -> usize {
        let read: usize = self.selects().map(PlannedSelect::column_count).sum();
        read + self.updates.iter().map(PlannedModification::inner_column_count).sum::<usize>()
    }

    /// Returns the result columns.
    pub fn metadata(&self) -> Arc<ResultMetadata> {
        match &self.answer {
            Answer::None => Arc::default(),
            Answer::Select(select) => select.metadata.clone(),
            Answer::References(_, metadata) => metadata.clone(),
        }
    }
}

/// The result of a transaction.
#[derive(Debug)]
pub enum Answer {
    /// Nothing.
    None,
    /// A query.
    Select(Box<PlannedSelect>),
    /// References, by their indices.
    References(Vec<u16>, Arc<ResultMetadata>),
}

/// A condition of a transaction.
#[derive(Debug)]
pub enum TransactionCondition {
    /// The row exists, or does not.
    RowExists {
        /// The index of the row.
        row: usize,
        /// True if it must exist.
        wanted: bool,
    },
    /// The value is not null, or is.
    IsSet {
        /// The index of the reference.
        reference: u16,
        /// True if it must not be null.
        wanted: bool,
    },
    /// The value compares with a term. Null satisfies no comparison.
    Compare {
        /// The index of the reference.
        reference: u16,
        /// The operator, with the reference on its left.
        operator: ComparisonOperator,
        /// The right side.
        term: Term,
    },
}
