//! The pool of page buffers: aligned blocks of memory, kept per thread for reuse.
//!
//! A block is freed into the pool of the thread that drops the last reference. Memory bound: at
//! most [`set_pool_limit`] bytes (1 MiB by default) of free blocks per thread; blocks larger than
//! [`POOLED_PAGES`] pages are never kept.

use super::PAGE_BYTES;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Pages of the largest block that is kept: twice the 18 pages of a compressed chunk of 64 KiB that
/// is unaligned at both ends.
const POOLED_PAGES: usize = 36;

static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

/// The head of a block, which all views of it share.
pub(super) struct Block {
    pub(super) references: AtomicUsize,
    pub(super) memory: NonNull<u8>,
    pub(super) capacity: usize,
    /// At least this many bytes from the start are initialised, by any earlier user.
    pub(super) initialised: usize,
}

struct Pool {
    by_pages: [Vec<NonNull<Block>>; POOLED_PAGES + 1],
    bytes: usize,
    limit: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = const {
        RefCell::new(Pool {
            by_pages: [const { Vec::new() }; POOLED_PAGES + 1],
            bytes: 0,
            limit: 1 << 20,
        })
    };
}

/// Returns the bytes of page buffers of all threads, in use or kept for reuse.
pub fn live_page_buffer_bytes() -> u64 {
    LIVE_BYTES.load(Ordering::Relaxed)
}

/// Sets the maximum number of bytes of free page buffers that the calling thread keeps for reuse.
pub fn set_pool_limit(bytes: usize) {
    POOL.with(|pool| pool.borrow_mut().limit = bytes);
}

/// Returns a block of at least `bytes` (rounded up to whole pages) with one reference. The content
/// of its memory is arbitrary.
pub(super) fn take(bytes: usize) -> NonNull<Block> {
    let pages = bytes.div_ceil(PAGE_BYTES).max(1);
    if pages <= POOLED_PAGES
        && let Ok(Some(block)) = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            let block = pool.by_pages[pages].pop()?;
            pool.bytes -= pages * PAGE_BYTES;
            Some(block)
        })
    {
        return block;
    }
    allocate(pages)
}

/// Takes back a block whose last reference is gone (its count is 1 again).
///
/// # Safety
/// `block` came from [`take`], and nothing else refers to it.
pub(super) unsafe fn put_back(block: NonNull<Block>) {
    // SAFETY: the caller has the only reference to the block.
    let capacity = unsafe { block.as_ref().capacity };
    let pages = capacity / PAGE_BYTES;
    let kept = pages <= POOLED_PAGES
        && POOL
            .try_with(|pool| {
                let Ok(mut pool) = pool.try_borrow_mut() else { return false };
                if pool.bytes + capacity > pool.limit {
                    return false;
                }
                pool.bytes += capacity;
                pool.by_pages[pages].push(block);
                true
            })
            .unwrap_or(false);
    if !kept {
        // SAFETY: by the caller's promise; the block is not in the pool.
        unsafe { free(block) };
    }
}

fn layout(pages: usize) -> Layout {
    let size = pages.checked_mul(PAGE_BYTES).filter(|&size| size <= isize::MAX as usize / 2);
    match size.map(|size| Layout::from_size_align(size, PAGE_BYTES)) {
        Some(Ok(layout)) => layout,
        _ => panic!("a page buffer of {pages} pages is beyond any address space"),
    }
}

fn allocate(pages: usize) -> NonNull<Block> {
    let layout = layout(pages);
    // SAFETY: the layout has at least one page.
    let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
    LIVE_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
    let block =
        Block { references: AtomicUsize::new(1), memory, capacity: layout.size(), initialised: 0 };
    NonNull::from(Box::leak(Box::new(block)))
}

/// Frees a block.
///
/// # Safety
/// `block` came from [`allocate`] and nothing else refers to it.
unsafe fn free(block: NonNull<Block>) {
    // SAFETY: `allocate` made it from a box, and the caller gives it up.
    let block = unsafe { Box::from_raw(block.as_ptr()) };
    LIVE_BYTES.fetch_sub(block.capacity as u64, Ordering::Relaxed);
    // SAFETY: allocated with the layout of the same size.
    unsafe { dealloc(block.memory.as_ptr(), layout(block.capacity / PAGE_BYTES)) };
}

impl Drop for Pool {
    fn drop(&mut self) {
        for blocks in &mut self.by_pages {
            for block in blocks.drain(..) {
                // SAFETY: only the pool refers to the blocks that it keeps.
                unsafe { free(block) };
            }
        }
    }
}
