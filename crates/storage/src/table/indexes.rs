//! The secondary indexes of a table on one shard.

use std::cell::RefCell;

use super::index_failures::IndexFailures;

/// The state of the builds of a table's secondary indexes.
#[derive(Default)]
pub(crate) struct TableIndexes {
    /// The built indexes. On shard 0, those that it has put into `system."IndexInfo"`; on another
    /// shard, those that it has reported to shard 0.
    recorded: RefCell<Vec<String>>,
    /// The SSTables whose index entries could not be built.
    pub(crate) failures: IndexFailures,
}

impl TableIndexes {
    /// Returns whether a secondary index is recorded as built.
    pub(crate) fn is_recorded(&self, name: &str) -> bool {
        self.recorded.borrow().iter().any(|recorded| recorded == name)
    }

    /// Remembers the secondary indexes that are recorded as built.
    pub(crate) fn record(&self, names: Vec<String>) {
        self.recorded.borrow_mut().extend(names);
    }

    pub(super) fn forget_recorded(&self) {
        self.recorded.borrow_mut().clear();
    }
}
