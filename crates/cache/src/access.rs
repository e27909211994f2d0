//! A read's access to the cache: its ticket, and its right to add data.

use std::{borrow::Cow, cell::Cell, rc::Rc};

use espalier_mutation::DecoratedKey;
use espalier_runtime::maybe_yield;

use crate::{TableCache, Ticket, partitions::Continuity};

/// The row cache of a table, with the ticket under which a read may add to the cache.
#[derive(Clone)]
pub struct CacheAccess {
    /// The cache of the table.
    pub cache: Rc<TableCache>,
    /// The ticket of the read.
    pub ticket: Ticket,
    /// Set if the read is part of a scan.
    pub scan: Option<ScanAccess>,
}

/// The use of the cache by a scan of partitions. Entries that a scan finds do not count as used.
#[derive(Clone)]
pub struct ScanAccess {
    /// True if the scan may add the partitions that it reads.
    pub adds: bool,
    /// True if a partition had to be read from the files.
    pub has_missed: Rc<Cell<bool>>,
}

impl CacheAccess {
    /// Returns the access of a scan. `adds` says that the scan may add the partitions that it
    /// reads.
    pub fn of_scan(&self, adds: bool) -> Self {
        let scan = Some(ScanAccess { adds, has_missed: Rc::default() });
        Self { scan, ..self.clone() }
    }

    /// Returns whether a partition has an entry, or would be added.
    pub fn knows_or_adds(&self, key: &DecoratedKey) -> bool {
        self.may_add()
            || (self.cache.is_valid(self.ticket)
                && matches!(self.cache.continuity(key), Ok(Continuity::Known)))
    }

    /// Returns whether the entries that the read finds count as used.
    pub(crate) fn is_use(&self) -> bool {
        self.scan.is_none()
    }

    /// Returns whether the read may add data to the cache.
    pub fn may_add(&self) -> bool {
        self.cache.is_valid(self.ticket) && self.scan.as_ref().is_none_or(|scan| scan.adds)
    }

    /// Records, as long as the access is valid, that each partition of the files between two
    /// entries has an entry. See `learn_some_partitions`.
    pub(crate) async fn learn_partitions(&self, low: &[u8], high: &[u8]) {
        let number = self.ticket.number;
        let mut low = Cow::Borrowed(low);
        while self.may_add() {
            let cache = &self.cache.cache;
            let reached = cache.0.borrow_mut().learn_some_partitions(number, &low, high);
            match reached {
                Some(reached) => low = Cow::Owned(reached),
                None => return,
            }
            maybe_yield().await;
        }
    }
}
