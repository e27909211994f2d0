//! A compaction under way, as others see it.

use std::{cell::Cell, rc::Rc, time::Duration};

use espalier_mutation::schema::TableId;
use espalier_runtime::{sync::Notify, time::Instant};
use uuid::Uuid;

use super::kind::CompactionKind;
use crate::table::{SSTable, SSTableSet};

/// A snapshot of a compaction under way.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionProgress {
    /// Its id.
    pub id: Uuid,
    /// The shard it runs on.
    pub shard: usize,
    /// Why it runs.
    pub kind: CompactionKind,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Id of the table.
    pub table_id: TableId,
    /// Files it reads.
    pub sstables: usize,
    /// Bytes read so far, before compression.
    pub completed_bytes: u64,
    /// How long it takes still, if it goes on as fast as until now; `None` before the first byte.
    pub remaining: Option<Duration>,
    /// Bytes to be read.
    pub total_bytes: u64,
    /// The same as they are stored.
    pub total_stored_bytes: u64,
    /// Where its files go.
    pub target_directory: String,
}

/// A compaction that holds files of a table.
pub(crate) struct Running {
    pub(crate) id: Uuid,
    pub(crate) kind: CompactionKind,
    /// What somebody asked for who needs this first: a split has a cause.
    pub(crate) asked_for: Cell<Option<CompactionKind>>,
    pub(crate) inputs: Vec<Rc<SSTable>>,
    held: SSTableSet,
    /// Bytes of Data.db that are read, before compression.
    pub(crate) total_bytes: Cell<u64>,
    pub(crate) completed_bytes: Cell<u64>,
    /// Bytes of all files at most that are written for that.
    output_bytes: Cell<u64>,
    /// Whether the disk was found to have room for it.
    has_room: Cell<bool>,
    is_stopped: Cell<bool>,
    began: Instant,
}

impl Running {
    /// Only these of its inputs are read, and written again.
    pub(crate) fn reads_only(&self, inputs: &[Rc<SSTable>]) {
        self.total_bytes.set(inputs.iter().map(|input| input.reader().data_length()).sum());
        self.output_bytes.set(inputs.iter().map(|input| input.bytes_rewritten()).sum());
    }

    /// From now on.
    pub(crate) fn writes_nothing(&self) {
        self.output_bytes.set(0);
    }

    /// What it may still write, as files are stored.
    pub(crate) fn bytes_to_come(&self) -> u64 {
        let total = self.total_bytes.get().max(1);
        let left = total.saturating_sub(self.completed_bytes.get());
        (u128::from(self.output_bytes.get()) * u128::from(left) / u128::from(total)) as u64
    }

    /// The same as far as another one with this id has to leave it free. Of two that ask for room at once the one that is earlier in
    /// the order of ids has it.
    pub(crate) fn bytes_to_come_before(&self, id: Uuid) -> u64 {
        let is_before = self.has_room.get() || self.id < id;
        if is_before && self.id != id { self.bytes_to_come() } else { 0 }
    }

    pub(crate) fn set_has_room(&self) {
        self.has_room.set(true);
    }

    pub(crate) fn remaining(&self) -> Option<Duration> {
        let completed = Some(self.completed_bytes.get()).filter(|bytes| *bytes > 0)?;
        let left = self.total_bytes.get().saturating_sub(completed);
        let remaining_s = self.began.elapsed().as_secs_f64() * left as f64 / completed as f64;
        Duration::try_from_secs_f64(remaining_s).ok()
    }

    pub(crate) fn total_stored_bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.reader().stored_data_length()).sum()
    }

    /// What so many bytes of its inputs are as they are stored, on average.
    pub(super) fn as_stored(&self, plain_bytes: u64) -> u64 {
        let all_bytes: u64 = self.inputs.iter().map(|input| input.reader().data_length()).sum();
        let stored = u128::from(self.total_stored_bytes()) * u128::from(plain_bytes);
        (stored / u128::from(all_bytes.max(1))) as u64
    }

    /// Whether it is of one of these kinds, or has to be done before such a one.
    fn is_meant_by(&self, kinds: &[CompactionKind]) -> bool {
        let asked_for = self.asked_for.get();
        kinds.contains(&self.kind) || asked_for.is_some_and(|kind| kinds.contains(&kind))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }

    /// Asks it to end without an effect.
    pub(crate) fn stop(&self) {
        self.is_stopped.set(true);
    }
}

/// The compactions of a table on a shard, and whether there may be any.
#[derive(Default)]
pub(crate) struct TableCompactions {
    running: std::cell::RefCell<Vec<Rc<Running>>>,
    pauses: Cell<usize>,
    /// A commit of which nobody knows the outcome: the files there are must stay until the next start.
    is_undecided: Cell<bool>,
    /// The number, of all requests on this shard that something end, of the last one that meant each kind of this table's.
    stopped_by: [Cell<u64>; CompactionKind::ALL.len()],
    ended: Notify,
    /// Nothing begins by itself before this.
    pub(super) retry_at: Cell<Option<Instant>>,
    /// Nobody is told again before this that the disk has no room.
    pub(super) tell_at: Cell<Option<Instant>>,
}

/// Ends with the compaction.
pub(crate) struct RunningGuard {
    compactions: Rc<TableCompactions>,
    pub(crate) running: Rc<Running>,
}

/// As long as it lives, nothing of the table is compacted on this shard.
pub(crate) struct CompactionPause(Rc<TableCompactions>);

impl TableCompactions {
    /// How long nothing begins by itself yet, since one has failed or had no room.
    pub(crate) fn until_retry(&self) -> Option<Duration> {
        let now = Instant::now();
        self.retry_at.get().filter(|at| now < *at).map(|at| at.since(now))
    }

    /// Takes files for a compaction; `None` if one of them is taken, or none may begin.
    pub(crate) fn begin(
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

    /// Whether a compaction has the file.
    pub(crate) fn is_busy(&self, sstable: &Rc<SSTable>) -> bool {
        let running = self.running.borrow();
        running.iter().any(|running| running.held.has(sstable))
    }

    pub(crate) fn running(&self) -> Vec<Rc<Running>> {
        self.running.borrow().clone()
    }

    /// Somebody asks, as the `request`th on this shard, that compactions of these kinds of this table end.
    pub(crate) fn stop(&self, request: u64, kinds: &[CompactionKind]) {
        kinds.iter().for_each(|kind| self.stopped_by[*kind as usize].set(request));
        let running = self.running.borrow();
        let meant = running.iter().filter(|running| running.is_meant_by(kinds));
        meant.for_each(|running| running.stop());
        // Who waits for a file may be meant, and the one that has it not.
        self.ended.notify_all();
    }

    /// Whether somebody did so behind the `request`th.
    pub(crate) fn is_stopped_since(&self, request: u64, kind: CompactionKind) -> bool {
        self.stopped_by[kind as usize].get() > request
    }

    pub(crate) fn set_undecided(&self) {
        self.is_undecided.set(true);
    }

    /// Whether nothing begins any more before the next start.
    pub(crate) fn is_undecided(&self) -> bool {
        self.is_undecided.get()
    }

    /// Waits until a compaction or a pause has ended.
    pub(crate) async fn wait_for_end(&self) {
        self.ended.notified().await;
    }

    /// Stops what runs, waits until it has ended, and keeps others from beginning.
    pub(crate) async fn pause(self: &Rc<Self>) -> CompactionPause {
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
