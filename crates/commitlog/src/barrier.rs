//! A barrier resolves when all records that were appended before it are acknowledged.
//!
//! A statement that reads rows and writes nothing waits for a barrier before it answers: the rows
//! may come from writes of other clients that are not durable yet. Without the barrier, a crash
//! could undo writes whose rows a client has already seen.
//!
//! A flush waits until the records of its memtable are durable, because a record may hold writes to
//! other tables, too. The writer never waits for a flush, so neither can block the other.

use std::rc::Rc;

use espalier_mutation::LogPosition;

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

    /// Waits until all records before `position` survive a crash, also under `periodic` sync. Does
    /// not wait, and causes no sync, if they do so already. If their segment gets damaged, returns
    /// then, because only a flush can make its writes durable.
    pub async fn wait_until_durable(&self, position: LogPosition) {
        if let Some(ticket) = self.sync_of(position) {
            // After a failure the segment is damaged.
            let _ = ticket.await;
        }
    }

    /// Returns a ticket that resolves when the records before `position` are durable, or their
    /// segment is damaged; `None` if that is so already.
    fn sync_of(&self, position: LogPosition) -> Option<CommitTicket> {
        let is_periodic = self.shared.configuration.sync.period().is_some();
        let mut state = self.shared.state.borrow_mut();
        // The replay has synced the segments of earlier runs, which have no open file.
        let is_undamaged = state.segments.live.iter().any(|segment| {
            segment.id == position.segment && segment.file.is_some() && !segment.is_damaged.get()
        });
        if state.durable >= position || !is_undamaged {
            return None;
        }
        state.sync_wanted = state.sync_wanted.max(position);
        let ticket = match (state.buffers.is_empty(), &state.sync_batch_being_written) {
            // The record is written or being written. The writer looks at `sync_wanted` after the
            // write, and a sync that has begun already covers the record.
            (true, Some(sync_batch)) => CommitTicket::of(sync_batch),
            // Only under periodic sync do written records wait for a sync.
            (true, None) if !is_periodic => return None,
            _ => CommitTicket::of(&state.sync_batch),
        };
        drop(state);
        self.shared.work.notify_one();
        Some(ticket)
    }
}
