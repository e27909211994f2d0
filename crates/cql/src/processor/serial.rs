//! SELECT at SERIAL and LOCAL_SERIAL.
//!
//! 1. The SELECT waits until the statements that hold turns on its rows have ended. A transaction
//!    holds its turns until all shards have its writes. So if one SELECT has returned a part of
//!    these writes, the next SELECT returns all of them. The SELECT holds no turn while it reads.
//! 2. The SELECT reads.
//! 3. The SELECT waits until the rows are durable, because a crash could otherwise undo what the
//!    client has read.
//!
//! A scan of a range of partitions omits step 1.

use espalier_mutation::DecoratedKey;
use espalier_storage::{Node, StorageError, TurnKind, TurnRows};

use super::QueryProcessor;
use crate::{
    Error, QueryOptions, Result, Rows,
    restrictions::Partitions,
    select::{self, PlannedSelect},
    term::Evaluation,
    turn::now_after_wait_s,
};

impl QueryProcessor {
    /// Executes a SELECT at SERIAL.
    ///
    /// # Errors
    /// The statement names several partitions, other statements hold turns on its rows for longer
    /// than `cas_contention_timeout`, or [`select::execute`] or the storage fails.
    pub(super) async fn read_serially(
        &self,
        select: &PlannedSelect,
        evaluation: &Evaluation<'_>,
        options: &QueryOptions<'_>,
        now_s: u32,
    ) -> Result<Rows> {
        let (database, table) = (&self.inner.database, &select.table);
        let key = match select.restrictions.partition.partitions(table, evaluation)? {
            Partitions::Keys(keys) if keys.len() > 1 => {
                return Err(Error::invalid(
                    "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time",
                ));
            }
            Partitions::Keys(keys) => keys.into_iter().next(),
            Partitions::Range(_) => None,
        };
        let mut now_s = now_s;
        if let Some(key) = &key {
            self.await_turns(select, evaluation, key).await?;
            now_s = now_after_wait_s(now_s, options.now_s.is_some());
        }
        let rows = select::execute(select, database, evaluation, options, now_s).await?;
        database.wait_until_durable(table, key.as_ref()).await?;
        Ok(rows)
    }

    async fn await_turns(
        &self,
        select: &PlannedSelect,
        evaluation: &Evaluation<'_>,
        key: &DecoratedKey,
    ) -> Result<()> {
        let (database, table) = (&self.inner.database, &select.table);
        let slices = select.restrictions.slices(table, evaluation)?;
        let mut rows = TurnRows::new(table, key.borrowed());
        match select.restrictions.single_rows(table, &slices) {
            Some(named) => {
                named.iter().for_each(|row| rows.share_row(table, row));
                if table.has_static_columns() {
                    rows.share_static_row();
                }
            }
            // All rows include the static row.
            None => rows.add_all_rows(),
        }
        let deadline =
            database.store().configuration().timeouts.turn_deadline(TurnKind::SerialRead);
        let take = move |database: Node| async move {
            for key in rows.into_single_keys() {
                drop(database.store().turns().take_until(key, deadline).await?);
            }
            Ok::<_, StorageError>(())
        };
        let shard = database.store().routing().shard_of(table, key);
        Ok(database.call_in_turn(shard, deadline, take).await??)
    }
}
