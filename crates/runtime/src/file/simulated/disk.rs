//! The state of the simulated disk: nodes, their durable content, and their unsynced changes.

use super::super::error::Operation;
use super::content::Content;
use super::fault::{Effect, Fault};
use crate::random::Generator;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A simulated disk; clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    pub(super) state: Arc<Mutex<DiskState>>,
}

pub(super) type NodeId = u64;

/// The root directory's node.
pub(super) const ROOT: NodeId = 0;

pub(super) struct DiskState {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) next_node: NodeId,
    /// Changes of names that no directory sync has made durable, in order.
    pub(super) unsynced_names: Vec<NameChange>,
    pub(super) random: Generator,
    pub(super) faults: Vec<Fault>,
    pub(super) interleave: bool,
    capacity: u64,
    used: u64,
    operations: BTreeMap<Operation, u64>,
    power_off_at: Option<u64>,
}

#[derive(Clone)]
pub(super) enum Node {
    File(FileNode),
    Directory(DirectoryNode),
}

#[derive(Clone, Default)]
pub(super) struct FileNode {
    pub(super) content: Content,
    pub(super) durable: Content,
    pub(super) unsynced: Vec<Change>,
    pub(super) links: u64,
    pub(super) modified_ms: i64,
}

#[derive(Clone, Default)]
pub(super) struct DirectoryNode {
    pub(super) entries: BTreeMap<String, NodeId>,
    pub(super) durable: BTreeMap<String, NodeId>,
}

/// A change of a file's content that a crash may lose.
#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLength(usize),
}

/// An atomic change of names: each of these names refers to another node or to none.
#[derive(Clone)]
pub(super) struct NameChange {
    pub(super) parts: Vec<(NodeId, String, Option<NodeId>)>,
}

impl Change {
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            Change::SetLength(length) => content.set_len(*length),
            Change::Write { offset, bytes } => content.write(*offset, bytes),
        }
    }
}

impl DiskState {
    pub(super) fn new(seed: u64) -> Self {
        DiskState {
            nodes: BTreeMap::from([(ROOT, Node::Directory(DirectoryNode::default()))]),
            next_node: ROOT + 1,
            unsynced_names: Vec::new(),
            random: Generator::from_seed(seed),
            faults: Vec::new(),
            interleave: true,
            capacity: u64::MAX,
            used: 0,
            operations: BTreeMap::new(),
            power_off_at: None,
        }
    }

    pub(super) fn insert(&mut self, node: Node) -> NodeId {
        let id = self.next_node;
        self.next_node += 1;
        self.nodes.insert(id, node);
        id
    }

    pub(super) fn file(&mut self, id: NodeId) -> io::Result<&mut FileNode> {
        match self.nodes.get_mut(&id) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory(_)) => Err(rustix::io::Errno::ISDIR.into()),
            None => Err(rustix::io::Errno::NOENT.into()),
        }
    }

    /// Applies a change to a file's visible content and records it as not durable. Fails if the
    /// disk would exceed its capacity.
    pub(super) fn change(&mut self, id: NodeId, change: Change) -> io::Result<()> {
        let (capacity, used) = (self.capacity, self.used);
        let file = self.file(id)?;
        let before = file.content.len() as u64;
        let after = match &change {
            Change::Write { offset, bytes } => before.max((offset + bytes.len()) as u64),
            Change::SetLength(length) => *length as u64,
        };
        let used = (used + after).saturating_sub(before);
        if after > before && used > capacity {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        change.apply(&mut file.content);
        file.unsynced.push(change);
        file.modified_ms = crate::time::now_millis();
        self.used = used;
        Ok(())
    }

    pub(super) fn set_used(&mut self, bytes: u64) {
        self.used = bytes;
    }

    fn operations(&self) -> u64 {
        self.operations.values().sum()
    }

    fn is_power_off(&self) -> bool {
        self.power_off_at.is_some_and(|at| self.operations() > at)
    }

    /// Counts an operation and decides whether it fails; every operation on a file or a name calls
    /// this before it does anything.
    pub(super) fn admit(
        &mut self,
        operation: Operation,
        path: &Path,
    ) -> io::Result<Option<Effect>> {
        *self.operations.entry(operation).or_default() += 1;
        if self.is_power_off() {
            return Err(io::Error::other("the simulated power is off"));
        }
        match super::fault::strike(&mut self.faults, operation, path) {
            Some(Effect::NoSpace) => Err(rustix::io::Errno::NOSPC.into()),
            Some(Effect::InputOutput) => Err(rustix::io::Errno::IO.into()),
            softer => Ok(softer),
        }
    }
}

impl SimulatedDisk {
    /// Creates an empty disk.
    pub fn new(seed: u64) -> Self {
        SimulatedDisk::of(DiskState::new(seed))
    }

    pub(super) fn of(state: DiskState) -> Self {
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Yields at random, so that tasks interleave.
    pub(super) async fn interleave(&self) {
        let gives_way = {
            let mut state = self.lock();
            state.interleave && state.random.below(4) == 0
        };
        if gives_way {
            crate::preempt::yield_now().await;
        }
    }

    /// Sets whether operations yield to other tasks at random (by default they do).
    pub fn set_interleaving(&self, on: bool) {
        self.lock().interleave = on;
    }

    /// Sets the number of bytes that fit on the disk; a file that would grow beyond it fails with
    /// "No space left on device". Removed files keep counting while the disk lives.
    pub fn set_capacity(&self, bytes: u64) {
        self.lock().capacity = bytes;
    }

    /// Returns the bytes of all files, including removed ones.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used
    }

    /// Returns the number of bytes by which files can still grow.
    pub(in super::super) fn available_bytes(&self) -> u64 {
        let state = self.lock();
        state.capacity.saturating_sub(state.used)
    }

    /// Returns the used percentage of the capacity.
    pub(in super::super) fn used_percentage(&self) -> u8 {
        let state = self.lock();
        crate::file::real::percentage(state.used, state.capacity)
    }

    /// Returns the number of operations that were called so far, including failed ones.
    pub fn operations(&self) -> u64 {
        self.lock().operations()
    }

    /// Returns the number of operations of one kind that were called so far.
    pub fn operations_of(&self, operation: Operation) -> u64 {
        self.lock().operations.get(&operation).copied().unwrap_or(0)
    }

    /// Turns the power off after `operations` more operations: all later ones fail. They change
    /// nothing, except that a failed sync makes a random part of the changes durable. With
    /// [`SimulatedDisk::crash`], a test can end a program at each of its operations.
    pub fn power_off_after(&self, operations: u64) {
        let mut state = self.lock();
        state.power_off_at = Some(state.operations() + operations);
    }

    /// Returns whether an operation has failed because the power is off.
    pub fn is_power_off(&self) -> bool {
        self.lock().is_power_off()
    }

    /// Adds a fault. Faults are tried in the order in which they were added; the first match
    /// strikes.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        write!(f, "SimulatedDisk({} nodes, {} bytes)", state.nodes.len(), state.used)
    }
}
