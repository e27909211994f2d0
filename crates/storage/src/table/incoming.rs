//! What an import has opened on this shard, until all shards have theirs. In no view before that: the first compaction of the
//! files removes them, and a shard that had not opened them yet would never have them.

use std::rc::Rc;

use super::{SSTable, Table};
use crate::{StorageError, compaction::CompactionPause};

#[derive(Default)]
pub(super) struct Incoming {
    /// Keeps compactions away.
    _pause: Option<CompactionPause>,
    sstables: Vec<Rc<SSTable>>,
}

impl Table {
    /// Keeps files for [`Table::add_incoming`], and compactions away until [`Table::end_incoming`].
    pub(crate) fn hold_incoming(&self, sstables: Vec<Rc<SSTable>>, pause: CompactionPause) {
        *self.incoming.borrow_mut() = Incoming { _pause: Some(pause), sstables };
    }

    /// Puts them, which hold data that the table did not have, into the view.
    pub(crate) fn add_incoming(&self) -> Result<(), StorageError> {
        let sstables = std::mem::take(&mut self.incoming.borrow_mut().sstables);
        self.adopt(&sstables)?;
        self.change_view(|view| view.with_sstables(sstables));
        self.forget_read();
        Ok(())
    }

    /// Lets compactions begin, and forgets files that were not put into the view.
    pub(crate) fn end_incoming(&self) {
        drop(self.incoming.take());
    }
}
