//! Takes one file for exclusive use, for work that reads or rewrites files one after another.

use std::rc::Rc;

use espalier_compaction::{CompactionKind, RunningGuard, compaction_id, strategy::Split};
use espalier_sstable::SSTable;

use super::{Database, compaction::StopRequests};
use crate::{
    StorageError,
    compaction::{rewrite_plan, split_plan},
    table::Table,
};

/// The outcome of [`Database::take_one`].
pub(super) enum Taken {
    /// The file is reserved until the guard is dropped. Comes with the level and the split for its
    /// rewrite; a file that several shards share is split with them.
    All(RunningGuard, (u32, Split)),
    /// Such compactions were asked to stop.
    Stopped,
    /// The file is gone, or another shard leads.
    Nothing,
}

impl Database {
    /// Takes a file, after waiting for the compaction that has it. Ends early if such compactions
    /// were asked to stop since `seen`.
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
            // Another compaction has read and replaced the file meanwhile.
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
                    // Several shards have a part of the file, and another one leads.
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

    /// Returns whether this shard may take a file: the file is its own, or the shard leads those
    /// that share it.
    pub(super) fn may_take(&self, table: &Table, sstable: &SSTable) -> bool {
        rewrite_plan(self, table, sstable).is_some() || split_plan(self, table, sstable).is_some()
    }
}
