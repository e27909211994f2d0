//! Execution without waiting: reads of single rows in memory, and writes. By default, the answer of
//! a write waits for the commit log.

use std::sync::Arc;

use espalier_mutation::{Mutation, schema::TableMetadata};
use espalier_runtime::time;
use espalier_storage::{CommitTicket, LookAhead, StorageError};
use smallvec::SmallVec;

use super::{QueryProcessor, clocks, now_s_or};
use crate::{
    ClientState, QueryOptions, QueryResult, Result, ResultMetadata, Rows, Value, Values,
    consistency,
    look_ahead::{Ahead, look_ahead},
    modify::{Clocks, PlannedModification},
    prepared::{Plan, Prepared},
    restrictions::PointKey,
    select::{self, PlannedSelect},
    term::{Evaluation, bind_values, borrow_values},
};

/// The only row of the answer to an applied conditional write: `true`.
pub const APPLIED: &[u8] = &[0, 0, 0, 1, 1];

/// The outcome of an execution without waiting.
pub enum Now {
    /// The statement is complete.
    Done(Result<QueryResult>),
    /// A read of at most one row is complete. Its columns are [`Prepared::result`].
    Row {
        /// True if the row exists. The caller's buffer then has the encoded row.
        found: bool,
    },
    /// A write was applied. Once the ticket resolves, the client gets `Void`, or, if the write was
    /// conditional, [`APPLIED`] with the columns in the second field.
    AfterSync(CommitTicket, Option<Arc<ResultMetadata>>),
    /// The execution would have to wait: use [`QueryProcessor::execute`].
    MustWait,
}

