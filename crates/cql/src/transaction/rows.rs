//! Evaluates the rows that a transaction reads and writes, before it reads.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{DecoratedKey, Direction, schema::TableMetadata};
use espalier_runtime::maybe_yield;
use espalier_storage::{Node, ReadCommand, ReadLimits, ReadTarget, TurnRows};

use super::{Answer, PlannedTransaction};
use crate::{
    Error, Result,
    modify::{Operation, PlannedModification, WrittenRows},
    restrictions::{NamedRows, Partitions, Restrictions},
    select::PlannedSelect,
    term::{Bound, Evaluation},
};

/// The rows of a transaction. The transaction evaluates their keys once, because `uuid()` in a key
/// has another value at each evaluation.
#[derive(Debug, Default)]
pub struct TransactionRows {
    /// For each shard, the rows on which the transaction takes turns there.
    pub turns: BTreeMap<usize, TurnRows>,
    /// For each `LET`, the read of its row.
    pub reads: Vec<ReadCommand>,
    /// The rows that the transaction returns or writes. The timestamp of the writes must be later
    /// than the timestamps of these rows, too.
    pub others: Vec<ReadCommand>,
    /// For each update, the rows that it writes.
    pub updates: Vec<WrittenRows>,
    /// The number of rows that its statements with INs name.
    count: NamedRows,
}

impl TransactionRows {
    /// Evaluates the keys of a transaction.
    ///
    /// # Errors
    /// A value of a key is invalid or a reference, the keys name too many rows, or a SELECT may
    /// read more than one row.
    pub async fn of(
        database: &Node,
        plan: &PlannedTransaction,
        evaluation: &Evaluation<'_>,
        now_s: u32,
    ) -> Result<Self> {
        let mut named = Self::default();
        for select in &plan.reads {
            maybe_yield().await;
            check_limit(select, evaluation)?;
            let mut commands = named.add_read(database, select, evaluation, now_s)?;
            let Some(command) = commands.pop().filter(|_| commands.is_empty()) else {
                return Err(Error::invalid(
                    "Within a transaction, SELECT statements must select a single partition",
                ));
            };
            named.reads.push(command);
        }
        if let Answer::Select(select) = &plan.answer {
            check_limit(select, evaluation)?;
            let commands = named.add_read(database, select, evaluation, now_s)?;
            named.others.extend(commands);
        }
        for update in &plan.updates {
            maybe_yield().await;
            named.add_update(database, update, evaluation, now_s)?;
        }
        Ok(named)
    }

    fn add_read(
        &mut self,
        database: &Node,
        select: &PlannedSelect,
        evaluation: &Evaluation<'_>,
        now_s: u32,
    ) -> Result<Vec<ReadCommand>> {
        let (table, restrictions) = (&select.table, &select.restrictions);
        let slices = Arc::new(restrictions.slices(table, evaluation)?);
        let rows = restrictions.single_rows(table, &slices);
        let mut commands = Vec::new();
        let keys = keys(table, restrictions, evaluation)?;
        self.count.add(keys.len(), slices.slices.len())?;
        for key in keys {
            let mut turn = TurnRows::new(table, key.borrowed());
            match &rows {
                Some(rows) => rows.iter().for_each(|row| turn.share_row(table, row)),
                None => turn.add_all_rows(),
            }
            if table.has_static_columns() {
                turn.share_static_row();
            }
            self.add_turn(database.store().routing().shard_of(table, &key), turn);
            let limits = ReadLimits { rows: 1, ..ReadLimits::NONE };
            let direction =
                if select.is_reversed { Direction::Reverse } else { Direction::Forward };
            let target = ReadTarget::Partition(key);
            let all = ReadCommand::of_all(table.clone(), target, now_s);
            commands.push(ReadCommand { slices: slices.clone(), limits, direction, ..all });
        }
        Ok(commands)
    }

    fn add_update(
        &mut self,
        database: &Node,
        update: &PlannedModification,
        evaluation: &Evaluation<'_>,
        now_s: u32,
    ) -> Result<()> {
        let (table, restrictions) = (&update.table, &update.restrictions);
        let is_static_alone = update.is_static_alone();
        let written = update.written_rows(evaluation)?;
        let slices = &written.slices;
        self.count.add(written.keys.len(), slices.slices.len())?;
        let rows = restrictions.single_rows(table, slices);
        for key in &written.keys {
            let mut turn = TurnRows::new(table, key.borrowed());
            match &rows {
                _ if is_static_alone => {}
                Some(rows) => rows.iter().for_each(|row| turn.add_row(table, row)),
                None => turn.add_all_rows(),
            }
            if update.operations.iter().any(Operation::is_static) {
                turn.add_static_row();
            }
            self.add_turn(database.store().routing().shard_of(table, key), turn);
        }
        self.others.extend(update.timestamp_reads(&written, now_s));
        self.updates.push(written);
        Ok(())
    }

    fn add_turn(&mut self, shard: usize, rows: TurnRows) {
        match self.turns.entry(shard) {
            std::collections::btree_map::Entry::Occupied(mut entry) => entry.get_mut().join(rows),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(rows);
            }
        }
    }
}

fn keys(
    table: &TableMetadata,
    restrictions: &Restrictions,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<DecoratedKey>> {
    match restrictions.partition.partitions(table, evaluation)? {
        Partitions::Keys(keys) => Ok(keys),
        Partitions::Range(_) => Err(Error::invalid("Some partition key parts are missing")),
    }
}

/// Checks a bound LIMIT: without the full primary key it must be 1.
fn check_limit(select: &PlannedSelect, evaluation: &Evaluation<'_>) -> Result<()> {
    let restrictions = &select.restrictions;
    if restrictions.names_whole_rows(&select.table) && !restrictions.has_in() {
        return Ok(());
    }
    let limit = select.limit.as_ref().map(|limit| limit.evaluate(evaluation)).transpose()?;
    match limit {
        Some(Bound::Value(bytes)) if bytes.as_ref() == 1i32.to_be_bytes() => Ok(()),
        _ => Err(Error::invalid(
            "SELECT must specify either all primary key elements or all partition key elements and LIMIT 1. In both cases partition key elements must be always specified with equality operators",
        )),
    }
}
