//! Remembers the SSTables of a table whose entries the build task failed to write.
//!
//! The task tries each again after a pause, which doubles with every failure. So one bad file
//! neither delays the others nor keeps the disk busy.

use std::{
    cell::RefCell,
    rc::{Rc, Weak},
    time::Duration,
};

use espalier_runtime::time::Instant;
use espalier_sstable::SSTable;
use uuid::Uuid;

/// The pause after the first failure. Arbitrary.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause. Arbitrary.
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// The failed builds of a table on a shard.
#[derive(Default)]
pub(crate) struct IndexFailures(RefCell<Vec<Failure>>);

struct Failure {
    id: Uuid,
    sstable: Weak<SSTable>,
    pause: Duration,
    retry_at: Instant,
}

impl Failure {
    fn is_of(&self, sstable: &Rc<SSTable>) -> bool {
        std::ptr::eq(self.sstable.as_ptr(), Rc::as_ptr(sstable))
    }
}

impl IndexFailures {
    /// Returns the number of SSTables whose last build failed.
    pub(crate) fn len(&self) -> usize {
        let failures = self.0.borrow();
        failures.iter().filter(|failure| failure.sstable.strong_count() > 0).count()
    }

    /// Returns the SSTables whose last build failed, each with an id of its failures.
    pub(crate) fn all(&self) -> Vec<(Uuid, Rc<SSTable>)> {
        let failures = self.0.borrow();
        let alive = |failure: &Failure| Some((failure.id, failure.sstable.upgrade()?));
        failures.iter().filter_map(alive).collect()
    }

    /// Records a failure. Returns the pause before the next attempt.
    pub(crate) fn record(&self, sstable: &Rc<SSTable>, now: Instant) -> Duration {
        let mut failures = self.0.borrow_mut();
        if let Some(failure) = failures.iter_mut().find(|failure| failure.is_of(sstable)) {
            failure.pause = (failure.pause * 2).min(MAX_PAUSE);
            failure.retry_at = now + failure.pause;
            return failure.pause;
        }
        failures.push(Failure {
            id: espalier_compaction::compaction_id(),
            sstable: Rc::downgrade(sstable),
            pause: FIRST_PAUSE,
            retry_at: now + FIRST_PAUSE,
        });
        FIRST_PAUSE
    }

    /// Forgets all SSTables except the `missing` ones, which still lack entries.
    pub(crate) fn retain(&self, missing: &[Rc<SSTable>]) {
        let is_missing = |failure: &Failure| missing.iter().any(|sstable| failure.is_of(sstable));
        self.0.borrow_mut().retain(is_missing);
    }

    /// Returns whether the task may try an SSTable now.
    pub(crate) fn may_try(&self, sstable: &Rc<SSTable>, now: Instant) -> bool {
        let failures = self.0.borrow();
        let failure = failures.iter().find(|failure| failure.is_of(sstable));
        failure.is_none_or(|failure| failure.retry_at <= now)
    }

    /// Returns the time until the next attempt; `None` if no SSTable has failed.
    pub(crate) fn until_retry(&self, now: Instant) -> Option<Duration> {
        let failures = self.0.borrow();
        failures.iter().map(|failure| failure.retry_at.since(now)).min()
    }
}
