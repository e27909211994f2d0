//! This module holds the data that a truncation in progress has taken out of a table, to be
//! discarded or restored.

use std::rc::Rc;

use espalier_compaction::CompactionPause;
use espalier_memtable::Memtable;
use espalier_runtime::sync::Permit;
use espalier_sstable::{Descriptor, SSTable};

use super::Table;

#[derive(Default)]
pub(super) struct TruncationState {
    /// Blocks flushes.
    flush_permit: Option<Permit>,
    /// Blocks compactions.
    pause: Option<CompactionPause>,
    memtables: Vec<Rc<Memtable>>,
    sstables: Vec<Rc<SSTable>>,
}

impl Table {
    /// Blocks flushes and compactions until [`Table::end_truncation`].
    pub(crate) fn hold(&self, flush_permit: Permit, pause: CompactionPause) {
        let mut truncation_state = self.truncation_state.borrow_mut();
        truncation_state.flush_permit = Some(flush_permit);
        truncation_state.pause = Some(pause);
    }

    /// Takes all data out of the view. Later writes go to a new memtable.
    pub(crate) fn begin_truncation(&self) {
        self.switch_memtable();
        let view = self.view();
        let mut truncation_state = self.truncation_state.borrow_mut();
        truncation_state.memtables = view.flushing.to_vec();
        truncation_state.sstables = view.sstables.to_vec();
        self.change_view(|view| {
            view.without(&truncation_state.sstables, &truncation_state.memtables)
        });
        self.cache.begin_epoch();
        self.cache.forget();
    }

    /// If `is_done`, discards the data that was set aside and returns the SSTables to remove.
    /// Otherwise restores the data and returns nothing.
    pub(crate) fn end_truncation(&self, is_done: bool) -> Vec<Descriptor> {
        let TruncationState { flush_permit, pause, memtables, sstables } =
            std::mem::take(&mut *self.truncation_state.borrow_mut());
        let files = if is_done {
            sstables.iter().map(|sstable| sstable.descriptor().clone()).collect()
        } else {
            self.change_view(|view| view.with_memtables_back(&memtables).with_sstables(sstables));
            self.cache.begin_epoch();
            self.cache.forget();
            self.empty_ranges.forget();
            Vec::new()
        };
        drop((flush_permit, pause));
        files
    }

    /// Returns the memtables that were set aside. They still need the commit log.
    pub(super) fn truncated_memtables(&self) -> Vec<Rc<Memtable>> {
        self.truncation_state.borrow().memtables.clone()
    }

    /// Returns the SSTables that were set aside and may be restored.
    pub(super) fn truncated_sstables(&self) -> Vec<Rc<SSTable>> {
        self.truncation_state.borrow().sstables.clone()
    }

    /// Drops all data of a table that is dropped.
    pub(crate) fn clear(&self) {
        self.switch_memtable();
        let view = self.view();
        self.change_view(|now| now.without(&view.sstables, &view.flushing));
        self.cache.forget();
    }
}
