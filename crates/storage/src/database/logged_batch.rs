//! Logged batches: all of a mutation or nothing of it, over several shards and crashes.
//!
//! What one shard owns is one record of its commit log, and so is all or nothing by itself. A mutation of several shards
//! is first written as a whole to `system.batches`; then it is applied; then the note is deleted. A node that stops in
//! between applies what the notes say when it starts; applying a write twice is harmless. What belongs to a table that was
//! dropped or truncated since the note is left out then, and all of a batch so old that deletions which came after it may have
//! been forgotten: it would bring back what they deleted. How durable the note is when
//! the parts are written is up to `commitlog_sync`, as for every other write.
//!
//! ```text
//! note  vint count of mappings, each vint length and body of a columns record; vint length and body of a mutation record
//! ```

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, DecoratedKey, DeletionTime, KeyRange, Liveness,
    Mutation, PartitionUpdate, Row,
    schema::{Schema, TableMetadata},
};
use espalier_runtime::{random, spawn_local, time};
use hashbrown::HashMap;
use uuid::Uuid;

use super::{Database, storable::check_storable};
use crate::{
    StorageError,
    commitlog::{
        BodyError, BodyReader, ColumnMapping, EncodedMutation, KIND_COLUMNS, KIND_MUTATION,
        Translation, decode_mutation, put_bytes, put_vint,
    },
    read::{ReadCommand, ReadTarget},
    table::TruncationRecord,
};

const TABLE: (&str, &str) = ("system", "batches");
const CONTENT_COLUMN: &str = "mutations";

/// Pause before the parts of a batch that failed are tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A batch is finished at any rate so long after it was noted. By `gc_grace_seconds = 0` alone each crash would leave halves of batches; that a
/// deletion comes, goes to a file and is compacted away while its shard still refuses what was written before it, is not to be expected. An
/// arbitrary choice.
const LEAST_GRACE: Duration = Duration::from_secs(3600);

/// What is tried again may take so many bytes on a shard. Beyond that logged batches are refused: as long as a disk fails, or a shard has more to do
/// than it can, there is no end to how many fail. They are counted as they are encoded; as objects, many small rows take several times as much.
/// An arbitrary choice.
const MOST_UNFINISHED_BYTES: usize = 16 << 20;
/// What something takes that is tried again, besides a mutation.
const UNFINISHED_BYTES: usize = 1 << 10;

/// Something that is tried again, until this is dropped.
struct Unfinished {
    database: Database,
    bytes: usize,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let all = &self.database.inner.unfinished_batch_bytes;
        all.set(all.get().saturating_sub(self.bytes));
    }
}

impl Database {
    /// Writes all of a mutation, or, if the node stops before this resolves, perhaps all of it or nothing. An error
    /// means that it is not acknowledged; the node goes on to try.
    pub async fn apply_logged_batch(&self, mutation: Mutation) -> Result<(), StorageError> {
        if self.split_by_shard(mutation.clone()).len() <= 1 {
            return self.apply(mutation).await;
        }
        let bytes = self.inner.unfinished_batch_bytes.get();
        if bytes > MOST_UNFINISHED_BYTES {
            return Err(StorageError::TooManyUnfinishedBatches { bytes });
        }
        let schema = self.schema();
        // What would be refused later must be refused before the note: a note is not given up.
        for update in &mutation.updates {
            if schema.table_by_id(update.table).is_none() {
                return Err(StorageError::UnknownTable(update.table));
            }
            let store = self.table(update.table)?;
            check_storable(&store, self.sstable_features(&store), update)?;
        }
        let Some(table) = schema.table(TABLE.0, TABLE.1).cloned() else {
            return Err(StorageError::NotSupported(
                "a logged batch without the table system.batches",
            ));
        };
        let id = random::timeuuid_now();
        let key = DecoratedKey::new(Bytes::copy_from_slice(id.as_bytes()));
        let content = encode(&mutation, &schema)?;
        let bytes = content.len();
        let note = note(&table, &key, content);
        if let Err(error) = self.apply(Mutation { updates: vec![note] }).await {
            // It may be there, and say weeks later what was refused now.
            if let StorageError::CommitLogWrite(_) = error {
                self.remove_note(&table, key, i64::MIN).await;
            }
            return Err(error);
        }
        let outcome = self.apply(mutation.clone()).await;
        match outcome {
            Ok(()) => self.remove_note(&table, key, i64::MIN).await,
            Err(_) => {
                let unfinished = self.begin_unfinished(bytes);
                let retry = async move {
                    unfinished.database.retry_batch(&table, key, mutation).await;
                };
                spawn_local(retry).detach();
            }
        }
        outcome
    }

