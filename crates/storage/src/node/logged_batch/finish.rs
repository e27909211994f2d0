//! The start finishes the logged batches that an earlier run of the node has left unfinished.
//!
//! Memory bound: a page of stored batches, and one batch as a mutation.

use std::sync::Arc;

use espalier_mutation::{
    KeyRange,
    schema::{Schema, TableMetadata},
};
use espalier_runtime::{maybe_yield, time};

use super::{Batches, TABLE, is_refusal};
use crate::{
    PartitionRows, ReadCommand, ReadLimits, ReadPosition, ReadResult, ReadTarget, StorageError,
    node::batch_rows::{content, decode, is_of_ring},
};

/// Bytes of stored batches that the start reads at once (arbitrary). The last batch of a page may
/// exceed it.
const PAGE_BYTES: usize = 1 << 20;

impl Batches<'_> {
    /// At start, applies the batches that were stored and not finished.
    pub(in crate::node) async fn finish_logged_batches(self) -> Result<(), StorageError> {
        let schema = self.node.store().schema();
        let Some(table) = schema.table(TABLE.0, TABLE.1) else { return Ok(()) };
        let mut after = None;
        loop {
            let page = self.page_of_batches(table, after).await?;
            // A page may also have batches that this loop has stored, because it writes to tables
            // with views. Finishing such a batch again is harmless.
            for batch in page.partitions {
                maybe_yield().await;
                self.finish_batch(table, &schema, batch).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Reads the next page of stored batches.
    async fn page_of_batches(
        self,
        table: &Arc<TableMetadata>,
        after: Option<ReadPosition>,
    ) -> Result<ReadResult, StorageError> {
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        let target = ReadTarget::Range(KeyRange::full());
        let limits = ReadLimits { bytes: PAGE_BYTES, ..ReadLimits::NONE };
        let all = ReadCommand::of_all(table.clone(), target, now_s);
        self.node.read(ReadCommand { limits, resume: after, ..all }).await
    }

    /// Applies a stored batch and removes its entry, or logs why the entry stays.
    async fn finish_batch(
        self,
        table: &TableMetadata,
        schema: &Schema,
        batch: PartitionRows,
    ) -> Result<(), StorageError> {
        // Skip a batch of another node, because the members of that node's ring finish it.
        if batch.rows.iter().any(|row| is_of_ring(table, row)) {
            return Ok(());
        }
        let mut created_at = i64::MIN;
        for row in &batch.rows {
            let Some(content) = content(table, row) else { continue };
            let (mut mutation, is_whole) = match decode(content, schema) {
                Ok(decoded) => decoded,
                Err(error) => {
                    tracing::error!(
                        %error,
                        "unfinished logged batch cannot be decoded: it is kept in system.batches, \
                         and a part of its writes may be missing"
                    );
                    return Ok(());
                }
            };
            self.drop_truncated_and_expired(&mut mutation, &batch.key).await?;
            match self.node.apply(mutation).await {
                // The batch was stored under other settings (`sstable_format`, the size of
                // segments) and waits until they are back, or its view updates are too large.
                Err(error) if is_refusal(&error) => {
                    tracing::error!(
                        %error,
                        "unfinished logged batch cannot be stored, it waits for the next start: \
                         restore sstable_format as it was, and commitlog_segment_size or a \
                         greater one"
                    );
                    return Ok(());
                }
                // A write to a table with views reads rows first.
                Err(error) if is_damage(&error) => {
                    tracing::error!(
                        %error,
                        "unfinished logged batch cannot read a damaged file, it waits for the \
                         next start: scrub or restore the table"
                    );
                    return Ok(());
                }
                outcome => outcome?,
            }
            if !is_whole {
                tracing::error!(
                    "unfinished logged batch writes to a table that cannot be read; the other \
                     tables have their writes, the batch is kept for the next start"
                );
                return Ok(());
            }
            created_at = created_at.max(row.liveness.timestamp);
        }
        // The clock may be behind the timestamp of the entry.
        self.remove_entry(table, batch.key, created_at).await;
        Ok(())
    }
}

fn is_damage(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::SSTable(_) | StorageError::Damaged(_) | StorageError::Corrupt { .. }
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use espalier_mutation::{
        Cell, ColumnData, DecoratedKey, Mutation,
        schema::{TableBuilder, TableId},
    };
    use espalier_runtime::{block_on, file::FileSystem, random};
    use espalier_types::CqlType;
    use uuid::Uuid;

    use super::*;
    use crate::{
        node::batch_rows::{encode, entry},
        test_database::{create, open, write_of},
    };

    #[test]
    fn stored_batches_are_read_page_by_page_and_all_are_finished() {
        block_on(async {
            let node = open(FileSystem::simulated(1)).await;
            let builder = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)));
            let builder = builder.partition_key("k", CqlType::Blob).regular("v", CqlType::Blob);
            let metadata = create(&node, builder.build()).await;
            let schema = node.store().schema();
            let table = schema.table(TABLE.0, TABLE.1).unwrap();
            let maximum = node.store().configuration.commit_log.maximum_record_bytes();
            // Each batch fills a page.
            let value = Bytes::from(vec![0_u8; PAGE_BYTES]);
            for name in ["a", "b", "c"] {
                let data = ColumnData::Simple(Cell::live(1, value.clone()));
                let batch = write_of(&metadata, Bytes::from_static(name.as_bytes()), data);
                let stored = encode(&batch, &schema, maximum).unwrap();
                let id = random::timeuuid_now();
                let key = DecoratedKey::new(Bytes::copy_from_slice(id.as_bytes()));
                let update = entry(table, &key, stored);
                node.apply(Mutation { updates: vec![update] }).await.unwrap();
            }
            let batches = node.batches();
            let page = batches.page_of_batches(table, None).await.unwrap();
            assert_eq!(page.partitions.len(), 1);
            assert!(page.next.is_some());
            batches.finish_logged_batches().await.unwrap();
            let all = ReadTarget::Range(KeyRange::full());
            let rows = ReadCommand::of_all(metadata.clone(), all, 0);
            assert_eq!(node.read(rows).await.unwrap().partitions.len(), 3);
            let page = batches.page_of_batches(table, None).await.unwrap();
            assert_eq!((page.partitions.len(), page.next), (0, None));
        });
    }
}
