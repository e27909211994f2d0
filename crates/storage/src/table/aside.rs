//! What a truncation in progress has taken out of a table, to be thrown away or brought back.

use std::rc::Rc;

use espalier_runtime::sync::Permit;
use espalier_sstable::Descriptor;

use super::{SSTable, Table};
use crate::{compaction::CompactionPause, memtable::Memtable};

#[derive(Default)]
pub(super) struct Aside {
    /// Keeps flushes away.
    turn: Option<Permit>,
    /// Keeps compactions away.
    pause: Option<CompactionPause>,
    memtables: Vec<Rc<Memtable>>,
    sstables: Vec<Rc<SSTable>>,
}

impl Table {
    /// Keeps flushes and compactions away until [`Table::end_truncation`].
    pub(crate) fn hold(&self, turn: Permit, pause: CompactionPause) {
        let mut aside = self.aside.borrow_mut();
        aside.turn = Some(turn);
        aside.pause = Some(pause);
    }

    /// Takes all content out of the view. Later writes go to a new memtable.
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

    /// Throws away what was set aside (returning the SSTables to remove), or brings it back.
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

    /// Whether a memtable that was set aside still needs the commit log.
    pub(super) fn aside_memtables(&self) -> Vec<Rc<Memtable>> {
        self.aside.borrow().memtables.clone()
    }

    /// What may come back.
    pub(super) fn aside_sstables(&self) -> Vec<Rc<SSTable>> {
        self.aside.borrow().sstables.clone()
    }

    /// Forgets all content: the table is dropped.
    pub(crate) fn clear(&self) {
        self.switch_memtable();
        let view = self.view();
        self.change_view(|now| now.without(&view.sstables, &view.flushing));
        self.cache.forget();
    }
}
