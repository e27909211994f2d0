//! This module implements the log of one shard: appending records and tracking its segments.
//!
//! An append copies a record into the write buffer that goes to the disk next, and never waits. Two
//! tasks do the rest. The writer (`writer`) writes whole buffers to the disk and resolves tickets.
//! The allocator (`allocator`) keeps one segment ready ahead of time, so that a write seldom waits
//! for the creation of a file.
//!
//! Invariants:
//! - Positions of one log grow with time.
//! - A segment receives bytes only after its predecessor's last record is durable or has failed
//!   (see `layout`).
//! - A ticket resolves with success only if its record is durable. Under periodic sync, it resolves
//!   at once.
//!
//! Memory: the write buffers that gather, at most [`MAX_PENDING_BYTES`] and one record more, and as
//! many bytes that the writer writes.

use std::{
    cell::RefCell,
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use espalier_mutation::LogPosition;
use espalier_runtime::{
    file::{FileError, FileSystem},
    log_limit::LogLimit,
    spawn_local,
    sync::Notify,
};

use super::{
    ColumnMapping, CommitLogConfiguration, CommitTicket, between,
    layout::{self, HEADER_BYTES, MARKER_BYTES, RECORD_OVERHEAD},
    segment::Segment,
    state::{Counters, Shared, State, WriteBuffer},
};
use crate::CommitLogError;

/// Maximum number of lines of one kind that this commit log writes to the log of the node in a
/// minute (arbitrary).
const MAX_LINES: u32 = 10;

/// Bytes of gathering records at which an append finds no room (arbitrary: a few sync batches of a
/// busy shard).
const MAX_PENDING_BYTES: usize = 8 << 20;

/// The commit log of a shard. A clone is another handle of the same log.
#[derive(Clone)]
pub struct CommitLog {
    pub(super) shared: Rc<Shared>,
}

/// Counters and gauges of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CommitLogMetrics {
    pub bytes_appended: u64,
    pub records_appended: u64,
    /// Sync batches that the writer has handled, including failed ones. A sync follows each batch,
    /// unless `commitlog_sync` is periodic and no sync is due.
    pub sync_batches: u64,
    pub failed_sync_batches: u64,
    pub segments_created: u64,
    pub segments_recycled: u64,
    pub segments: u64,
    pub pending_bytes: u64,
}

/// The position and the ticket of an appended record.
pub struct Appended {
    /// Position of the record's first byte.
    pub start: LogPosition,
    /// Position behind the record's last byte.
    pub end: LogPosition,
    /// Resolves when the record is acknowledged under `commitlog_sync`.
    pub ticket: CommitTicket,
}

/// The reason why a record was not appended.
#[derive(Debug)]
pub enum AppendError {
    /// There is no room at the moment; [`CommitLog::wait_for_room`] waits until a retry may
    /// succeed.
    NoRoom,
    /// The append failed, and an immediate retry would fail too.
    Failed(CommitLogError),
}

impl CommitLog {
    /// Opens a log that continues after the `adopted` segments of an earlier run of the node (id,
    /// path, end offset in bytes), oldest first.
    ///
    /// The allocator creates the first segment in the background. `ids` supplies segment ids; it
    /// must be greater than all ids used before.
    pub fn open(
        configuration: CommitLogConfiguration,
        file_system: FileSystem,
        ids: Arc<AtomicU64>,
        adopted: Vec<(u64, PathBuf, u32)>,
    ) -> CommitLog {
        let mut state = State::default();
        for (id, path, end) in adopted {
            // The first marker of this run names the end of the last segment that has records. A
            // segment that was only prepared has no records.
            if end > HEADER_BYTES as u32 {
                state.durable = LogPosition { segment: id, offset: end };
            }
            state.segments.live.push_back(Rc::new(Segment::adopted(id, path, end)));
        }
        let log = CommitLog {
            shared: Rc::new(Shared {
                configuration,
                file_system,
                ids,
                state: RefCell::new(state),
                work: Notify::new(),
                room: Notify::new(),
                allocator_work: Notify::new(),
                pressure: Notify::new(),
                counters: Counters::default(),
                log_limit: LogLimit::at_most(MAX_LINES),
            }),
        };
        let tasks = vec![
            spawn_local(super::writer::run(log.shared.clone())),
            spawn_local(super::allocator::run(log.shared.clone())),
        ];
        log.shared.state.borrow_mut().tasks = tasks;
        log
    }

    /// Returns the settings of the log.
    pub fn configuration(&self) -> &CommitLogConfiguration {
        &self.shared.configuration
    }

