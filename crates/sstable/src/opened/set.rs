//! A set of SSTables, compared by identity.

use std::{collections::HashSet, rc::Rc};

use super::SSTable;

/// A set of SSTables, by their addresses. It does not own them, and is valid only while another
/// owner keeps them alive.
pub struct SSTableSet(HashSet<*const SSTable>);

impl SSTableSet {
    /// Makes a set.
    pub fn of<'a>(sstables: impl IntoIterator<Item = &'a Rc<SSTable>>) -> Self {
        Self(sstables.into_iter().map(Rc::as_ptr).collect())
    }

    /// Returns whether the set has the SSTable.
    pub fn has(&self, sstable: &Rc<SSTable>) -> bool {
        self.0.contains(&Rc::as_ptr(sstable))
    }
}
