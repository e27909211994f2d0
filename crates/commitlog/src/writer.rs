//! The writer is the task that takes write buffers to the disk.
//!
//! It handles one sync batch at a time. It writes all buffers that have gathered, syncs them and
//! resolves their tickets; meanwhile the next records gather. Under load the batches grow, so that
//! more writes share the cost of one sync and no artificial window is needed. Under periodic sync,
//! a sync is due early when a flush waits for it, and when many bytes are dirty, because reads
//! would wait long for a large sync ([`TrickleSync`](espalier_runtime::file::TrickleSync)).
//!
//! A failed write or sync leaves the tail of its segment in an unknown state (a later sync of the
//! same file may succeed without the data). The writer therefore never writes that segment again.
//! All waiting writes fail. Later writes begin in the next segment, whose first marker is the end
//! of the failed segment. Readers see the writes of the failed segment, and under periodic sync
//! clients have an acknowledgement of them, so the scheduler flushes the tables of these writes.

use std::{rc::Rc, sync::Arc, time::Duration};

use espalier_mutation::LogPosition;
use espalier_runtime::{
    file::{FileError, TRICKLE_SYNC_BYTES},
    time,
};

use super::{
    CommitLogSync,
    layout::{self, MARKER_BYTES},
    segment::Segment,
    state::{Shared, WriteBuffer},
    sync_batch::SyncBatch,
};
use crate::CommitLogError;

/// Limits on the buffers kept for reuse: their number, and the capacity of each in bytes.
const KEPT_BUFFERS: usize = 2;
const KEPT_BUFFER_BYTES: usize = 4 << 20;

/// Idle time after which the writer writes a closing marker (arbitrary: long compared with a sync
/// batch, short compared with the life of a segment).
const IDLE: Duration = Duration::from_millis(20);

/// Minimum duration of a sync that the log reports as slow (arbitrary: half the time after which a
/// write fails by default).
const SLOW_SYNC: Duration = Duration::from_secs(1);

struct Progress {
    /// The segment written last, and the offset where its records end.
    written: Option<(Rc<Segment>, u32)>,
    /// Bytes that are written and not synced, without closing markers.
    dirty_bytes: u64,
    /// True if the last batch needs no closing marker any more.
    is_marked: bool,
    last_sync: time::Instant,
}

impl Progress {
    fn is_dirty(&self) -> bool {
        self.dirty_bytes > 0
    }
}

/// Writes batches until the log closes.
pub(super) async fn run(shared: Rc<Shared>) {
    let mut progress = Progress {
        written: None,
        dirty_bytes: 0,
        is_marked: true,
        last_sync: time::Instant::now(),
    };
    loop {
        match wait_for_runs(&shared, &progress).await {
            Wake::Runs => {}
            Wake::Idle => {
                add_closing_marker(&shared, &mut progress).await;
                continue;
            }
            Wake::Closing => break,
        }
        if let CommitLogSync::Group { window } = shared.configuration.sync
            && !window.is_zero()
            && !shared.state.borrow().is_closing
        {
            time::sleep(window).await;
        }
        let (buffers, sync_batch) = {
            let mut state = shared.state.borrow_mut();
            state.pending_bytes = 0;
            state.being_written = state.buffers.iter().map(|buffer| buffer.segment.id).collect();
            let sync_batch = std::mem::take(&mut state.sync_batch);
            state.sync_batch_being_written = Some(Rc::clone(&sync_batch));
            (std::mem::take(&mut state.buffers), sync_batch)
        };
        write_sync_batch(&shared, &mut progress, buffers, sync_batch).await;
        {
            let mut state = shared.state.borrow_mut();
            state.being_written.clear();
            state.sync_batch_being_written = None;
        }
        shared.room.notify_all();
    }
    if progress.is_dirty()
        && let Err(error) = sync(&shared, &mut progress).await
    {
        tracing::error!(
            %error,
            "commit log: last sync before shutdown failed; writes of the last sync period may be \
            lost if the machine crashes"
        );
    }
    // A flush may have begun to wait during this sync.
    let last = std::mem::take(&mut shared.state.borrow_mut().sync_batch);
    last.resolve(Ok(()));
}

