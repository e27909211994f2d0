//! This module holds the data that a truncation in progress has taken out of a table, to be
//! discarded or restored.

use std::rc::Rc;

use espalier_runtime::sync::Permit;
use espalier_sstable::Descriptor;

use super::{SSTable, Table};
use crate::{compaction::CompactionPause, memtable::Memtable};

#[derive(Default)]
pub(super) struct Aside {
    /// Holds flushes off.
    turn: Option<Permit>,
    /// Holds compactions off.
    pause: Option<CompactionPause>,
    memtables: Vec<Rc<Memtable>>,
    sstables: Vec<Rc<SSTable>>,
}

impl Table {
    /// Holds flushes and compactions off until [`Table::end_truncation`].
    pub(crate) fn hold(&self, turn: Permit, pause: CompactionPause) {
        let mut aside = self.aside.borrow_mut();
        aside.turn = Some(turn);
        aside.pause = Some(pause);
    }

    /// Takes all data out of the view. Later writes go to a new memtable.
    pub(crate) fn set_aside(&self) {
        self.switch_memtable();
        let view = self.view();
        let mut aside = self.aside.borrow_mut();
        aside.memtables = view.flushing.to_vec();
        aside.sstables = view.sstables.to_vec();
        self.change_view(|view| view.without(&aside.sstables, &aside.memtables));
        self.cache.begin_phase();
        self.cache.forget();
    }

    /// Discards the data that was set aside (`is_done`) and returns the SSTables to remove; or
    /// restores the data.
    pub(crate) fn end_truncation(&self, is_done: bool) -> Vec<Descriptor> {
        let Aside { turn, pause, memtables, sstables } =
            std::mem::take(&mut *self.aside.borrow_mut());
        let files = match is_done {
            true => sstables.iter().map(|sstable| sstable.descriptor().clone()).collect(),
            false => {
                self.change_view(|view| {
                    view.with_memtables_back(&memtables).with_sstables(sstables)
                });
                self.cache.begin_phase();
                self.cache.forget();
                self.dead_ranges.forget();
                Vec::new()
            }
        };
        drop((turn, pause));
        files
    }

    /// Returns the memtables that were set aside. They still need the commit log.
    pub(super) fn aside_memtables(&self) -> Vec<Rc<Memtable>> {
        self.aside.borrow().memtables.clone()
    }

    /// Returns the SSTables that were set aside and may be restored.
    pub(super) fn aside_sstables(&self) -> Vec<Rc<SSTable>> {
        self.aside.borrow().sstables.clone()
    }

    /// Drops all data of a table that is dropped.
    pub(crate) fn clear(&self) {
        self.switch_memtable();
        let view = self.view();
        self.change_view(|now| now.without(&view.sstables, &view.flushing));
        self.cache.forget();
    }
}