    /// Counts something that is tried again.
    fn begin_unfinished(&self, bytes: usize) -> Unfinished {
        let bytes = bytes.saturating_add(UNFINISHED_BYTES);
        let all = &self.inner.unfinished_batch_bytes;
        all.set(all.get().saturating_add(bytes));
        Unfinished { database: self.clone(), bytes }
    }

    async fn retry_batch(&self, table: &TableMetadata, key: DecoratedKey, mut mutation: Mutation) {
        while !self.is_closing() {
            time::sleep(RETRY_PAUSE).await;
            let schema = self.schema();
            mutation.updates.retain(|update| schema.table_by_id(update.table).is_some());
            if self.leave_out_dead(&mut mutation, &key).await.is_err() {
                continue;
            }
            if self.apply(mutation.clone()).await.is_ok() {
                return self.remove_note(table, key, i64::MIN).await;
            }
        }
    }

    /// Takes out what was written to tables before they were truncated, and all if deletions may have been forgotten since.
    async fn leave_out_dead(
        &self,
        mutation: &mut Mutation,
        key: &DecoratedKey,
    ) -> Result<(), StorageError> {
        let Some(noted_us) = noted_us(key) else { return Ok(()) };
        let tables: BTreeSet<_> = mutation.updates.iter().map(|update| update.table).collect();
        let schema = self.schema();
        let graces = tables.iter().filter_map(|id| schema.table_by_id(*id));
        let grace_s = graces.map(|table| u64::from(table.options.gc_grace_seconds)).min();
        let grace = grace_s.map_or(Duration::MAX, Duration::from_secs).max(LEAST_GRACE);
        let age_us = u64::try_from(time::now_micros().saturating_sub(noted_us)).unwrap_or(0);
        if Duration::from_micros(age_us) >= grace {
            tracing::error!(
                noted_us,
                "a batch was never finished and is given up: its tables have forgotten deletions that came after it (gc_grace_seconds)"
            );
            mutation.updates.clear();
        }
        for id in tables {
            // Dropped meanwhile: it is told of when it is applied.
            let Ok(table) = self.table(id) else { continue };
            let directory = &table.directory;
            let record = TruncationRecord::load(&self.inner.file_system, directory).await?;
            if record.is_some_and(|record| record.at_us >= noted_us) {
                mutation.updates.retain(|update| update.table != id);
            }
        }
        Ok(())
    }

    /// A batch is finished. Its note must not stay: whatever is deleted meanwhile, at the next start it would be applied again. It is
    /// deleted with a timestamp that is no less than `least`.
    async fn remove_note(&self, table: &TableMetadata, key: DecoratedKey, least: i64) {
        let mut removal = PartitionUpdate::new(table.id, key);
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        removal.deletion = DeletionTime::new(time::next_timestamp_micros().max(least), now_s);
        let removal = Mutation { updates: vec![removal] };
        if self.apply(removal.clone()).await.is_ok() {
            return;
        }
        let unfinished = self.begin_unfinished(0);
        let retry = async move {
            let database = &unfinished.database;
            while !database.is_closing() {
                time::sleep(RETRY_PAUSE).await;
                if database.apply(removal.clone()).await.is_ok() {
                    return;
                }
            }
        };
        spawn_local(retry).detach();
    }