/// The reason why the writer wakes up.
enum Wake {
    /// There are write buffers, or a sync is due.
    Runs,
    /// No record came for [`IDLE`] after the last batch.
    Idle,
    Closing,
}

async fn wait_for_runs(shared: &Shared, progress: &Progress) -> Wake {
    loop {
        {
            let state = shared.state.borrow();
            if !state.buffers.is_empty() || is_sync_due(shared, progress) {
                return Wake::Runs;
            }
            if state.is_closing {
                return Wake::Closing;
            }
        }
        let work = shared.work.notified();
        let idle = (!progress.is_marked).then(|| time::Instant::now() + IDLE);
        let due = sync_due(shared, progress);
        match idle.into_iter().chain(due).min() {
            None => work.await,
            Some(until) => {
                let has_ended = time::timeout_at(until, work).await.is_err();
                if has_ended && idle == Some(until) {
                    return Wake::Idle;
                }
            }
        }
    }
}

/// Returns the time at which the next periodic sync is due, or `None` if no byte is dirty or the
/// sync is not periodic.
///
/// The time is one period after the last sync began, so that no written byte stays unsynced for
/// longer than a period.
fn sync_due(shared: &Shared, progress: &Progress) -> Option<time::Instant> {
    let period = shared.configuration.sync.period()?;
    progress.is_dirty().then(|| progress.last_sync + period)
}

/// Writes a marker behind the last batch, without a sync. The marker only lets the replay
/// distinguish damage of that batch from a torn tail.
async fn add_closing_marker(shared: &Shared, progress: &mut Progress) {
    progress.is_marked = true;
    let buffer = {
        let state = shared.state.borrow();
        let Some(active) = &state.segments.active else { return };
        let offset = active.end.get();
        let end = offset + MARKER_BYTES as u32;
        let is_current = progress.written.as_ref().is_some_and(|(last, _)| last.id == active.id);
        if !is_current || end > shared.configuration.segment_bytes || !state.buffers.is_empty() {
            return;
        }
        active.end.set(end);
        WriteBuffer { segment: active.clone(), offset, bytes: vec![0; MARKER_BYTES] }
    };
    let (segment, offset) = (buffer.segment.clone(), buffer.offset);
    let dirty_bytes = progress.dirty_bytes;
    match write_run(shared, progress, buffer).await {
        Ok(()) => progress.dirty_bytes = dirty_bytes,
        Err(error) => {
            abandon(shared, &segment, offset);
            fail(shared, progress, error, Rc::default());
        }
    }
}

fn is_sync_due(shared: &Shared, progress: &Progress) -> bool {
    match sync_due(shared, progress) {
        Some(due) => {
            progress.dirty_bytes >= TRICKLE_SYNC_BYTES
                || due <= time::Instant::now()
                || is_sync_wanted(shared)
        }
        None => progress.is_dirty() && shared.configuration.sync.period().is_none(),
    }
}

/// Returns whether a flush waits for records that are not durable.
fn is_sync_wanted(shared: &Shared) -> bool {
    let state = shared.state.borrow();
    state.durable < state.sync_wanted
}

async fn write_sync_batch(
    shared: &Shared,
    progress: &mut Progress,
    buffers: Vec<WriteBuffer>,
    sync_batch: Rc<SyncBatch>,
) {
    let mut failure = None;
    for buffer in buffers {
        let (segment, start) = (buffer.segment.clone(), buffer.offset);
        match &failure {
            // No record may follow a hole.
            Some(_) => abandon(shared, &segment, start),
            None => {
                if let Err(error) = write_run(shared, progress, buffer).await {
                    abandon(shared, &segment, start);
                    failure = Some(error);
                }
            }
        }
    }
    if failure.is_none() && is_sync_due(shared, progress) {
        failure = sync(shared, progress).await.err();
    }
    progress.is_marked = false;
    let counters = &shared.counters;
    counters.sync_batches.set(counters.sync_batches.get() + 1);
    match failure {
        None => sync_batch.resolve(Ok(())),
        Some(error) => fail(shared, progress, error, sync_batch),
    }
}

