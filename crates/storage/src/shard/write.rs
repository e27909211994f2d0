//! The write path: encode once, append to the commit log, apply to the memtables, all without a
//! yield.

use std::{rc::Rc, time::Duration};

use espalier_commitlog::{
    AppendError, Appended, ColumnMapping, CommitLog, CommitTicket, EncodedMutation,
};
use espalier_mutation::{
    DecoratedKeyRef, Mutation, PartitionUpdate, RowContent, RowRef,
    schema::{TableId, TableMetadata},
};
use espalier_runtime::{time, trace_event};
use smallvec::SmallVec;

use super::{
    ShardStore,
    counters::add,
    index_room::check_index_entries,
    index_steps::{IndexedWrite, has_many_entries},
    logs::SCHEMA_SEGMENT_BYTES,
    storable::{check_key, check_row, check_storable},
    tables::Mappings,
};
use crate::{StorageError, table::Table};

/// Maximum bytes that the encoder keeps between writes.
const KEPT_ENCODER_BYTES: usize = 1 << 20;

/// Pause before a write checks again whether the shard has the new version of a table (arbitrary).
const SCHEMA_PAUSE: Duration = Duration::from_millis(1);

/// Reason why a write was not done.
enum WriteError {
    NoLogRoom,
    NoMemory,
    /// The write has a column of a newer version of the table, which this shard is about to get.
    OlderTable(TableId),
    /// The table has materialized views, so the write must read rows first.
    HasViews,
    /// The write has many entries in secondary indexes, which must be added in steps.
    HasManyEntries,
    Failed(StorageError),
}

/// The content of a mutation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completeness {
    /// The writes to base tables. Their view updates are still to be made.
    Base,
    /// The writes to base tables and to their views.
    WithViews,
}

/// The check of the commit log at the moment of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogCheck {
    /// The write may follow a failed sync.
    None,
    /// The write follows from rows that its statement has read. The write is refused while only
    /// memtables hold writes whose sync has failed, because a crash could keep this write and lose
    /// those rows.
    Intact,
}

impl WriteError {
    fn reason(&self) -> &'static str {
        match self {
            Self::NoLogRoom => "the commit log has no room until a memtable is flushed",
            Self::NoMemory => "the memtables have no room until one is flushed",
            Self::OlderTable(_) => "this shard does not have the new version of the table yet",
            Self::HasViews => "the write changes materialized views",
            Self::HasManyEntries => "the write has many entries in secondary indexes",
            Self::Failed(_) => "the write failed",
        }
    }
}

