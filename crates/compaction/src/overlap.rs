//! Finds the data outside of a compaction. A deletion stays as long as that data may contain
//! something that the deletion covers.

use std::rc::{Rc, Weak};

use espalier_mutation::DecoratedKey;
use espalier_sstable::{SSTable, SSTableSet};

use crate::TableData;

/// The data of a table outside of a compaction, kept up to date: the memtables, and the SSTables
/// that overlap the inputs without being inputs.
pub struct Outside {
    table: Rc<dyn TableData>,
    inputs: Vec<Rc<SSTable>>,
    /// All SSTables of the table when `sstables` was determined. The reference is weak, because a
    /// compaction outlasts SSTables and must not retain them.
    all: Option<Weak<[Rc<SSTable>]>>,
    sstables: Vec<Rc<SSTable>>,
    is_counter: bool,
    path: Vec<u8>,
}

impl Outside {
    /// Finds the data of `table` that is not in `inputs`.
    pub fn new(table: Rc<dyn TableData>, inputs: &[Rc<SSTable>], is_counter: bool) -> Self {
        let mut outside = Self {
            table,
            inputs: inputs.to_vec(),
            sstables: Vec::new(),
            all: None,
            is_counter,
            path: Vec::new(),
        };
        outside.refresh();
        outside
    }

    fn other_sstables(&self, all: &[Rc<SSTable>]) -> Vec<Rc<SSTable>> {
        let inputs = SSTableSet::of(&self.inputs);
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        for input in &self.inputs {
            let (from, to) = input.tokens();
            (first, last) = (first.min(from), last.max(to));
        }
        let is_outside = |other: &&Rc<SSTable>| !inputs.has(other) && other.overlaps(first, last);
        all.iter().filter(is_outside).cloned().collect()
    }

    /// Updates the SSTables after flushes and other compactions, and releases SSTables that left
    /// the table.
    pub(crate) fn refresh(&mut self) {
        let all = self.table.sstables();
        // While the weak reference exists, no other list can have its address.
        let is_same = self
            .all
            .as_ref()
            .is_some_and(|known| std::ptr::addr_eq(known.as_ptr(), Rc::as_ptr(&all)));
        if !is_same {
            self.sstables = self.other_sstables(&all);
            self.all = Some(Rc::downgrade(&all));
        }
    }

    /// Returns the timestamp in µs below which deletions of a partition cover nothing outside.
    ///
    /// In a counter table, even a deletion older than all data outside may cover that data, because
    /// a deleted counter stays dead whatever is written later.
    pub(crate) fn uncovered_below(&mut self, key: &DecoratedKey) -> i64 {
        self.refresh();
        let sstables = self.sstables.iter().filter(|sstable| sstable.may_contain(key.borrowed()));
        let oldest = sstables.map(|sstable| sstable.minimum_timestamp()).min();
        let in_memory = self.table.oldest_in_memory(key, &mut self.path);
        match oldest.into_iter().chain(in_memory).min() {
            Some(_) if self.is_counter => i64::MIN,
            Some(oldest) => oldest,
            None => i64::MAX,
        }
    }

    /// Returns the inputs that hold only expired, purgeable data and cover no data that is not
    /// expired. They may cover data of other expired files, even of those that stay. Returns no
    /// input of a counter table.
    pub fn expired_inputs(&mut self, gc_before_s: u32) -> Vec<Rc<SSTable>> {
        self.refresh();
        if self.is_counter {
            return Vec::new();
        }
        let is_dead = |sstable: &Rc<SSTable>| sstable.maximum_local_deletion_time() < gc_before_s;
        let (mut candidates, alive): (Vec<Rc<SSTable>>, Vec<_>) =
            self.inputs.iter().cloned().partition(is_dead);
        let in_memory = self.table.minimum_timestamp_in_memory();
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
