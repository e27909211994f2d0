//! BATCH: modifications that are applied together.

mod size;

pub use size::{check_size, warn_of_partitions};

use std::collections::BTreeMap;

use espalier_mutation::{DecoratedKey, Mutation, PartitionUpdate, schema::TableId};
use espalier_storage::system::is_virtual;

use crate::{
    Error, Result,
    grammar::ast::BatchKind,
    guard::Guard,
    modify::{Clocks, CurrentRows, PlannedModification, WrittenRows, evaluate_timestamp},
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

/// Collects the partition updates of a batch's statements.
#[derive(Debug, Default)]
pub struct BatchUpdates {
    updates: BTreeMap<(TableId, DecoratedKey), PartitionUpdate>,
    /// Updates of counter tables, one for each statement and key. They are kept apart because two
    /// increments of a counter both count, but of two writes of a cell only the later one counts.
    counter_updates: Vec<PartitionUpdate>,
}

impl BatchUpdates {
    /// Adds the changes of one statement.
    ///
    /// # Errors
    /// As [`PlannedModification::guarded_updates_at`].
    pub fn add(
        &mut self,
        statement: &PlannedModification,
        written: &WrittenRows,
        evaluation: &Evaluation<'_>,
        clocks: Clocks,
        current: CurrentRows<'_>,
        guard: Guard<'_>,
    ) -> Result<()> {
        let updates = statement.guarded_updates_at(written, evaluation, clocks, current, guard)?;
        if statement.table.is_counter() {
            self.counter_updates.extend(updates);
            return Ok(());
        }
        for update in updates {
            match self.updates.entry((update.table, update.key.clone())) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(update);
                }
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    merge(&statement.table, entry.get_mut(), update);
                }
            }
        }
        Ok(())
    }

    /// Returns all collected updates as one mutation.
    pub fn into_mutation(self) -> Mutation {
        let updates = self.updates.into_values().chain(self.counter_updates);
        Mutation { updates: updates.filter(|update| !update.is_empty()).collect() }
    }
}

fn merge(
    table: &espalier_mutation::schema::TableMetadata,
    into: &mut PartitionUpdate,
    from: PartitionUpdate,
) {
    into.deletion = into.deletion.max(from.deletion);
    into.rows.extend(from.rows);
    into.range_tombstones.extend(from.range_tombstones);
    into.static_row = match (into.static_row.take(), from.static_row) {
        (Some(left), Some(right)) => {
            Some(espalier_mutation::reconcile::merge_rows(table, left, right))
        }
        (left, right) => left.or(right),
    };
}

/// Checks that the statements may stand in one batch. Returns whether they change counters.
///
/// # Errors
/// The batch and one of its statements have a timestamp, a counter batch or a conditional batch has
/// a timestamp, or the batch mixes kinds of statements or tables that exclude each other.
pub fn check_statements<'s>(
    kind: BatchKind,
    statements: impl Iterator<Item = &'s PlannedModification> + Clone,
    batch_has_timestamp: bool,
) -> Result<bool> {
    let is_conditional = statements.clone().any(|statement| !statement.condition.is_none());
    if is_conditional && batch_has_timestamp {
        return Err(Error::invalid("Cannot provide custom timestamp for conditional BATCH"));
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
        _ if counters && batch_has_timestamp => {
            Err(Error::invalid("Cannot provide custom timestamp for counter BATCH"))
        }
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