impl QueryProcessor {
    /// Executes a statement if the execution need not wait. `row` receives the row of [`Now::Row`];
    /// the former content of `row` is lost.
    pub fn execute_now(
        &self,
        prepared: &Arc<Prepared>,
        client: &ClientState,
        options: &QueryOptions<'_>,
        row: &mut Vec<u8>,
    ) -> Now {
        if prepared.changes_roles {
            return Now::MustWait;
        }
        if let Some(login) = &client.login {
            match login.check_now(prepared) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Now::Done(Err(error)),
                None => return Now::MustWait,
            }
        }
        if let Err(error) = consistency::check(&prepared.plan, options) {
            return Now::Done(Err(error));
        }
        let guardrails = &self.inner.database.store().configuration().guardrails;
        if prepared.timeout.is_some() {
            return Now::MustWait;
        }
        match &prepared.plan {
            // The general path checks the guardrails.
            Plan::Modification(_) if guardrails.guards_writes() => Now::MustWait,
            Plan::Select(_) if guardrails.guards_reads() => Now::MustWait,
            Plan::Select(select) if select.masked_selectors.is_some() => Now::MustWait,
            Plan::Modification(statement) if statement.point_turn.is_some() => {
                self.take_point_turn(prepared, statement, options)
            }
            Plan::Modification(statement) if statement.point.is_some() => {
                let written = self.write_point(prepared, statement, options);
                written.map_or(Now::MustWait, acknowledged)
            }
            Plan::Modification(statement) => self.modify_now(prepared, statement, options),
            Plan::Select(_) if consistency::is_serial(options.consistency) => Now::MustWait,
            Plan::Select(select) => match self.read_point(prepared, select, options, row) {
                Some(Ok(found)) => Now::Row { found },
                Some(Err(error)) => Now::Done(Err(error)),
                None => Now::MustWait,
            },
            _ => Now::MustWait,
        }
    }

    /// Returns whether [`QueryProcessor::look_ahead`] can help an execution of this statement.
    pub fn can_look_ahead(&self, prepared: &Prepared) -> bool {
        let store = self.inner.database.store();
        row_ahead(prepared).is_some_and(|(table, ..)| LookAhead::is_worthwhile(store, table))
    }

    /// Prefetches the memory that single-row statements will need, for a caller that will execute
    /// several of them. Ignores other statements and invalid values, because the execution handles
    /// both.
    pub fn look_ahead(&self, requests: &[(&Prepared, Values<'_>)]) {
        let mut buffer = self.inner.key_buffer.borrow_mut();
        let rows = requests.iter().filter_map(|(prepared, values)| {
            let (table, key, is_write) = row_ahead(prepared)?;
            let values = borrow_values(&prepared.bind.columns, *values)?;
            Some(Ahead { table, key, values, is_write })
        });
        look_ahead(&self.inner.database, &rows.collect::<SmallVec<[_; 32]>>(), &mut buffer);
    }

    #[inline]
    fn read_point(
        &self,
        prepared: &Prepared,
        select: &PlannedSelect,
        options: &QueryOptions<'_>,
        row: &mut Vec<u8>,
    ) -> Option<Result<bool>> {
        let values = point_values(prepared, select, options)?;
        let now_s = now_s_or(options, time::now_seconds_coarse);
        let mut buffer = self.inner.key_buffer.borrow_mut();
        select::read_point(select, &self.inner.database, values, now_s, &mut buffer, row)
    }

    pub(super) async fn read_point_with_waits(
        &self,
        prepared: &Arc<Prepared>,
        options: &QueryOptions<'_>,
    ) -> Option<Result<Rows>> {
        let Plan::Select(select) = &prepared.plan else { return None };
        let values = point_values(prepared, select, options)?;
        let now_s = now_s_or(options, time::now_seconds_coarse);
        select::read_point_with_waits(prepared, &self.inner.database, values, now_s).await
    }

    #[inline]
    fn write_point(
        &self,
        prepared: &Prepared,
        statement: &PlannedModification,
        options: &QueryOptions<'_>,
    ) -> Option<Result<CommitTicket, StorageError>> {
        let values = borrow_values(&prepared.bind.columns, options.values)?;
        let clocks = match options.timestamp_us {
            Some(timestamp_us) => {
                Clocks { timestamp_us, now_s: now_s_or(options, time::now_seconds_coarse) }
            }
            None => clocks(options, time::now_micros()),
        };
        let mut buffer = self.inner.key_buffer.borrow_mut();
        statement.write_point(&self.inner.database, values, clocks, &mut buffer)
    }

    #[inline]
    fn take_point_turn(
        &self,
        prepared: &Prepared,
        statement: &PlannedModification,
        options: &QueryOptions<'_>,
    ) -> Now {
        let Some(turn) = &statement.point_turn else { return Now::MustWait };
        let Some(values) = borrow_values(&prepared.bind.columns, options.values) else {
            return Now::MustWait;
        };
        // A conditional write ignores the client's timestamp.
        let options = QueryOptions { timestamp_us: None, ..*options };
        let clocks = clocks(&options, time::now_micros());
        let mut buffer = self.inner.key_buffer.borrow_mut();
        let database = &self.inner.database;
        match statement.write_in_point_turn(database, values, clocks, &mut buffer) {
            None => Now::MustWait,
            Some(Ok(ticket)) => Now::AfterSync(ticket, Some(turn.applied.clone())),
            Some(Err(error)) => Now::Done(Err(error.into())),
        }
    }

    fn modify_now(
        &self,
        prepared: &Prepared,
        statement: &PlannedModification,
        options: &QueryOptions<'_>,
    ) -> Now {
        if statement.takes_turn() || statement.table.is_counter() {
            return Now::MustWait;
        }
        let updates = (|| {
            let values = bind_values(&prepared.bind.columns, options.values)?;
            let now_us = time::now_micros();
            let evaluation = Evaluation { values: &values, now_us, references: &[] };
            statement.updates(&evaluation, clocks(options, now_us), &|_, _| None)
        })();
        let mut updates = match updates {
            Ok(updates) => updates,
            Err(error) => return Now::Done(Err(error)),
        };
        updates.retain(|update| !update.is_empty());
        if updates.is_empty() {
            return Now::Done(Ok(QueryResult::Void));
        }
        match self.inner.database.store().try_apply(&Mutation { updates }) {
            None => Now::MustWait,
            Some(outcome) => acknowledged(outcome),
        }
    }
}

/// Returns the values of a SELECT if it can be answered as a point read and the values are valid.
#[inline]
fn point_values<'v>(
    prepared: &Prepared,
    select: &PlannedSelect,
    options: &QueryOptions<'v>,
) -> Option<&'v [Value]> {
    // With a page size of 1, the row fills the page, and the answer may need a paging state. Only
    // the general path makes a paging state.
    if select.point.is_none() || options.paging_state.is_some() || options.page_size == Some(1) {
        return None;
    }
    borrow_values(&prepared.bind.columns, options.values)
}

/// Returns the table and key of the only row that the statement names, and whether the statement
/// writes it. Returns `None` if look-ahead does not support the statement.
fn row_ahead(prepared: &Prepared) -> Option<(&Arc<TableMetadata>, &PointKey, bool)> {
    match &prepared.plan {
        Plan::Select(select) if select.bypass_cache => None,
        Plan::Select(select) => Some((&select.table, select.point_key()?, false)),
        Plan::Modification(statement) => Some((&statement.table, statement.point_key()?, true)),
        _ => None,
    }
}

/// Returns the answer to an applied write, or the ticket to wait for.
#[inline]
fn acknowledged(outcome: Result<CommitTicket, StorageError>) -> Now {
    match outcome {
        Ok(ticket) if ticket.is_acknowledged() => Now::Done(Ok(QueryResult::Void)),
        Ok(ticket) => Now::AfterSync(ticket, None),
        Err(error) => Now::Done(Err(error.into())),
    }
}
