//! The writer's side of memory: what to take, what to give back and when, and how much there is.
//!
//! What an operation takes out of the structure goes to *limbo*, in order of its epoch. Without
//! readers it is freed when the operation ends. With readers, the epoch moves on with every
//! [`RETIRED_PER_EPOCH`] units retired, and each operation frees at most [`FREED_AT_ONCE`] more units
//! than it has retired itself, so that no backlog makes a single write slow.
//!
//! Memory bound: 4 bytes for each unit in limbo; as many of those as the writer retires while the
//! longest-pinned reader stays.

#![allow(unsafe_code)]

use super::arena::Arena;
use super::limbo::Limbo;
use super::node::{BLOCK_BYTES, Block};
use super::pointer::{Kind, Pointer};
use super::pool::Pool;
use super::shared::{ContentSlot, Shared};
use std::mem::ManuallyDrop;

/// An arbitrary choice: a fence for each 64 units is not noticed.
const RETIRED_PER_EPOCH: u32 = 64;
/// An arbitrary choice: a few microseconds, when contents are simple to drop.
const FREED_AT_ONCE: u32 = 128;

/// The trie cannot grow: nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrieFull {
    /// 32-byte blocks have run out: the trie's limit (at most 2^27, 4 GiB) or the memory.
    #[error("no block is left for the trie's structure: {used} of 32 bytes are in use")]
    Blocks {
        /// Blocks in use.
        used: u32,
    },
    /// Content slots have run out: the trie's limit (at most 2^27) or the memory.
    #[error("no slot is left for the trie's contents: {used} are in use")]
    Contents {
        /// Slots in use.
        used: u32,
    },
}

pub(crate) struct Space {
    pub(crate) blocks: Pool,
    pub(crate) contents: Pool,
    limbo: Limbo,
    retired_since_advance: u32,
    retired_in_operation: u32,
}

impl Space {
    pub(crate) fn new(block_limit: u32, content_limit: u32) -> Space {
        Space {
            // Block 0 is not used, so that no pointer is 0.
            blocks: Pool::new(1, block_limit),
            contents: Pool::new(0, content_limit),
            limbo: Limbo::default(),
            retired_since_advance: 0,
            retired_in_operation: 0,
        }
    }

    /// Makes sure that `blocks` blocks and `contents` contents can be taken.
    #[inline]
    pub(crate) fn reserve<C>(
        &mut self,
        shared: &Shared<C>,
        blocks: usize,
        contents: u32,
    ) -> Result<(), TrieFull> {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        if self.blocks.reserve(&shared.blocks, blocks)
            && self.contents.reserve(&shared.contents, contents)
        {
            return Ok(());
        }
        self.reserve_after_freeing(shared, blocks, contents)
    }

    #[cold]
    fn reserve_after_freeing<C>(
        &mut self,
        shared: &Shared<C>,
        blocks: u32,
        contents: u32,
    ) -> Result<(), TrieFull> {
        self.free_retired(shared, u32::MAX);
        if !self.blocks.reserve(&shared.blocks, blocks) {
            return Err(TrieFull::Blocks { used: self.blocks.taken() });
        }
        if !self.contents.reserve(&shared.contents, contents) {
            return Err(TrieFull::Contents { used: self.contents.taken() });
        }
        Ok(())
    }

    /// Puts a content in a slot.
    #[inline]
    pub(crate) fn take_content<C>(&mut self, shared: &Shared<C>, content: C) -> Pointer {
        let index = self.contents.take(&shared.contents);
        let value = ManuallyDrop::new(content);
        // SAFETY: the slot is the writer's alone until its pointer is published.
        unsafe { shared.contents.unit(index).write(ContentSlot { value }) };
        Pointer::leaf(index)
    }

    /// Notes that a block or content has been, or will be before the operation ends, taken out of
    /// the structure. It keeps its bytes until [`Space::settle`].
    #[inline]
    pub(crate) fn retire<C>(&mut self, shared: &Shared<C>, pointer: Pointer) {
        self.limbo.push(shared.epochs.current(), pointer);
        self.retired_in_operation += 1;
    }

    /// Ends an operation: frees what is known to be out of reach.
    #[inline]
    pub(crate) fn settle<C>(&mut self, shared: &Shared<C>) {
        if !self.limbo.is_empty() {
            self.settle_limbo(shared);
        }
    }

    fn settle_limbo<C>(&mut self, shared: &Shared<C>) {
        let retired = std::mem::take(&mut self.retired_in_operation);
        self.retired_since_advance = self.retired_since_advance.saturating_add(retired);
        if !shared.epochs.has_readers() || self.retired_since_advance >= RETIRED_PER_EPOCH {
            self.free_retired(shared, retired.saturating_add(FREED_AT_ONCE));
        }
    }

    /// Frees up to `count` of the units that no reader can reach.
    pub(crate) fn free_retired<C>(&mut self, shared: &Shared<C>, count: u32) {
        let bound = if shared.epochs.has_readers() {
            self.retired_since_advance = 0;
            shared.epochs.advance()
        } else {
            u64::MAX
        };
        for _ in 0..count {
            let Some(pointer) = self.limbo.pop(bound) else { break };
            self.free(shared, pointer);
        }
    }

    /// Drops a content or recycles a block that nobody can reach.
    pub(crate) fn free<C>(&mut self, shared: &Shared<C>, pointer: Pointer) {
        let index = pointer.index();
        match pointer.kind() {
            Kind::Leaf => {}
            Kind::Wide => return self.blocks.give_run(&shared.blocks, index),
            _ => return self.blocks.give(&shared.blocks, index),
        }
        if std::mem::needs_drop::<C>() {
            // SAFETY: retired contents are alive, and nobody can reach this one any more.
            let content = unsafe { ManuallyDrop::take(&mut (*shared.contents.unit(index)).value) };
            // The slot is free before the content is dropped, should that panic.
            self.contents.give(&shared.contents, index);
            drop(content);
        } else {
            self.contents.give(&shared.contents, index);
        }
    }

    /// Takes all units for never used, and the arenas for empty.
    pub(crate) fn forget_units(&mut self) {
        self.blocks = Pool::new(1, 0);
        self.contents = Pool::new(0, 0);
    }

    /// Contents in the structure.
    pub(crate) fn live_contents(&self) -> u32 {
        self.contents.taken() - self.limbo.contents()
    }

    /// Blocks in the structure.
    pub(crate) fn live_blocks(&self) -> u32 {
        self.blocks.taken() - self.limbo.blocks()
    }

    pub(crate) fn used_bytes<C>(&self) -> usize {
        self.live_blocks() as usize * BLOCK_BYTES
            + self.live_contents() as usize * size_of::<ContentSlot<C>>()
    }

    pub(crate) fn retired_bytes<C>(&self) -> usize {
        self.limbo.blocks() as usize * BLOCK_BYTES
            + self.limbo.contents() as usize * size_of::<ContentSlot<C>>()
    }

    pub(crate) fn allocated_bytes<C>(&self) -> usize {
        Arena::<Block>::bytes(self.blocks.capacity())
            + Arena::<ContentSlot<C>>::bytes(self.contents.capacity())
    }

    /// What waits to be freed.
    pub(crate) fn limbo(&self) -> &Limbo {
        &self.limbo
    }
}
