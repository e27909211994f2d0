//! The writer's side of memory: taking units, retiring and freeing them, and counting them. A unit
//! is a content, or a node with all its blocks.
//!
//! Units that an operation takes out of the structure are *retired*: they wait in a list, in order
//! of epochs. Without readers, every operation frees retired units when it ends. With readers, an
//! operation frees units only if it advances the epoch, which happens after [`RETIRED_PER_EPOCH`]
//! units were retired. An operation frees at most [`FREED_AT_ONCE`] more units than it has retired
//! itself, so that no backlog makes a single write slow. Only an operation that finds too few free
//! blocks frees all retired units that no reader can reach.
//!
//! Memory bound: 4 bytes for each retired unit, and up to 1 KiB for each epoch in which units were
//! retired. The number of retired units is bounded by the units that the writer retires while the
//! longest-pinned reader stays.

#![allow(unsafe_code)]

use super::arena::Arena;
use super::live::Live;
use super::node::{BLOCK_BYTES, Block};
use super::own_blocks::OwnBlocks;
use super::pointer::{Kind, Pointer};
use super::pool::Pool;
use super::retired::RetiredBlocks;
use super::shared::Shared;

/// Retired units between two epochs (arbitrary): a fence for each 64 units is not noticeable.
const RETIRED_PER_EPOCH: u32 = 64;
/// Units freed by one operation besides its own (arbitrary): a few microseconds, if contents are
/// simple to drop.
const FREED_AT_ONCE: u32 = 128;

/// The trie cannot grow, because of its limit (at most 2^27 blocks, 4 GiB) or for lack of memory;
/// the failed operation has not changed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no block is left for the trie: {used} blocks of 32 bytes are in use")]
pub struct TrieFull {
    /// Blocks in use.
    pub used: u32,
}

/// Blocks side by side that were taken for a node.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) first: u32,
    pub(crate) blocks: u32,
}

pub(crate) struct Space {
    /// Blocks of the structure and of contents.
    pub(crate) blocks: Pool,
    /// Blocks taken for contents.
    contents: u32,
    /// The blocks of all contents that are alive, if the type of the contents needs a drop.
    live: Live,
    /// A block in the cache line of the content that was taken last, for the chain that will lead
    /// to it. Set only while a content is added for a key that had none.
    beside_content: Option<u32>,
    /// Blocks for a node that has several. Set while a content is added for a key that had none,
    /// and afterwards if that addition panicked.
    room: Option<Room>,
    retired: RetiredBlocks,
    retired_since_advance: u32,
    retired_in_operation: u32,
    /// During a transaction with readers: the value of [`Space::retired_in_operation`] when it
    /// began; otherwise `None`. Units retired since then may still be found, because their
    /// replacement is not published yet: the epoch must not advance.
    deferred_from: Option<u32>,
    /// The nodes that the transaction has copied.
    pub(crate) own: OwnBlocks,
    /// The weight of the retired contents.
    retired_weight: usize,
}

impl Space {
    pub(crate) fn new(limit: u32) -> Space {
        Space {
            // Block 0 is not used, so that no pointer is 0.
            blocks: Pool::new(1, limit),
            contents: 0,
            live: Live::default(),
            beside_content: None,
            room: None,
            retired: RetiredBlocks::default(),
            retired_since_advance: 0,
            retired_in_operation: 0,
            deferred_from: None,
            own: OwnBlocks::default(),
            retired_weight: 0,
        }
    }

