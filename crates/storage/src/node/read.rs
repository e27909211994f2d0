//! Reads of this shard's data, of another shard's, and over several shards.

use espalier_runtime::trace_event;

use super::{Node, virtual_tables::read_virtual};
use crate::{ReadCommand, ReadResult, ReadTarget, StorageError, system::is_made_when_read};

impl Node {
    /// Executes a read command. A range is read from shard to shard in ring order.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown, if an SSTable is damaged or cannot be read, or if the node
    /// shuts down.
    pub async fn read(&self, command: ReadCommand) -> Result<ReadResult, StorageError> {
        if is_made_when_read(&command.table.keyspace, &command.table.name) {
            return Box::pin(read_virtual(self, &command)).await;
        }
        let routing = self.store().routing;
        let shards = match &command.target {
            ReadTarget::Partition(key) => {
                let shard = routing.shard_of(&command.table, key);
                trace_event!("Shard {shard} owns token {}", key.token.0);
                return read_on(self, shard, command).await;
            }
            ReadTarget::Range(range) => routing.shards_of_range(&command.table, range),
        };
        let first = match &command.resume {
            Some(position) => routing.shard_of(&command.table, &position.key).max(shards.start),
            None => shards.start,
        };
        let mut command = command;
        let mut result = ReadResult::default();
        for shard in first..shards.end {
            let part = read_on(self, shard, command.clone()).await?;
            let is_last = part.next.is_some() || shard + 1 == shards.end;
            // The counts walk over all rows, so the limits are computed only if another shard
            // follows.
            if !is_last {
                let limits = &mut command.limits;
                limits.rows = limits.rows.saturating_sub(part.row_count());
                // At least 1, so that the next shard does not take the limit as reached. A shard
                // counts the rows of a merge by their cells, and their flat form may take more
                // bytes, so the answer of a shard that read to its end may exceed the limit.
                limits.bytes = limits.bytes.saturating_sub(part.bytes()).max(1);
            }
            result.append(part);
            if is_last {
                break;
            }
            command.resume = None;
            // Tombstones are counted for each `window_rows` rows. If the read has dropped dead
            // fragments, it returns at most the rest of the present window.
            let window = command.limits.window_rows;
            if result.dropped > 0 && window < usize::MAX {
                let left = window - result.row_count() % window;
                command.limits.rows = command.limits.rows.min(left);
            }
        }
        Ok(result)
    }
}

async fn read_on(
    node: &Node,
    shard: usize,
    command: ReadCommand,
) -> Result<ReadResult, StorageError> {
    if shard == node.store().shard().index {
        return node.store().read(&command).await;
    }
    node.on_shard(shard, move |node| async move { node.store().read(&command).await }).await
}
