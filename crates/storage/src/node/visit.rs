//! Reads for a visitor, which sees tombstones too.

use super::Node;
use crate::{
    ReadCommand, ReadTarget, StorageError,
    read::{FragmentVisitor, Visit},
};

impl Node {
    /// Shows a visitor all that the partitions of a command hold, in ring order, until the visitor
    /// wants no more. The read sends the visitor to the shards that own the partitions, one after
    /// the other, and returns the visitor in the end.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown, if an SSTable is damaged or cannot be read, or if the node
    /// shuts down. The visitor is lost then.
    pub async fn visit<V>(&self, command: ReadCommand, mut visitor: V) -> Result<V, StorageError>
    where
        V: FragmentVisitor + Send + 'static,
    {
        let store = self.store();
        let shards = match &command.target {
            ReadTarget::Partition(key) => {
                let shard = store.routing.shard_of(&command.table, key);
                shard..shard + 1
            }
            ReadTarget::Range(range) => store.routing.shards_of_range(&command.table, range),
        };
        for shard in shards {
            let wanted;
            if shard == store.shard().index {
                wanted = store.visit(&command, &mut visitor).await?;
            } else {
                let command = command.clone();
                let visiting = self.on_shard(shard, move |node| async move {
                    let wanted = node.store().visit(&command, &mut visitor).await?;
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
}
