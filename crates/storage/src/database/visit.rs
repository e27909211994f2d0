//! Reads for a visitor, which sees tombstones too.

use espalier_runtime::trace;

use super::{Database, read::trace_command};
use crate::{
    StorageError,
    read::{FragmentVisitor, ReadCommand, ReadTarget, TableAccess, Visit, visit_on_shard},
};

impl Database {
    /// Shows a visitor all that the partitions of a command hold, in ring order, until it wants no
    /// more. The visitor goes to the shards that own the partitions, one after the other, and
    /// comes back in the end.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown, if an SSTable is damaged or cannot be read, or if the node
    /// shuts down. The visitor is lost then.
    pub async fn visit<V>(&self, command: ReadCommand, mut visitor: V) -> Result<V, StorageError>
    where
        V: FragmentVisitor + Send + 'static,
    {
        let shards = match &command.target {
            ReadTarget::Partition(key) => {
                let shard = self.shard_of(&command.table, key);
                shard..shard + 1
            }
            ReadTarget::Range(range) => self.shards_of_range(&command.table, range),
        };
        for shard in shards {
            let wanted;
            if shard == self.inner.context.index {
                wanted = self.visit_here(&command, &mut visitor).await?;
            } else {
                let command = command.clone();
                let visiting = self.on_shard(shard, move |database| async move {
                    let wanted = database.visit_here(&command, &mut visitor).await?;
                    Ok::<_, StorageError>((visitor, wanted))
                });
                (visitor, wanted) = visiting.await?;
            }
            if wanted == Visit::End {
                break;
            }
        }
        Ok(visitor)
    }

    async fn visit_here(
        &self,
        command: &ReadCommand,
        visitor: &mut dyn FragmentVisitor,
    ) -> Result<Visit, StorageError> {
        let table = self.table(command.table.id)?;
        let (view, cache) = (table.view(), table.row_cache());
        // A command with an older version of the table must not use the cache.
        let cache = cache.filter(|_| table.is_version(&command.table));
        self.inner.counters.reads.set(self.inner.counters.reads.get() + 1);
        let own = self.own_range(&command.table);
        if trace::is_on() {
            trace_command(command, view.sstables.len());
        }
        let access = TableAccess { view: &view, cache: cache.as_ref(), empty: None };
        visit_on_shard(access, command, &own, visitor).await
    }
}
