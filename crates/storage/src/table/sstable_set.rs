//! Which SSTables some are.

use std::{collections::HashSet, rc::Rc};

use super::SSTable;

/// SSTables by where they are in memory; holds none of them, and is of use while somebody else does.
pub(crate) struct SSTableSet(HashSet<*const SSTable>);

impl SSTableSet {
    pub(crate) fn of<'a>(sstables: impl IntoIterator<Item = &'a Rc<SSTable>>) -> Self {
        Self(sstables.into_iter().map(Rc::as_ptr).collect())
    }

    pub(crate) fn has(&self, sstable: &Rc<SSTable>) -> bool {
        self.0.contains(&Rc::as_ptr(sstable))
    }
}