    /// Checks that a record with a body of `bytes` bytes fits into an empty segment, preceded by
    /// the records of `mappings`. `mappings` names each mapping once.
    ///
    /// # Errors
    /// [`CommitLogError::MutationTooLarge`] if the record is larger than
    /// [`CommitLogConfiguration::maximum_record_bytes`], or if it does not fit into a segment
    /// together with the mappings.
    pub fn check_size(
        &self,
        bytes: usize,
        mappings: &[&ColumnMapping],
    ) -> Result<(), CommitLogError> {
        let (record, configuration) = (bytes + RECORD_OVERHEAD, &self.shared.configuration);
        let maximum = configuration.maximum_record_bytes();
        let mapping_bytes = mappings.iter().map(|mapping| mapping.body.len() + RECORD_OVERHEAD);
        let bytes = record + mapping_bytes.sum::<usize>();
        let segment_bytes = configuration.segment_bytes as usize;
        if record > maximum || HEADER_BYTES + MARKER_BYTES + bytes > segment_bytes {
            return Err(CommitLogError::MutationTooLarge { bytes, maximum });
        }
        Ok(())
    }

    /// Appends a record, preceded by the column mappings of `mappings` that the segment lacks.
    /// `mappings` names each mapping once. Never waits.
    ///
    /// # Errors
    /// [`AppendError::NoRoom`] if too many bytes wait for the disk or no segment is ready.
    /// [`AppendError::Failed`] if the log is closing, the record is larger than
    /// [`CommitLogConfiguration::maximum_record_bytes`], the record and its mappings do not fit
    /// into a segment, or no segment can be created.
    pub fn append(
        &self,
        body: &[u8],
        mappings: &[&ColumnMapping],
    ) -> Result<Appended, AppendError> {
        let mapping_bytes = |segment: &Segment| {
            let missing = mappings.iter().filter(|mapping| !segment.is_mapped(mapping.number));
            missing.map(|mapping| mapping.body.len() + RECORD_OVERHEAD).sum::<usize>()
        };
        let needed = body.len() + RECORD_OVERHEAD;
        let mut guard = self.shared.state.borrow_mut();
        let state = &mut *guard;
        if state.is_closing {
            return Err(AppendError::Failed(CommitLogError::ShuttingDown));
        }
        self.check_size(body.len(), &[]).map_err(AppendError::Failed)?;
        if state.pending_bytes >= MAX_PENDING_BYTES {
            return Err(AppendError::NoRoom);
        }
        let size = self.shared.configuration.segment_bytes;
        let fits = |segment: &Rc<Segment>| {
            let with_mappings = needed + mapping_bytes(segment) + MARKER_BYTES;
            u64::from(segment.end.get()) + with_mappings as u64 <= u64::from(size)
        };
        let segment = match &state.segments.active {
            Some(active) if fits(active) => active.clone(),
            _ => {
                // A fresh segment is too small only if the mappings take about half a segment.
                self.check_size(body.len(), mappings).map_err(AppendError::Failed)?;
                self.activate(state)?
            }
        };
        let was_idle = state.buffers.is_empty();
        let run = match state.buffers.last_mut() {
            Some(run) if Rc::ptr_eq(&run.segment, &segment) => run,
            _ => {
                let mut bytes = state.free_buffers.pop().unwrap_or_default();
                bytes.clear();
                bytes.resize(MARKER_BYTES, 0);
                let offset = segment.end.get();
                state.buffers.push(WriteBuffer { segment: segment.clone(), offset, bytes });
                match state.buffers.last_mut() {
                    Some(run) => run,
                    None => return Err(AppendError::NoRoom),
                }
            }
        };
        let length_before = run.bytes.len();
        for mapping in mappings {
            if !segment.is_mapped(mapping.number) {
                layout::put_record(segment.seed, &mapping.body, &mut run.bytes);
                segment.set_mapped(mapping.number);
            }
        }
        let start = run.offset + run.bytes.len() as u32;
        layout::put_record(segment.seed, body, &mut run.bytes);
        let end = run.offset + run.bytes.len() as u32;
        segment.end.set(end);
        state.pending_bytes += run.bytes.len() - length_before;
        let counters = &self.shared.counters;
        counters.records_appended.set(counters.records_appended.get() + 1);
        counters.bytes_appended.set(counters.bytes_appended.get() + needed as u64);
        let ticket = match self.shared.configuration.sync.period() {
            Some(_) => CommitTicket::acknowledged(),
            None => CommitTicket::of(&state.sync_batch),
        };
        if was_idle {
            self.shared.work.notify_one();
        }
        let position = |offset| LogPosition { segment: segment.id, offset };
        Ok(Appended { start: position(start), end: position(end), ticket })
    }

