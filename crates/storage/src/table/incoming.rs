//! A pending import holds the files that an import has opened on this shard, until all shards have
//! opened theirs.
//!
//! The files are in no view before that. Otherwise the first compaction could remove them before
//! another shard has opened them.

use std::rc::Rc;

use super::{SSTable, Table};
use crate::{StorageError, compaction::CompactionPause};

#[derive(Default)]
pub(super) struct Incoming {
    /// Holds compactions of the table off.
    _pause: Option<CompactionPause>,
    sstables: Vec<Rc<SSTable>>,
}

impl Table {
    /// Keeps SSTables for [`Table::add_incoming`], and holds compactions off until
    /// [`Table::end_incoming`].
    pub(crate) fn hold_incoming(&self, sstables: Vec<Rc<SSTable>>, pause: CompactionPause) {
        *self.incoming.borrow_mut() = Incoming { _pause: Some(pause), sstables };
    }

    /// Adds the SSTables to the view. Their data is new to the table.
    pub(crate) fn add_incoming(&self) -> Result<(), StorageError> {
        let sstables = std::mem::take(&mut self.incoming.borrow_mut().sstables);
        self.adopt(&sstables)?;
        self.change_view(|view| view.with_sstables(sstables));
        self.forget_read();
        Ok(())
    }

    /// Lets compactions begin, and drops SSTables that were not added to the view.
    pub(crate) fn end_incoming(&self) {
        drop(self.incoming.take());
    }
}
