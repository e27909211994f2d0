//! Tracks the compactions under way, for the scheduler, the operator and other compactions.
//!
//! **Invariant.** At most one compaction of a shard has a file at a time:
//! [`TableCompactions::begin`] reserves all inputs or none.

use std::{cell::Cell, rc::Rc, time::Duration};

use espalier_mutation::schema::TableId;
use espalier_runtime::{sync::Notify, time::Instant};
use espalier_sstable::{SSTable, SSTableSet};
use uuid::Uuid;

use super::kind::CompactionKind;

/// A snapshot of a compaction under way.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionProgress {
    /// Its id.
    pub id: Uuid,
    /// The shard it runs on.
    pub shard: usize,
    /// The reason why it runs.
    pub kind: CompactionKind,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Id of the table.
    pub table_id: TableId,
    /// Number of files that it reads.
    pub sstables: usize,
    /// Bytes read so far, before compression.
    pub completed_bytes: u64,
    /// Estimated time left, at the average speed so far; `None` before the first byte.
    pub remaining: Option<Duration>,
    /// Bytes to read, before compression.
    pub total_bytes: u64,
    /// Bytes to read, as stored.
    pub total_stored_bytes: u64,
    /// Directory of the outputs.
    pub target_directory: String,
}

/// A compaction that has reserved files of a table.
pub struct Running {
    /// Its id.
    pub id: Uuid,
    /// The reason why it runs.
    pub kind: CompactionKind,
    /// The kind of the request that waits for this compaction, such as a major compaction that
    /// waits for a split.
    pub asked_for: Cell<Option<CompactionKind>>,
    /// The files that it reads and replaces.
    pub inputs: Vec<Rc<SSTable>>,
    held: SSTableSet,
    /// Bytes of Data.db to read, before compression.
    pub total_bytes: Cell<u64>,
    /// The part of `total_bytes` that was read.
    pub completed_bytes: Cell<u64>,
    /// Upper limit of the bytes of all files to write.
    output_bytes: Cell<u64>,
    /// True if a check has found room for the outputs on the disk.
    has_room: Cell<bool>,
    is_stopped: Cell<bool>,
    began: Instant,
}

impl Running {
    /// Records that the compaction reads and rewrites only these inputs.
    pub fn reads_only(&self, inputs: &[Rc<SSTable>]) {
        self.total_bytes.set(inputs.iter().map(|input| input.reader().data_length()).sum());
        self.output_bytes.set(inputs.iter().map(|input| input.bytes_rewritten()).sum());
    }

    /// Records that the compaction writes nothing more.
    pub fn writes_nothing(&self) {
        self.output_bytes.set(0);
    }

    /// Returns an upper limit of the bytes that the compaction has still to write, as stored.
    pub fn bytes_to_come(&self) -> u64 {
        let total = self.total_bytes.get().max(1);
        let left = total.saturating_sub(self.completed_bytes.get());
        (u128::from(self.output_bytes.get()) * u128::from(left) / u128::from(total)) as u64
    }

    /// Returns the part of [`Running::bytes_to_come`] that the compaction `id` must leave free. If
    /// two compactions ask for room at once, the compaction with the lesser id gets the room.
    pub fn bytes_to_come_before(&self, id: Uuid) -> u64 {
        let is_before = self.has_room.get() || self.id < id;
        if is_before && self.id != id { self.bytes_to_come() } else { 0 }
    }

    /// Records that a check has found room for the outputs.
    pub fn set_has_room(&self) {
        self.has_room.set(true);
    }

    /// Returns the estimated time left, at the average speed so far; `None` before the first byte.
    pub fn remaining(&self) -> Option<Duration> {
        let completed = Some(self.completed_bytes.get()).filter(|bytes| *bytes > 0)?;
        let left = self.total_bytes.get().saturating_sub(completed);
        let remaining_s = self.began.elapsed().as_secs_f64() * left as f64 / completed as f64;
        Duration::try_from_secs_f64(remaining_s).ok()
    }

    /// Returns the bytes of Data.db to read, as stored.
    pub fn total_stored_bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.reader().stored_data_length()).sum()
    }

    /// Converts bytes of its inputs before compression to stored bytes, by the average ratio.
    pub(crate) fn as_stored(&self, plain_bytes: u64) -> u64 {
        let all_bytes: u64 = self.inputs.iter().map(|input| input.reader().data_length()).sum();
        let stored = u128::from(self.total_stored_bytes()) * u128::from(plain_bytes);
        (stored / u128::from(all_bytes.max(1))) as u64
    }

    /// Returns whether the compaction is of one of these kinds, or a request of one of these kinds
    /// waits for it.
    fn is_meant_by(&self, kinds: &[CompactionKind]) -> bool {
        let asked_for = self.asked_for.get();
        kinds.contains(&self.kind) || asked_for.is_some_and(|kind| kinds.contains(&kind))
    }

    /// Returns whether the compaction was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }

    /// Requests that the compaction ends without an effect.
    pub fn stop(&self) {
        self.is_stopped.set(true);
    }
}

