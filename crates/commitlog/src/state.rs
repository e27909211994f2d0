//! The state of a log, which its handle, its writer and its allocator share.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use espalier_mutation::LogPosition;
use espalier_runtime::{
    JoinHandle,
    file::{FileError, FileSystem},
    log_limit::LogLimit,
    sync::Notify,
};

use super::{CommitLogConfiguration, CommitLogError, segment::Segment, sync_batch::SyncBatch};

pub(super) struct Shared {
    pub(super) configuration: CommitLogConfiguration,
    pub(super) file_system: FileSystem,
    /// The next segment id, shared by all shards and logs.
    pub(super) ids: Arc<AtomicU64>,
    pub(super) state: RefCell<State>,
    /// Notified when there are write buffers to write, or when the log closes.
    pub(super) work: Notify,
    /// Notified when a segment is ready or cannot be created, when write buffers were written, and
    /// when the log closes, so that callers retry an append that found no room.
    pub(super) room: Notify,
    /// Notified when a segment is needed or segments became free.
    pub(super) allocator_work: Notify,
    /// Notified when tables must be flushed to free segments: see `CommitLog::is_under_pressure`.
    pub(super) pressure: Notify,
    pub(super) counters: Counters,
    pub(super) log_limit: LogLimit,
}

/// Counters of a log since it was opened.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) bytes_appended: Cell<u64>,
    pub(super) records_appended: Cell<u64>,
    pub(super) sync_batches: Cell<u64>,
    pub(super) failed_sync_batches: Cell<u64>,
    pub(super) segments_created: Cell<u64>,
    pub(super) segments_recycled: Cell<u64>,
}

/// The segments of a log, from their creation to their removal.
#[derive(Default)]
pub(super) struct Segments {
    /// All segments that may hold unflushed writes, oldest first. The last one may be `active`.
    pub(super) live: VecDeque<Rc<Segment>>,
    /// The segment that receives appended records.
    pub(super) active: Option<Rc<Segment>>,
    /// The prepared segment that becomes active next.
    pub(super) ready: Option<Rc<Segment>>,
    /// Segments that are not needed any more, oldest first. Their files become the next segments;
    /// until then a restart would find their records.
    pub(super) recyclable: VecDeque<(u64, PathBuf)>,
    /// Id of the segment that is being recycled at the moment: its file becomes another segment.
    pub(super) being_recycled: Option<u64>,
    /// Segments that the allocator will remove.
    pub(super) obsolete: Vec<(u64, PathBuf)>,
    /// Obsolete segments that could not be removed in this pass. They return to `obsolete` when all
    /// others were tried.
    pub(super) unremovable: Vec<(u64, PathBuf)>,
    /// Ids of segments whose files are removed, until the removals are durable.
    pub(super) removed: Vec<u64>,
    /// Id of the segment that the allocator is creating.
    pub(super) being_made: Option<u64>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) segments: Segments,
    /// Write buffers with appended records that the writer has not taken yet.
    pub(super) buffers: Vec<WriteBuffer>,
    pub(super) pending_bytes: usize,
    /// The sync batch of the tickets that wait for `buffers`.
    pub(super) sync_batch: Rc<SyncBatch>,
    /// All records before this position survive a crash.
    pub(super) durable: LogPosition,
    /// A sync is due as long as the records before this position are not durable.
    pub(super) sync_wanted: LogPosition,
    /// The error of the last write or sync that failed.
    pub(super) write_failure: Option<CommitLogError>,
    /// The error of the last attempt to create a segment, if it failed.
    pub(super) allocation_failure: Option<Arc<FileError>>,
    /// Memory of written buffers, kept for reuse.
    pub(super) free_buffers: Vec<Vec<u8>>,
    pub(super) is_closing: bool,
    /// Segments of the sync batch that the writer is writing.
    pub(super) being_written: Vec<u64>,
    /// The sync batch that the writer is writing.
    pub(super) sync_batch_being_written: Option<Rc<SyncBatch>>,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

/// Records that go to the disk in one write. The buffer begins with a marker that the writer fills
/// in.
pub(super) struct WriteBuffer {
    pub(super) segment: Rc<Segment>,
    pub(super) offset: u32,
    pub(super) bytes: Vec<u8>,
}

impl Shared {
    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}