    /// Makes the ready segment the active one.
    fn activate(&self, state: &mut State) -> Result<Rc<Segment>, AppendError> {
        let Some(next) = state.segments.ready.take() else {
            self.shared.allocator_work.notify_one();
            return Err(match &state.allocation_failure {
                Some(failure) => AppendError::Failed(CommitLogError::Write(failure.clone())),
                None => AppendError::NoRoom,
            });
        };
        state.segments.active = Some(next.clone());
        state.segments.live.push_back(next.clone());
        self.shared.allocator_work.notify_one();
        let live_bytes =
            state.segments.live.len() as u64 * u64::from(self.shared.configuration.segment_bytes);
        if live_bytes > self.shared.configuration.total_bytes {
            self.shared.pressure.notify_one();
        }
        Ok(next)
    }

    /// Waits until an append that found no room may be retried.
    pub async fn wait_for_room(&self) {
        self.shared.room.notified().await;
    }

    /// Waits until the log may have come [under pressure](CommitLog::is_under_pressure), or closes.
    pub async fn wait_for_pressure(&self) {
        self.shared.pressure.notified().await;
    }

    /// Returns whether tables must be flushed to free segments.
    ///
    /// They must if the segments take more than their share of the disk, or if the disk failed to
    /// write or sync a segment. Readers see the writes of such a segment, and under periodic sync
    /// clients have an acknowledgement of them, but only a flush makes these writes durable.
    pub fn is_under_pressure(&self) -> bool {
        self.segment_to_give_up().is_some()
    }

    /// Returns the segment to free next if the log [is under
    /// pressure](CommitLog::is_under_pressure).
    ///
    /// The scheduler must flush every table with unflushed writes in this segment or before it.
    /// Such a flush may wait for compactions only for a short time. The segment receives no more
    /// records.
    pub fn segment_to_give_up(&self) -> Option<u64> {
        let state = self.shared.state.borrow();
        let configuration = &self.shared.configuration;
        if let Some(failed) = state.segments.live.iter().rfind(|segment| segment.is_damaged.get()) {
            return Some(failed.id);
        }
        let bytes = state.segments.live.len() as u64 * u64::from(configuration.segment_bytes);
        let oldest = state.segments.live.front().filter(|_| bytes > configuration.total_bytes)?;
        let is_active = state.segments.active.as_ref().is_some_and(|active| active.id == oldest.id);
        (!is_active).then_some(oldest.id)
    }

    /// Returns the oldest segment that a restart would read, needed or not, also after a crash that
    /// undoes removals. If there is none, it returns the segment of [`CommitLog::position`], which
    /// is a lower limit.
    pub fn oldest_readable(&self) -> u64 {
        let state = self.shared.state.borrow();
        let live = state.segments.live.front().map(|segment| segment.id);
        let unneeded = state
            .segments
            .recyclable
            .iter()
            .chain(&state.segments.obsolete)
            .chain(&state.segments.unremovable);
        let unneeded = unneeded.map(|(id, _)| *id).chain(state.segments.removed.iter().copied());
        let oldest = unneeded.chain(live).chain(state.segments.being_recycled).min();
        drop(state);
        oldest.unwrap_or_else(|| self.position().segment)
    }

    /// Returns the end of the newest segment in use, or [`LogPosition::NONE`] if there is none. All
    /// later records are at or behind this position.
    pub fn position(&self) -> LogPosition {
        let state = self.shared.state.borrow();
        match state.segments.active.as_ref().or(state.segments.live.back()) {
            Some(segment) => LogPosition { segment: segment.id, offset: segment.end.get() },
            None => LogPosition::NONE,
        }
    }

    /// Returns a position behind all records so far and before all later records, even if no
    /// segment is in use yet.
    pub fn truncation_position(&self) -> LogPosition {
        let state = self.shared.state.borrow();
        if let Some(active) = &state.segments.active {
            return LogPosition { segment: active.id, offset: active.end.get() };
        }
        let next =
            state.segments.ready.as_ref().map(|ready| ready.id).or(state.segments.being_made);
        let segment = next.unwrap_or_else(|| self.shared.ids.load(Ordering::Relaxed));
        LogPosition { segment, offset: 0 }
    }

