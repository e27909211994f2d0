//! A pending import holds the files that an import has opened on this shard, until all shards have
//! opened theirs.
//!
//! The files are in no view before that. Otherwise the first compaction could remove the files
//! before another shard has opened them.

use std::rc::Rc;

use espalier_compaction::CompactionPause;
use espalier_sstable::SSTable;

use super::Table;
use crate::StorageError;

#[derive(Default)]
pub(super) struct PendingImport {
    /// Blocks compactions of the table.
    _pause: Option<CompactionPause>,
    sstables: Vec<Rc<SSTable>>,
}

impl Table {
    /// Keeps SSTables for [`Table::add_pending_import`], and blocks compactions until
    /// [`Table::end_pending_import`].
    pub(crate) fn hold_pending_import(&self, sstables: Vec<Rc<SSTable>>, pause: CompactionPause) {
        *self.pending_import.borrow_mut() = PendingImport { _pause: Some(pause), sstables };
    }

    /// Adds the SSTables to the view. Their data is new to the table.
    pub(crate) fn add_pending_import(&self) -> Result<(), StorageError> {
        let sstables = std::mem::take(&mut self.pending_import.borrow_mut().sstables);
        self.adopt(&sstables)?;
        self.change_view(|view| view.with_sstables(sstables));
        self.forget_read();
        Ok(())
    }

    /// Lets compactions begin, and drops SSTables that were not added to the view.
    pub(crate) fn end_pending_import(&self) {
        drop(self.pending_import.take());
    }
}