    /// At start: applies the batches that were noted and not finished.
    pub(super) async fn finish_logged_batches(&self) -> Result<(), StorageError> {
        let schema = self.schema();
        let Some(table) = schema.table(TABLE.0, TABLE.1) else { return Ok(()) };
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        let all = ReadTarget::Range(KeyRange::full());
        let command = ReadCommand::of_all(table.clone(), all, now_s);
        'batches: for partition in self.read(command).await?.partitions {
            let mut noted_at = i64::MIN;
            for row in &partition.rows {
                let Some(content) = content(table, row) else { continue };
                let (mut mutation, is_whole) =
                    decode(content, &schema).map_err(|error| StorageError::Corrupt {
                        what: "a batch in system.batches".into(),
                        reason: error.to_string(),
                    })?;
                self.leave_out_dead(&mut mutation, &partition.key).await?;
                match self.apply(mutation).await {
                    // It was taken under other settings, and waits until they are back: `sstable_format`, or the size of segments.
                    Err(
                        error @ (StorageError::Unstorable(_)
                        | StorageError::ExpiryTooLate { .. }
                        | StorageError::MutationTooLarge { .. }),
                    ) => {
                        tracing::error!(%error, "an unfinished batch cannot be stored and is left");
                        continue 'batches;
                    }
                    outcome => outcome?,
                }
                if !is_whole {
                    tracing::error!(
                        "an unfinished batch writes to a table that cannot be read; the other \
                         tables have their writes, the batch is kept for the next start"
                    );
                    continue 'batches;
                }
                noted_at = noted_at.max(row.liveness.timestamp);
            }
            // The clock may have been set back since.
            self.remove_note(table, partition.key, noted_at).await;
        }
        Ok(())
    }
}

/// When a batch was noted, in µs since 1970, by its id.
fn noted_us(key: &DecoratedKey) -> Option<i64> {
    let (seconds, nanoseconds) = Uuid::from_slice(&key.key).ok()?.get_timestamp()?.to_unix();
    let us = seconds.checked_mul(1_000_000)?.checked_add(u64::from(nanoseconds) / 1000)?;
    i64::try_from(us).ok()
}

/// The row of `system.batches` that holds a batch.
fn note(table: &TableMetadata, key: &DecoratedKey, content: Bytes) -> PartitionUpdate {
    let timestamp = time::next_timestamp_micros();
    let mut row = Row::empty(Clustering::empty());
    row.liveness = Liveness::live(timestamp);
    if let Some(column) = table.column(CONTENT_COLUMN) {
        let cell = Cell::live(timestamp, content);
        let data = match column.is_complex() {
            false => ColumnData::Simple(cell),
            true => {
                let path = Bytes::copy_from_slice(random::timeuuid_now().as_bytes());
                let cells = vec![(path, cell)];
                ColumnData::Complex(ComplexColumn { deletion: DeletionTime::LIVE, cells })
            }
        };
        row.columns.push((column.id, data));
    }
    let mut update = PartitionUpdate::new(table.id, key.clone());
    update.rows.push(row);
    update
}

fn content(table: &TableMetadata, row: &Row) -> Option<Bytes> {
    match row.column(table.column(CONTENT_COLUMN)?.id)? {
        ColumnData::Simple(cell) => Some(cell.value.clone()),
        ColumnData::Complex(column) => column.cells.first().map(|(_, cell)| cell.value.clone()),
    }
}

fn encode(mutation: &Mutation, schema: &Schema) -> Result<Bytes, StorageError> {
    let mut note = Vec::new();
    put_vint(mutation.updates.len() as u64, &mut note);
    for (index, update) in mutation.updates.iter().enumerate() {
        let table =
            schema.table_by_id(update.table).ok_or(StorageError::UnknownTable(update.table))?;
        put_bytes(&ColumnMapping::new(index as u32, table).body, &mut note);
    }
    let mut encoded = EncodedMutation::default();
    encoded.encode(mutation, |index| index as u32);
    put_bytes(&encoded.body, &mut note);
    Ok(note.into())
}

/// Decodes a noted batch. Returns false with it if it also writes to a table that the node cannot
/// read: such writes are left out.
fn decode(note: Bytes, schema: &Schema) -> Result<(Mutation, bool), BodyError> {
    let mut reader = BodyReader::new(note);
    let mut translations = HashMap::new();
    let mut is_whole = true;
    for _ in 0..reader.count()? {
        let mut mapping = BodyReader::new(reader.bytes()?);
        if mapping.byte()? != KIND_COLUMNS {
            return Err(mapping.error("something else than a column mapping"));
        }
        let table_by_id = |id| {
            is_whole &= !schema.is_unreadable(id);
            schema.table_by_id(id).cloned()
        };
        let (number, translation) = Translation::decode(&mut mapping, table_by_id)?;
        translations.insert(number, translation);
    }
    let mut body = BodyReader::new(reader.bytes()?);
    if body.byte()? != KIND_MUTATION {
        return Err(body.error("something else than a mutation"));
    }
    decode_mutation(&mut body, |number| translations.get(&number))
        .map(|(mutation, _)| (mutation, is_whole))
}