    /// Returns whether both handles refer to the same log.
    pub fn is_same(&self, other: &CommitLog) -> bool {
        Rc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns whether [`CommitLog::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.shared.state.borrow().is_closing
    }

    /// Returns the intervals of this log between two positions, one for each segment.
    pub fn intervals(&self, from: LogPosition, to: LogPosition) -> Vec<(LogPosition, LogPosition)> {
        let state = self.shared.state.borrow();
        between(state.segments.live.iter().map(|segment| segment.id), from, to)
    }

    /// Frees the segments before the one with id `oldest_needed`, up to the first segment that is
    /// active or that the writer still has to write or sync. The caller guarantees that all writes
    /// before `oldest_needed` are flushed.
    pub fn reclaim(&self, oldest_needed: u64) {
        let configuration = &self.shared.configuration;
        // Free files are kept for reuse as long as the log stays within its share of the disk.
        let kept = configuration.total_bytes / u64::from(configuration.segment_bytes.max(1));
        let kept = usize::try_from(kept).unwrap_or(usize::MAX).max(2);
        let mut state = self.shared.state.borrow_mut();
        let mut freed = false;
        while let Some(segment) = state.segments.live.front().cloned() {
            let is_active =
                state.segments.active.as_ref().is_some_and(|active| active.id == segment.id);
            // The writer still needs a segment with unwritten buffers.
            let is_pending = state.buffers.iter().any(|run| run.segment.id == segment.id)
                || state.being_written.contains(&segment.id);
            if segment.id >= oldest_needed || is_active || is_pending {
                break;
            }
            // The replay has synced the segments of earlier runs, which have no open file.
            let is_synced = segment.file.is_none() || state.durable.segment >= segment.id;
            if !is_synced && !segment.is_damaged.get() {
                break;
            }
            state.segments.live.pop_front();
            freed = true;
            let recycle = segment.file.is_some()
                && !segment.is_damaged.get()
                && state.segments.live.len() + state.segments.recyclable.len() < kept;
            let file = (segment.id, segment.path.clone());
            if recycle {
                state.segments.recyclable.push_back(file)
            } else {
                state.segments.obsolete.push(file)
            }
        }
        drop(state);
        if freed {
            self.shared.allocator_work.notify_one();
        }
    }

    /// Writes and syncs all pending records and stops both tasks. The files stay; see
    /// [`CommitLog::remove_files`].
    pub async fn close(&self) {
        let tasks = {
            let mut state = self.shared.state.borrow_mut();
            state.is_closing = true;
            std::mem::take(&mut state.tasks)
        };
        self.shared.work.notify_all();
        self.shared.work.notify_one();
        self.shared.allocator_work.notify_one();
        self.shared.room.notify_all();
        self.shared.pressure.notify_all();
        for task in tasks {
            task.await;
        }
    }

    /// Removes all files of a closed log. The caller guarantees that all its writes are flushed.
    ///
    /// # Errors
    /// Fails with the first failure if files cannot be removed or the directory cannot be synced.
    /// The files that cannot be removed stay.
    pub async fn remove_files(&self) -> Result<(), FileError> {
        let paths: Vec<PathBuf> = {
            let mut guard = self.shared.state.borrow_mut();
            let state = &mut *guard;
            state.segments.active = None;
            let segments = state.segments.live.drain(..).chain(state.segments.ready.take());
            let paths: Vec<PathBuf> = segments.map(|segment| segment.path.clone()).collect();
            let unneeded =
                state.segments.recyclable.drain(..).chain(state.segments.obsolete.drain(..));
            paths.into_iter().chain(unneeded.map(|(_, path)| path)).collect()
        };
        let mut removed = Ok(());
        for path in paths {
            removed = removed.and(self.shared.file_system.remove_file(&path).await);
        }
        removed.and(self.shared.file_system.sync_dir(&self.shared.configuration.directory).await)
    }

    /// Returns the counters and gauges of the log.
    pub fn metrics(&self) -> CommitLogMetrics {
        let (state, counters) = (self.shared.state.borrow(), &self.shared.counters);
        CommitLogMetrics {
            bytes_appended: counters.bytes_appended.get(),
            records_appended: counters.records_appended.get(),
            sync_batches: counters.sync_batches.get(),
            failed_sync_batches: counters.failed_sync_batches.get(),
            segments_created: counters.segments_created.get(),
            segments_recycled: counters.segments_recycled.get(),
            segments: state.segments.live.len() as u64,
            pending_bytes: state.pending_bytes as u64,
        }
    }
}
