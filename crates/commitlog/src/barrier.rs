//! A barrier resolves when all records that were appended before it are acknowledged.
//!
//! A statement that reads rows and writes nothing waits for a barrier before it answers: the rows
//! may come from writes of other clients that are not durable yet. Without the barrier, a crash
//! could undo writes whose rows a client has already seen.

use std::rc::Rc;

use super::{CommitLog, CommitLogError, CommitTicket, sync_batch::SyncBatch};

impl CommitLog {
    /// Returns a ticket that resolves when the records appended so far are acknowledged under
    /// `commitlog_sync`: at once under `periodic`, and if no record waits. Under `group` and
    /// `batch`, the ticket fails as long as only memtables hold the writes of a segment that could
    /// not be written or synced.
    pub fn barrier(&self) -> CommitTicket {
        if self.shared.configuration.sync.period().is_some() {
            return CommitTicket::acknowledged();
        }
        if let Some(failure) = self.failure_in_memory() {
            let failed = Rc::<SyncBatch>::default();
            failed.resolve(Err(failure));
            return CommitTicket::of(&failed);
        }
        let state = self.shared.state.borrow();
        // Batches resolve in the order of their records, so the last one covers all.
        let gathering = (!state.buffers.is_empty()).then_some(&state.sync_batch);
        match gathering.or(state.sync_batch_being_written.as_ref()) {
            Some(sync_batch) => CommitTicket::of(&Rc::clone(sync_batch)),
            None => CommitTicket::acknowledged(),
        }
    }

    /// Returns the error of the last failed write or sync as long as only memtables hold records of
    /// a damaged segment. Readers see these records, and a write that follows from them must not be
    /// durable before them. Under `periodic` sync there is no such error, because clients accept
    /// the loss.
    #[inline]
    pub fn failure_in_memory(&self) -> Option<CommitLogError> {
        let state = self.shared.state.borrow();
        let failure = state.write_failure.as_ref()?;
        let is_periodic = self.shared.configuration.sync.period().is_some();
        let is_damaged = state.segments.live.iter().any(|segment| segment.is_damaged.get());
        (is_damaged && !is_periodic).then(|| failure.clone())
    }
}
