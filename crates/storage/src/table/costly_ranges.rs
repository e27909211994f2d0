//! The searches for ranges of indexed values that cost more than a scan of the table.

use std::{cell::RefCell, collections::VecDeque};

use crate::IndexTerm;

/// Maximum number of ranges that a view remembers.
const MAX_COSTLY_RANGES: usize = 64;

/// The searches for ranges that cost more than a scan. A table remembers them until its memtable is
/// switched or its SSTables change.
#[derive(Default)]
pub(crate) struct CostlyRanges(RefCell<VecDeque<(IndexTerm, u64)>>);

impl CostlyRanges {
    /// Returns whether a search is known to cost more than a scan of `rows` rows. The knowledge
    /// expires when the table has doubled.
    pub(crate) fn have(&self, term: &IndexTerm, rows: u64) -> bool {
        self.0.borrow().iter().any(|(costly, then)| costly == term && rows / 2 <= *then)
    }

    /// Records a search that costs more than a scan of `rows` rows.
    pub(crate) fn record(&self, term: &IndexTerm, rows: u64) {
        let mut ranges = self.0.borrow_mut();
        ranges.retain(|(costly, _)| costly != term);
        ranges.truncate(MAX_COSTLY_RANGES - 1);
        ranges.push_front((term.clone(), rows));
    }
}