impl<E> From<E> for WriteError
where
    StorageError: From<E>,
{
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl ShardStore {
    /// Writes without waiting. Returns `None` if another shard owns some partition, if a table has
    /// views, if a column is newer than this shard's version of the table, if the write has many
    /// entries in secondary indexes, or if there is no room at the moment. The ticket resolves when
    /// the write is acknowledged.
    ///
    /// # Errors
    ///
    /// `Some(Err(_))` if a table is unknown, if an update cannot be stored, if the commit log has
    /// failed, or if the node shuts down.
    pub fn try_apply(&self, mutation: &Mutation) -> Option<Result<CommitTicket, StorageError>> {
        if !self.routing.owns_all(&self.tables.schema.borrow(), mutation)
            || self.tables.has_views(mutation)
        {
            return None;
        }
        match Writer(self).write_now(mutation, LogCheck::None, &IndexedWrite::default()) {
            Ok(ticket) => Some(Ok(ticket)),
            Err(WriteError::Failed(error)) => Some(Err(error)),
            Err(_) => None,
        }
    }

    /// Writes on this shard, waiting for room and for durability. The mutation has its view
    /// updates.
    ///
    /// # Errors
    ///
    /// Fails if a table is unknown, if another shard owns some partition, if an update cannot be
    /// stored, if the write timeout ends before the log and the memtables have room or before this
    /// shard has a column of the mutation, if the commit log fails, or if the store closes.
    pub async fn apply(&self, mutation: &Mutation) -> Result<(), StorageError> {
        if !self.routing.owns_all(&self.tables.schema.borrow(), mutation) {
            return Err(StorageError::NotSupported("a write of a partition of another shard"));
        }
        Ok(self.write_when_room(mutation, LogCheck::None).await?.wait().await?)
    }

    /// Writes on this shard, waiting for room but not for durability. The mutation has its view
    /// updates.
    pub(crate) async fn write_when_room(
        &self,
        mutation: &Mutation,
        check: LogCheck,
    ) -> Result<CommitTicket, StorageError> {
        loop {
            let written = self.write_if(mutation, Completeness::WithViews, check).await?;
            if let Some(ticket) = written {
                return Ok(ticket);
            }
        }
    }

    /// Writes on this shard, waiting for room but not for durability. Returns `None` if a table has
    /// a view and the mutation lacks the view's updates.
    pub(crate) async fn write_if(
        &self,
        mutation: &Mutation,
        completeness: Completeness,
        check: LogCheck,
    ) -> Result<Option<CommitTicket>, StorageError> {
        let (mut deadline, mut indexed) = (None, IndexedWrite::default());
        let mut index_turn = None;
        let timeout = self.configuration.timeouts.write;
        loop {
            if completeness == Completeness::Base && self.tables.has_views(mutation) {
                return Ok(None);
            }
            let error = match Writer(self).write_now(mutation, check, &indexed) {
                Ok(ticket) => return Ok(Some(ticket)),
                Err(WriteError::HasManyEntries) if index_turn.is_some() => {
                    indexed.add(self, mutation).await?;
                    continue;
                }
                Err(WriteError::HasManyEntries) => {
                    // After the wait, check for room again: the writes before this one may have
                    // used it.
                    let deadline = *deadline.get_or_insert_with(|| time::Instant::now() + timeout);
                    let turn = self.memtables.index_turn.acquire(1);
                    let turn = time::timeout_at(deadline, turn).await;
                    index_turn =
                        Some(turn.map_err(|_| Writer(self).out_of_room(&WriteError::NoMemory))?);
                    continue;
                }
                Err(error) => error,
            };
            trace_event!("Waiting: {}", error.reason());
            let _awaiting = self.memtables.await_flush();
            let deadline = *deadline.get_or_insert_with(|| time::Instant::now() + timeout);
            let waited = match &error {
                WriteError::NoLogRoom => {
                    self.wakers.flush.notify_one();
                    time::timeout_at(deadline, Writer(self).log_of(mutation)?.wait_for_room()).await
                }
                WriteError::NoMemory => {
                    time::timeout_at(deadline, self.memtables.budget.wait_for_room()).await
                }
                WriteError::OlderTable(_) => {
                    time::timeout_at(deadline, time::sleep(SCHEMA_PAUSE)).await
                }
                WriteError::HasViews | WriteError::HasManyEntries => return Ok(None),
                WriteError::Failed(error) => return Err(error.clone()),
            };
            if waited.is_err() {
                return Err(Writer(self).out_of_room(&error));
            }
        }
    }

    /// Waits until this shard has the columns of an update.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown, or if the write timeout ends before.
    pub(crate) async fn wait_for_columns(
        &self,
        update: &PartitionUpdate,
    ) -> Result<(), StorageError> {
        let deadline = time::Instant::now() + self.configuration.timeouts.write;
        loop {
            let table = self.tables.get(update.table)?;
            let checked = check_versions(&table.borrow_metadata(), update);
            let Err(error) = checked else { return Ok(()) };
            trace_event!("Waiting: {}", error.reason());
            if time::timeout_at(deadline, time::sleep(SCHEMA_PAUSE)).await.is_err() {
                return Err(Writer(self).out_of_room(&error));
            }
        }
    }

    /// Checks on this shard that a mutation could be written if there were room, also into an empty
    /// segment of the commit log, and that its record could be `spare_bytes` larger. Writes
    /// nothing.
    ///
    /// # Errors
    ///
    /// Fails if a table or a column is unknown, if an update cannot be stored, if the mutation is
    /// too large for the commit log, or if the node shuts down.
    pub async fn check_write(
        &self,
        mutation: &Mutation,
        spare_bytes: usize,
    ) -> Result<(), StorageError> {
        check_index_entries(self, mutation).await?;
        let tables = Writer(self).tables_to_write(mutation).map_err(|error| match error {
            WriteError::Failed(error) => error,
            other => Writer(self).out_of_room(&other),
        })?;
        let mut encoder = self.buffers.encoder.borrow_mut();
        let log = Writer(self).log_of(mutation)?;
        let (maximum, mappings) =
            (log.configuration().maximum_record_bytes(), Mappings::of(&tables));
        encoder.encode(mutation, maximum, |index| mappings.number(index))?;
        let bytes = encoder.body.len() + spare_bytes;
        encoder.shrink_to(KEPT_ENCODER_BYTES);
        Ok(log.check_size(bytes, &mappings.distinct())?)
    }

    /// Writes one row without waiting, as [`ShardStore::try_apply`] does with a mutation of one
    /// row, but from borrowed values. `clustering` has a value for each clustering column.
    ///
    /// Returns `None` in the same cases.
    ///
    /// # Errors
    ///
    /// `Some(Err(_))` as from [`ShardStore::try_apply`].
    #[inline]
    pub fn try_write_row<V: AsRef<[u8]>>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        row: &RowRef<'_>,
    ) -> Option<Result<CommitTicket, StorageError>> {
        if !self.routing.owns(table, key.token) {
            return None;
        }
        match Writer(self).write_row_now(table.id, key, clustering, row) {
            Ok(ticket) => Some(Ok(ticket)),
            Err(WriteError::Failed(error)) => Some(Err(error)),
            Err(_) => None,
        }
    }
}