    /// Makes all blocks free. The caller guarantees that neither the structure nor a reader has
    /// any, and that no content must be dropped.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        *self =
            Space { blocks: std::mem::replace(&mut self.blocks, Pool::new(1, 0)), ..Space::new(0) };
    }

    /// Makes sure that `blocks` blocks can be taken, for structure and contents.
    #[inline]
    pub(crate) fn reserve<C>(&mut self, shared: &Shared<C>, blocks: usize) -> Result<(), TrieFull> {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        if self.blocks.reserve(&shared.blocks, blocks) {
            return Ok(());
        }
        self.reserve_after_freeing(shared, blocks)
    }

    #[cold]
    fn reserve_after_freeing<C>(
        &mut self,
        shared: &Shared<C>,
        blocks: u32,
    ) -> Result<(), TrieFull> {
        if self.deferred_from.is_none() {
            self.free_retired(shared, u32::MAX);
        }
        if self.blocks.reserve(&shared.blocks, blocks) { Ok(()) } else { Err(self.full()) }
    }

    /// Takes blocks side by side for a node to come, and makes sure that `singles` more can be
    /// taken one by one.
    pub(crate) fn take_room<C>(
        &mut self,
        shared: &Shared<C>,
        blocks: u32,
        singles: usize,
    ) -> Result<(), TrieFull> {
        // Releases the room of an earlier operation that panicked.
        self.release_room(shared);
        let first = self.take_run(shared, blocks)?;
        self.room = Some(Room { first, blocks });
        let reserved = self.reserve(shared, singles);
        if reserved.is_err() {
            self.release_room(shared);
        }
        reserved
    }

    /// Returns the blocks that [`Space::take_room`] took. From then on, they are the caller's.
    pub(crate) fn room(&mut self) -> Option<Room> {
        self.room.take()
    }

    /// Returns room that was not used because an operation panicked.
    pub(crate) fn room_left_behind(&self) -> impl Iterator<Item = Room> {
        self.room.into_iter()
    }

    pub(crate) fn release_room<C>(&mut self, shared: &Shared<C>) {
        if let Some(room) = self.room.take() {
            self.blocks.give_run(&shared.blocks, room.first, room.blocks);
        }
    }

    /// Takes blocks side by side for a node that has several.
    pub(crate) fn take_run<C>(&mut self, shared: &Shared<C>, blocks: u32) -> Result<u32, TrieFull> {
        if let Some(run) = self.blocks.take_run(&shared.blocks, blocks) {
            return Ok(run);
        }
        if self.deferred_from.is_none() {
            self.free_retired(shared, u32::MAX);
        }
        self.blocks.take_run(&shared.blocks, blocks).ok_or_else(|| self.full())
    }

    /// Puts a content in a block.
    #[inline]
    pub(crate) fn take_content<C>(&mut self, shared: &Shared<C>, content: C) -> Pointer {
        let index = self.blocks.take(&shared.blocks);
        self.fill(shared, index, content)
    }

    /// Puts a content in a block, and keeps the other block of the same cache line for the chain
    /// that leads to it: a look-up then needs only that line for both.
    #[inline]
    pub(crate) fn take_content_for_chain<C>(&mut self, shared: &Shared<C>, content: C) -> Pointer {
        match self.blocks.take_pair(&shared.blocks) {
            Some((first, second)) => {
                self.beside_content = Some(second);
                self.fill(shared, first, content)
            }
            None => self.take_content(shared, content),
        }
    }

    /// Takes the block kept by [`Space::take_content_for_chain`].
    #[inline]
    pub(crate) fn take_beside_content(&mut self) -> Option<u32> {
        self.beside_content.take()
    }

    /// Gives the kept block back to the pool, if no chain has taken it.
    #[inline]
    pub(crate) fn release_beside_content<C>(&mut self, shared: &Shared<C>) {
        if let Some(index) = self.beside_content.take() {
            self.blocks.give(&shared.blocks, index);
        }
    }

    #[inline]
    fn fill<C>(&mut self, shared: &Shared<C>, index: u32, content: C) -> Pointer {
        self.contents += 1;
        if std::mem::needs_drop::<C>() {
            self.live.add(index);
        }
        // SAFETY: only the writer knows the block until its pointer is published.
        unsafe { shared.content(index).write(content) };
        Pointer::leaf(index)
    }

    /// Records that a block or content has been taken out of the structure, or will be before the
    /// operation ends. The unit keeps its bytes at least until [`Space::settle`].
    #[inline]
    pub(crate) fn retire<C>(&mut self, shared: &Shared<C>, pointer: Pointer) {
        if pointer.is_leaf() {
            self.retired_weight += shared.weight_of(pointer);
        }
        self.retired.push(shared.epochs.current(), pointer);
        self.retired_in_operation = self.retired_in_operation.wrapping_add(1);
    }

    /// Ends an operation: frees units that are known to be out of reach.
    #[inline]
    pub(crate) fn settle<C>(&mut self, shared: &Shared<C>) {
        if !self.retired.is_empty() && self.deferred_from.is_none() {
            self.settle_retired(shared);
        }
    }

    /// Begins a transaction. If it is `deferred`, nothing is freed until it ends.
    pub(crate) fn begin_transaction<C>(&mut self, shared: &Shared<C>, deferred: bool) {
        if self.deferred_from.is_some() {
            self.forget_transaction(shared);
        }
        self.deferred_from = deferred.then_some(self.retired_in_operation);
    }

    /// Ends a transaction, after the retired units can no longer be found.
    pub(crate) fn end_transaction(&mut self) {
        self.own.clear();
        self.deferred_from = None;
    }

    /// Handles a transaction that was forgotten ([`std::mem::forget`]) and never published: the
    /// units that it retired are still in the structure, and must not be freed. Its own nodes are
    /// lost until the trie is dropped.
    #[cold]
    fn forget_transaction<C>(&mut self, shared: &Shared<C>) {
        let Some(from) = self.deferred_from.take() else { return };
        self.own.clear();
        for _ in 0..self.retired_in_operation.wrapping_sub(from) {
            let Some(pointer) = self.retired.pop_last() else { break };
            if pointer.is_leaf() {
                self.retired_weight -= shared.weight_of(pointer);
            }
        }
        self.retired_in_operation = from;
    }

    pub(crate) fn full(&self) -> TrieFull {
        TrieFull { used: self.blocks.taken() }
    }

    fn settle_retired<C>(&mut self, shared: &Shared<C>) {
        let retired = std::mem::take(&mut self.retired_in_operation);
        self.retired_since_advance = self.retired_since_advance.saturating_add(retired);
        if !shared.epochs.has_readers() || self.retired_since_advance >= RETIRED_PER_EPOCH {
            self.free_retired(shared, retired.saturating_add(FREED_AT_ONCE));
        }
    }

    /// Frees up to `count` of the units that no reader can reach.
    pub(crate) fn free_retired<C>(&mut self, shared: &Shared<C>, count: u32) {
        if self.deferred_from.is_some() {
            self.forget_transaction(shared);
        }
        let bound = if shared.epochs.has_readers() {
            self.retired_since_advance = 0;
            shared.epochs.advance()
        } else {
            u64::MAX
        };
        for _ in 0..count {
            let Some(pointer) = self.retired.pop(bound) else { break };
            if pointer.is_leaf() {
                self.retired_weight -= shared.weight_of(pointer);
            }
            self.free(shared, pointer);
        }
    }

    /// Drops a content or recycles a block that no thread can reach.
    pub(crate) fn free<C>(&mut self, shared: &Shared<C>, pointer: Pointer) {
        let index = pointer.index();
        match pointer.kind() {
            Kind::Leaf => {}
            Kind::Chain | Kind::Sparse | Kind::Prefix => {
                return self.blocks.give(&shared.blocks, index);
            }
            kind => return self.blocks.give_run(&shared.blocks, index, kind.blocks()),
        }
        self.contents -= 1;
        if std::mem::needs_drop::<C>() {
            self.live.remove(index);
            // SAFETY: retired contents are alive, and no thread can reach this one any more.
            let content = unsafe { shared.content(index).read() };
            // Free the block before the drop of the content, because the drop may panic.
            self.blocks.give(&shared.blocks, index);
            drop(content);
        } else {
            self.blocks.give(&shared.blocks, index);
        }
    }

    /// Removes a block from the record of live contents, and returns it. The caller must drop its
    /// content, which may be in the structure or retired.
    #[inline]
    pub(crate) fn pop_live(&mut self) -> Option<u32> {
        self.live.pop()
    }

    /// Resets the pool, so that all units count as never used and the arena as empty.
    pub(crate) fn forget_units(&mut self) {
        self.blocks = Pool::new(1, 0);
        self.contents = 0;
        self.live = Live::default();
        self.retired = RetiredBlocks::default();
        self.retired_weight = 0;
    }

    /// Returns the number of contents in the structure.
    pub(crate) fn live_contents(&self) -> u32 {
        self.contents - self.retired.contents()
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.blocks.taken() as usize * BLOCK_BYTES - self.retired_bytes()
    }

    pub(crate) fn retired_bytes(&self) -> usize {
        (self.retired.blocks() + self.retired.contents()) as usize * BLOCK_BYTES
    }

    /// Returns the weight of the contents that were removed but may still have readers.
    pub(crate) fn retired_weight(&self) -> usize {
        self.retired_weight
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        Arena::<Block>::bytes(self.blocks.capacity())
    }

    /// Returns the bytes of the record of live contents.
    pub(crate) fn record_bytes(&self) -> usize {
        self.live.bytes()
    }

    /// Returns the record of live contents, for the reader that will drop them.
    pub(crate) fn into_live(self) -> Live {
        self.live
    }

    /// Returns the retired units, which wait to be freed.
    pub(crate) fn retired(&self) -> &RetiredBlocks {
        &self.retired
    }
}
