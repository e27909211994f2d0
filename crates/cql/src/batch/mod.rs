//! BATCH: modifications that are applied together.

mod range_deletions;
mod size;
mod text_plans;
mod updates;

pub use size::{check_size, warn_of_no_grace, warn_of_partitions};
pub use text_plans::TextPlans;
pub use updates::BatchUpdates;

use espalier_storage::system::is_virtual;

use crate::{
    Error, Result,
    grammar::ast::BatchKind,
    modify::{PlannedModification, evaluate_timestamp},
    term::{Evaluation, Term},
};

/// A planned BATCH statement.
#[derive(Debug)]
pub struct PlannedBatch {
    /// Logged, unlogged or counter.
    pub kind: BatchKind,
    /// `USING TIMESTAMP` of the whole batch.
    pub timestamp: Option<Term>,
    /// The modifications in the order of the text.
    pub statements: Vec<PlannedModification>,
}

/// Checks that the statements may stand in one batch. Returns whether they change counters.
///
/// # Errors
/// The batch and one of its statements have a timestamp, a conditional batch or one with counters
/// has a timestamp, or the batch mixes kinds of statements or tables that exclude each other.
pub fn check_statements<'s>(
    kind: BatchKind,
    statements: impl Iterator<Item = &'s PlannedModification> + Clone,
    batch_has_timestamp: bool,
) -> Result<bool> {
    let is_conditional = statements.clone().any(|statement| !statement.condition.is_none());
    if is_conditional && batch_has_timestamp {
        return Err(Error::invalid("Cannot provide custom timestamp for conditional BATCH"));
    }
    if kind == BatchKind::Counter && batch_has_timestamp {
        return Err(Error::invalid("Cannot provide custom timestamp for counter BATCH"));
    }
    let all = statements.clone();
    let (mut counters, mut others) = (false, false);
    let (mut virtual_tables, mut stored_tables) = (false, false);
    for statement in statements {
        let is_virtual = is_virtual(&statement.table.keyspace);
        virtual_tables |= is_virtual;
        stored_tables |= !is_virtual;
        let is_counter = statement.table.is_counter();
        counters |= is_counter;
        others |= !is_counter;
        if batch_has_timestamp && statement.timestamp.is_some() {
            return Err(Error::invalid(
                "Timestamp must be set either on BATCH or individual statements",
            ));
        }
    }
    match kind {
        _ if counters && batch_has_timestamp => {
            Err(Error::invalid("Cannot provide custom timestamp for a BATCH containing counters"))
        }
        BatchKind::Counter if others => {
            Err(Error::invalid("Cannot include non-counter statement in a counter batch"))
        }
        _ if counters && others => {
            Err(Error::invalid("Counter and non-counter mutations cannot exist in the same batch"))
        }
        BatchKind::Logged if virtual_tables => {
            Err(Error::invalid("Cannot include a virtual table statement in a logged batch"))
        }
        _ if virtual_tables && stored_tables => Err(Error::invalid(
            "Mutations for virtual and regular tables cannot exist in the same batch",
        )),
        BatchKind::Logged if counters => {
            Err(Error::invalid("Cannot include a counter statement in a logged batch"))
        }
        _ if virtual_tables && is_conditional => Err(Error::invalid(
            "Conditional BATCH statements cannot include mutations for virtual tables",
        )),
        _ if is_conditional && !is_of_one_table(all) => {
            Err(Error::invalid("Batch with conditions cannot span multiple tables"))
        }
        _ => Ok(counters),
    }
}

fn is_of_one_table<'s>(mut statements: impl Iterator<Item = &'s PlannedModification>) -> bool {
    let Some(first) = statements.next() else { return true };
    statements.all(|other| other.table.id == first.table.id)
}

impl PlannedBatch {
    /// Returns whether a statement has a condition.
    pub fn is_conditional(&self) -> bool {
        self.statements.iter().any(|statement| !statement.condition.is_none())
    }

    /// Returns the batch's timestamp in µs.
    ///
    /// # Errors
    /// As [`evaluate_timestamp`].
    pub fn timestamp_us(&self, evaluation: &Evaluation<'_>, default_us: i64) -> Result<i64> {
        match &self.timestamp {
            None => Ok(default_us),
            Some(term) => evaluate_timestamp(term, evaluation, default_us),
        }
    }
}