/// Writes to the log and the memtables of a shard.
#[derive(Clone, Copy)]
struct Writer<'s>(&'s ShardStore);

impl<'s> Writer<'s> {
    fn out_of_room(self, error: &WriteError) -> StorageError {
        let reason = self.0.tables.flush_failure().unwrap_or_else(|| "flushing is too slow".into());
        match error {
            WriteError::NoLogRoom => StorageError::CommitLogFull { reason },
            WriteError::OlderTable(id) => StorageError::UnknownColumn(*id),
            _ => StorageError::MemtablesFull {
                used_bytes: self.0.memtables.budget.used_bytes(),
                limit_bytes: self.0.memtables.budget.limit_bytes(),
                reason,
            },
        }
    }

    fn log_of(self, mutation: &Mutation) -> Result<&'s CommitLog, StorageError> {
        let is_schema = mutation
            .updates
            .first()
            .is_some_and(|update| self.0.tables.is_on_first_shard(update.table));
        self.0.logs.get(is_schema)
    }

    /// Returns the maximum size of a mutation's record in bytes. The maximum also holds for tables
    /// that are not logged, because a statement may write one large value to many rows.
    #[inline]
    fn maximum_record_bytes(self, is_schema: bool) -> usize {
        if is_schema {
            SCHEMA_SEGMENT_BYTES as usize / 2
        } else {
            self.0.configuration.commit_log.maximum_record_bytes()
        }
    }

    /// Returns an error if no write may start at the moment.
    #[inline]
    fn admit(self) -> Result<(), WriteError> {
        if self.0.life.is_closing.get() {
            return Err(StorageError::ShuttingDown.into());
        }
        if !self.0.memtables.budget.has_room() {
            self.0.wakers.flush.notify_one();
            return Err(WriteError::NoMemory);
        }
        Ok(())
    }

    /// Returns an error if the memtable of `table` may not grow.
    #[inline]
    fn admit_to(self, table: &Table) -> Result<(), WriteError> {
        let view = table.borrow_view();
        if view.memtable.wants_flush() {
            self.0.wakers.flush.notify_one();
            if view.memtable.is_full() {
                return Err(WriteError::NoMemory);
            }
        }
        Ok(())
    }

    /// Appends an encoded mutation to its log.
    fn log_write(
        self,
        body: &[u8],
        is_schema: bool,
        mappings: &[&ColumnMapping],
    ) -> Result<Appended, WriteError> {
        let log = self.0.logs.get(is_schema)?;
        let appended = log.append(body, mappings).map_err(|error| match error {
            AppendError::NoRoom => WriteError::NoLogRoom,
            AppendError::Failed(error) => error.into(),
        })?;
        trace_event!("Appending to commitlog: {} bytes", body.len());
        Ok(appended)
    }

    /// Counts a write that was applied, and wakes the flush scheduler if the memtables want a
    /// flush. Returns the ticket; while writes are throttled, it also waits for the delay of the
    /// write pace.
    #[inline]
    fn end_write(self, encoder: &mut EncodedMutation, ticket: CommitTicket) -> CommitTicket {
        let delay = self.0.memtables.write_pace.delay(
            encoder.body.len(),
            &self.0.memtables.budget,
            &self.0.memtables.flush_estimate,
        );
        if delay.is_some() {
            add(&self.0.counters.writes.slowed, 1);
        }
        encoder.shrink_to(KEPT_ENCODER_BYTES);
        add(&self.0.counters.writes.all, 1);
        if self.0.memtables.budget.wants_flush() {
            self.0.wakers.flush.notify_one();
        }
        ticket.with_delay(delay)
    }

    /// Returns the table of each update, if each table can store its update.
    fn tables_to_write(self, mutation: &Mutation) -> Result<SmallVec<[Rc<Table>; 2]>, WriteError> {
        let mut tables: SmallVec<[Rc<Table>; 2]> = SmallVec::new();
        for update in &mutation.updates {
            let table = self.0.tables.get(update.table)?;
            let features = table.sstable_features(self.0.tables.default_features);
            check_versions(&table.borrow_metadata(), update)?;
            check_storable(&table, features, update)?;
            tables.push(table);
        }
        Ok(tables)
    }

    fn write_now(
        self,
        mutation: &Mutation,
        check: LogCheck,
        indexed: &IndexedWrite,
    ) -> Result<CommitTicket, WriteError> {
        self.admit()?;
        let tables = self.tables_to_write(mutation)?;
        tables.iter().try_for_each(|table| self.admit_to(table))?;
        let updates = tables.iter().map(|table| &**table).zip(&mutation.updates);
        if indexed.lacks_entries(self.0, updates) {
            return Err(WriteError::HasManyEntries);
        }
        let mut encoder = self.0.buffers.encoder.borrow_mut();
        let mappings = Mappings::of(&tables);
        let is_schema = tables.first().is_some_and(|table| table.is_schema());
        let maximum = self.maximum_record_bytes(is_schema);
        encoder.encode(mutation, maximum, |index| mappings.number(index))?;
        let mut appended = None;
        if tables.iter().any(|table| table.is_durable()) {
            let log = self.0.logs.get(is_schema)?;
            if check == LogCheck::Intact
                && let Some(failure) = log.failure_in_memory()
            {
                return Err(failure.into());
            }
            appended = Some(self.log_write(&encoder.body, is_schema, &mappings.distinct())?);
        }
        let mut first_row = 0;
        for (number, (update, table)) in mutation.updates.iter().zip(&tables).enumerate() {
            let memtable = table.memtable();
            if let Some(Appended { start, end, .. }) = appended {
                memtable.add_position(start, end);
            }
            let packed = |index| encoder.packed_row(first_row + index);
            table.empty_ranges().record_update(&table.borrow_metadata(), update, packed);
            if indexed.has(number, &memtable) {
                memtable.apply_rows(&table.metadata(), update, packed)?;
            } else {
                memtable.apply(&table.metadata(), update, packed)?;
            }
            trace_event!(
                "Adding to {} memtable: {} rows",
                table.metadata().name,
                update.rows.len()
            );
            first_row += packed_rows(update);
        }
        let ticket = appended.map_or_else(CommitTicket::acknowledged, |appended| appended.ticket);
        Ok(self.end_write(&mut encoder, ticket))
    }

    #[inline]
    fn write_row_now<V: AsRef<[u8]>>(
        self,
        id: TableId,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        row: &RowRef<'_>,
    ) -> Result<CommitTicket, WriteError> {
        self.admit()?;
        let tables = self.0.tables.by_id.borrow();
        let table = tables.get(&id).ok_or(StorageError::UnknownTable(id))?;
        let features = table.sstable_features(self.0.tables.default_features);
        check_version(&table.borrow_metadata(), row)?;
        check_key(key.key)?;
        check_row(table, features, row)?;
        self.admit_to(table)?;
        if table.borrow_metadata().has_views() {
            return Err(WriteError::HasViews);
        }
        let view = table.borrow_view();
        let memtable = &view.memtable;
        if has_many_entries(memtable, key, clustering, row) {
            return Err(WriteError::HasManyEntries);
        }
        let mut encoder = self.0.buffers.encoder.borrow_mut();
        let mut ticket = CommitTicket::acknowledged();
        let maximum = self.maximum_record_bytes(table.is_schema());
        if !table.is_durable() {
            encoder.pack(row, maximum)?;
        } else {
            let mapping = table.borrow_mapping();
            encoder.encode_row(mapping.number, key.key, clustering, row, maximum)?;
            let appended = self.log_write(&encoder.body, table.is_schema(), &[&mapping])?;
            memtable.add_position(appended.start, appended.end);
            ticket = appended.ticket;
        }
        let packed = encoder.packed_row(0);
        let metadata = table.borrow_metadata();
        table.empty_ranges().record_row(&metadata, key, clustering, row, packed);
        memtable.apply_row(&metadata, key, clustering, row, packed)?;
        trace_event!("Adding to {} memtable: 1 row", metadata.name);
        Ok(self.end_write(&mut encoder, ticket))
    }
}

/// Returns an error as [`check_version`] does, for all rows of an update.
fn check_versions(table: &TableMetadata, update: &PartitionUpdate) -> Result<(), WriteError> {
    update.static_row.iter().chain(&update.rows).try_for_each(|row| check_version(table, row))
}

/// Returns an error if a row has a column of a newer version of the table. The commit log would
/// have no name for the column, so the replay would lose its cell. A column that was dropped
/// meanwhile is allowed: no read shows its cell, and the replay discards it.
#[inline]
fn check_version(table: &TableMetadata, row: &impl RowContent) -> Result<(), WriteError> {
    let is_known = row.columns().all(|(id, _)| table.has_known_id(id));
    if is_known { Ok(()) } else { Err(WriteError::OlderTable(table.id)) }
}

fn packed_rows(update: &PartitionUpdate) -> usize {
    usize::from(update.static_row.is_some()) + update.rows.len()
}
