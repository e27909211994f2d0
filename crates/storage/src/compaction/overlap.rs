//! This module finds the data outside of a compaction. A deletion stays as long as that data may
//! hold something that the deletion covers.

use std::rc::{Rc, Weak};

use espalier_mutation::DecoratedKey;
use espalier_sstable::{SSTable, SSTableSet};

use crate::table::{Table, TableView};

/// The memtables and SSTables of a table that are not compacted, at each moment.
pub(crate) struct Outside {
    table: Rc<Table>,
    inputs: Vec<Rc<SSTable>>,
    /// The view that `sstables` belongs to. The reference is weak, because a compaction outlasts
    /// memtables and must not retain them.
    view: Weak<TableView>,
    sstables: Vec<Rc<SSTable>>,
    is_counter: bool,
    path: Vec<u8>,
}

impl Outside {
    pub(crate) fn new(table: &Rc<Table>, inputs: &[Rc<SSTable>]) -> Self {
        let mut outside = Self {
            table: table.clone(),
            inputs: inputs.to_vec(),
            sstables: Vec::new(),
            view: Weak::new(),
            is_counter: table.metadata().is_counter(),
            path: Vec::new(),
        };
        outside.refresh();
        outside
    }

    fn other_sstables(&self, view: &TableView) -> Vec<Rc<SSTable>> {
        let inputs = SSTableSet::of(&self.inputs);
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        for input in &self.inputs {
            let (from, to) = input.tokens();
            (first, last) = (first.min(from), last.max(to));
        }
        let sstables = view.sstables.iter();
        sstables
            .filter(|other| !inputs.has(other) && other.overlaps(first, last))
            .cloned()
            .collect()
    }

    /// Updates the SSTables after flushes and other compactions, and releases SSTables that left
    /// the view.
    pub(crate) fn refresh(&mut self) {
        // While the weak reference exists, no other view can have its address.
        let is_same = std::ptr::eq(self.view.as_ptr(), Rc::as_ptr(&self.table.borrow_view()));
        if !is_same {
            let view = self.table.view();
            self.sstables = self.other_sstables(&view);
            self.view = Rc::downgrade(&view);
        }
    }

    /// Returns the timestamp in µs below which deletions of a partition cover nothing outside.
    ///
    /// In a counter table, even a deletion older than all data outside may cover it, because a
    /// deleted counter stays dead whatever is written later.
    pub(crate) fn uncovered_below(&mut self, key: &DecoratedKey) -> i64 {
        self.refresh();
        let sstables = self.sstables.iter().filter(|sstable| sstable.may_contain(key.borrowed()));
        let oldest = sstables.map(|sstable| sstable.minimum_timestamp()).min();
        let in_memory = self.table.borrow_view().oldest_in_memory(key, &mut self.path);
        match oldest.into_iter().chain(in_memory).min() {
            Some(_) if self.is_counter => i64::MIN,
            Some(oldest) => oldest,
            None => i64::MAX,
        }
    }

    /// Returns the inputs that hold only expired, purgeable data and cover no other data. They may
    /// cover data of other expired files, removed or not, because that data is expired as well.
    pub(crate) fn expired_inputs(&mut self, gc_before_s: u32) -> Vec<Rc<SSTable>> {
        self.refresh();
        if self.is_counter {
            return Vec::new();
        }
        let is_dead = |sstable: &Rc<SSTable>| sstable.maximum_local_deletion_time() < gc_before_s;
        let (mut candidates, alive): (Vec<Rc<SSTable>>, Vec<_>) =
            self.inputs.iter().cloned().partition(is_dead);
        let view = self.table.borrow_view();
        let memtables = view.memtables().filter(|memtable| !memtable.is_empty());
        let in_memory = memtables.map(|memtable| memtable.minimum_timestamp()).min();
        let outside = self.sstables.iter().filter(|sstable| !is_dead(sstable));
        let mut others: Vec<&Rc<SSTable>> = alive.iter().chain(outside).collect();
        // Expired files are old: few others, if any, have timestamps as early.
        others.sort_by_key(|other| other.minimum_timestamp());
        candidates.retain(|candidate| {
            let newest = candidate.maximum_timestamp();
            let (first, last) = candidate.tokens();
            let mut older = others.iter().take_while(|other| other.minimum_timestamp() <= newest);
            in_memory.is_none_or(|oldest| newest < oldest)
                && !older.any(|other| other.overlaps(first, last))
        });
        candidates
    }
}