async fn write_run(
    shared: &Shared,
    progress: &mut Progress,
    buffer: WriteBuffer,
) -> Result<(), FileError> {
    let WriteBuffer { segment, offset, mut bytes } = buffer;
    let is_other = progress.written.as_ref().is_some_and(|(last, _)| last.id != segment.id);
    if is_other && progress.is_dirty() {
        // A segment may receive its first byte only after its predecessor's last sync.
        sync(shared, progress).await?;
    }
    let durable = shared.state.borrow().durable;
    let marker = layout::marker_body(durable);
    let crc = layout::record_checksum(segment.seed, &marker);
    bytes[..4].copy_from_slice(&(marker.len() as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes[8..MARKER_BYTES].copy_from_slice(&marker);
    let end = offset + bytes.len() as u32;
    let Some(file) = &segment.file else { return Ok(()) };
    progress.dirty_bytes += bytes.len() as u64;
    progress.written = Some((segment.clone(), end));
    let buffer = file.write_at(u64::from(offset), bytes).await?;
    let mut state = shared.state.borrow_mut();
    if state.free_buffers.len() < KEPT_BUFFERS && buffer.capacity() <= KEPT_BUFFER_BYTES {
        state.free_buffers.push(buffer);
    }
    Ok(())
}

async fn sync(shared: &Shared, progress: &mut Progress) -> Result<(), FileError> {
    let Some((segment, end)) = progress.written.clone() else { return Ok(()) };
    let Some(file) = &segment.file else { return Ok(()) };
    let started = time::Instant::now();
    if let Err(error) = file.sync_data().await {
        abandon(shared, &segment, end);
        return Err(error);
    }
    let elapsed = started.elapsed();
    if elapsed >= SLOW_SYNC
        && let Some(left_out) = shared.log_limit.due("slow sync")
    {
        tracing::warn!(
            milliseconds = elapsed.as_millis() as u64,
            bytes = progress.dirty_bytes,
            left_out,
            "commit log: a sync was slow, and the writes that waited for it were too; check the disk"
        );
    }
    progress.dirty_bytes = 0;
    progress.last_sync = started;
    shared.state.borrow_mut().durable = LogPosition { segment: segment.id, offset: end };
    Ok(())
}

/// Ends a segment early, at offset `end`: it receives no more records and is never recycled.
fn abandon(shared: &Shared, segment: &Rc<Segment>, end: u32) {
    segment.is_damaged.set(true);
    segment.end.set(segment.end.get().min(end));
    let mut state = shared.state.borrow_mut();
    if state.segments.active.as_ref().is_some_and(|active| active.id == segment.id) {
        state.segments.active = None;
    }
}

/// Fails all waiting writes: the writes of `sync_batch`, and the writes that gathered behind it.
fn fail(shared: &Shared, progress: &mut Progress, error: FileError, sync_batch: Rc<SyncBatch>) {
    tracing::error!(
        %error,
        "commit log: write or sync failed; waiting writes fail and the log continues in a new \
        segment, check the disk"
    );
    let counters = &shared.counters;
    counters.failed_sync_batches.set(counters.failed_sync_batches.get() + 1);
    if let Some((segment, end)) = progress.written.take() {
        abandon(shared, &segment, end);
    }
    progress.dirty_bytes = 0;
    // Only memtables hold these writes. Readers see them, and under periodic sync their clients
    // have an acknowledgement, so they must be flushed.
    shared.pressure.notify_one();
    // The next sync is due a whole period from now. So if every periodic sync fails, the log
    // abandons one segment in each period instead of one in each batch.
    progress.last_sync = time::Instant::now();
    let error = CommitLogError::Write(Arc::new(error));
    let (buffers, later) = {
        let mut state = shared.state.borrow_mut();
        state.write_failure = Some(error.clone());
        state.sync_wanted = LogPosition::NONE;
        state.pending_bytes = 0;
        (std::mem::take(&mut state.buffers), std::mem::take(&mut state.sync_batch))
    };
    for buffer in buffers {
        abandon(shared, &buffer.segment, buffer.offset);
    }
    shared.allocator_work.notify_one();
    sync_batch.resolve(Err(error.clone()));
    later.resolve(Err(error));
    // The failed buffers take no room any more, so writes that found no room may try again.
    shared.room.notify_all();
}
