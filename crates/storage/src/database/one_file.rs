//! One file for oneself, of those that are to be read or written one after another.

use std::rc::Rc;

use super::{Database, compaction::StopRequests};
use crate::{
    StorageError,
    compaction::{
        CompactionKind, RunningGuard, compaction_id, rewrite_plan, split_plan, strategy::Split,
    },
    table::{SSTable, Table},
};

/// What came of it.
pub(super) enum Taken {
    /// Nobody else has it, until the guard goes. With the level and the split by which it would be written anew: one of which other
    /// shards have a part is split by that.
    All(RunningGuard, (u32, Split)),
    /// Somebody asked for such compactions to end.
    Stopped,
    /// It is not there any more, or another shard leads.
    Nothing,
}

impl Database {
    /// Waits for those who have the file; unless somebody asked for an end of such compactions since `seen`.
    pub(super) async fn take_one(
        &self,
        table: &Rc<Table>,
        sstable: &Rc<SSTable>,
        wanted: CompactionKind,
        seen: &StopRequests,
    ) -> Result<Taken, StorageError> {
        loop {
            if self.is_closing() {
                return Err(StorageError::ShuttingDown);
            }
            if self.is_stopped_since(seen, table, wanted) {
                return Ok(Taken::Stopped);
            }
            // Compacted by others meanwhile, who read all of it.
            let is_same = |other: &Rc<SSTable>| Rc::ptr_eq(other, sstable);
            if !table.view().sstables.iter().any(is_same) {
                return Ok(Taken::Nothing);
            }
            if table.compactions.is_busy(sstable) {
                table.compactions.wait_for_end().await;
                continue;
            }
            let (kind, plan) = match rewrite_plan(self, table, sstable) {
                Some(plan) => (wanted, plan),
                None => match split_plan(self, table, sstable) {
                    Some(plan) => (CompactionKind::Split, plan),
                    // Several shards have a part of it, and another one leads.
                    None => return Ok(Taken::Nothing),
                },
            };
            match table.compactions.begin(compaction_id(), kind, vec![sstable.clone()]) {
                Some(guard) => {
                    guard.running.asked_for.set(Some(wanted));
                    return Ok(Taken::All(guard, plan));
                }
                None if table.compactions.is_undecided() => {
                    return Err(self.stopped(table));
                }
                None => table.compactions.wait_for_end().await,
            }
        }
    }
}