/// The compactions of a table on a shard, and the reasons why none may begin.
#[derive(Default)]
pub struct TableCompactions {
    running: std::cell::RefCell<Vec<Rc<Running>>>,
    pauses: Cell<usize>,
    /// True if the outcome of a commit is unknown. If so, the present files must stay until the
    /// next start.
    is_undecided: Cell<bool>,
    /// For each kind, the number of the last request to stop compactions of that kind. A shard
    /// numbers all its stop requests in one sequence.
    stopped_by: [Cell<u64>; CompactionKind::ALL.len()],
    ended: Notify,
    /// No automatic compaction begins before this time.
    pub retry_at: Cell<Option<Instant>>,
    /// The lack of disk space is not logged again before this time.
    pub next_warning_at: Cell<Option<Instant>>,
}

/// Keeps a compaction registered; dropped at its end.
pub struct RunningGuard {
    compactions: Rc<TableCompactions>,
    /// The compaction.
    pub running: Rc<Running>,
}

/// Prevents compactions of the table on this shard while it exists.
pub struct CompactionPause(Rc<TableCompactions>);

impl TableCompactions {
    /// Returns the time until the next automatic compaction may begin after one has failed or had
    /// no room; `None` if one may begin now.
    pub fn until_retry(&self) -> Option<Duration> {
        let now = Instant::now();
        self.retry_at.get().filter(|at| now < *at).map(|at| at.since(now))
    }

    /// Reserves files for a compaction; `None` if one of them is reserved already, or no compaction
    /// may begin.
    pub fn begin(
        self: &Rc<Self>,
        id: Uuid,
        kind: CompactionKind,
        inputs: Vec<Rc<SSTable>>,
    ) -> Option<RunningGuard> {
        if self.pauses.get() > 0
            || self.is_undecided.get()
            || inputs.iter().any(|input| self.is_busy(input))
        {
            return None;
        }
        let running = Rc::new(Running {
            id,
            kind,
            asked_for: Cell::default(),
            held: SSTableSet::of(&inputs),
            inputs,
            total_bytes: Cell::default(),
            completed_bytes: Cell::default(),
            output_bytes: Cell::default(),
            has_room: Cell::default(),
            is_stopped: Cell::default(),
            began: Instant::now(),
        });
        running.reads_only(&running.inputs);
        self.running.borrow_mut().push(running.clone());
        Some(RunningGuard { compactions: self.clone(), running })
    }

    /// Returns whether a compaction has reserved the file.
    pub fn is_busy(&self, sstable: &Rc<SSTable>) -> bool {
        let running = self.running.borrow();
        running.iter().any(|running| running.held.has(sstable))
    }

    /// Returns the running compactions.
    pub fn running(&self) -> Vec<Rc<Running>> {
        self.running.borrow().clone()
    }

    /// Stops compactions of these kinds of this table, by the stop request with number `request` on
    /// this shard.
    pub fn stop(&self, request: u64, kinds: &[CompactionKind]) {
        kinds.iter().for_each(|kind| self.stopped_by[*kind as usize].set(request));
        let running = self.running.borrow();
        let meant = running.iter().filter(|running| running.is_meant_by(kinds));
        meant.for_each(|running| running.stop());
        // Wake the compactions that wait for a file of a running one: the request may stop them
        // too.
        self.ended.notify_all();
    }

    /// Returns whether a stop request later than `request` meant this kind.
    pub fn is_stopped_since(&self, request: u64, kind: CompactionKind) -> bool {
        self.stopped_by[kind as usize].get() > request
    }

    /// Records that the outcome of a commit is unknown: no compaction may begin before the next
    /// start.
    pub fn set_undecided(&self) {
        self.is_undecided.set(true);
    }

    /// Returns whether no compaction may begin before the next start.
    pub fn is_undecided(&self) -> bool {
        self.is_undecided.get()
    }

    /// Waits until a compaction or a pause has ended, or a stop request has come.
    pub async fn wait_for_end(&self) {
        self.ended.notified().await;
    }

    /// Stops the running compactions, waits for their ends, and prevents new ones while the result
    /// exists.
    pub async fn pause(self: &Rc<Self>) -> CompactionPause {
        self.pauses.set(self.pauses.get() + 1);
        let pause = CompactionPause(self.clone());
        self.running.borrow().iter().for_each(|running| running.stop());
        while !self.running.borrow().is_empty() {
            self.ended.notified().await;
        }
        pause
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let running = &self.compactions.running;
        running.borrow_mut().retain(|running| !Rc::ptr_eq(running, &self.running));
        self.compactions.ended.notify_all();
    }
}

impl Drop for CompactionPause {
    fn drop(&mut self) {
        self.0.pauses.set(self.0.pauses.get() - 1);
        self.0.ended.notify_all();
    }
}
