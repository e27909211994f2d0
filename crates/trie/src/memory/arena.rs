//! The arena: storage for units of one size, which grows by chunks and never moves, so that
//! lock-free readers find a unit from its index while the writer adds chunks.
//!
//! The first chunk has 128 units. Then each chunk doubles the total, up to 262,144 units (8 MiB of
//! blocks), and from there all chunks have that size. The table of chunks has room for all 2^27
//! indices from the start (4 KiB), so it never moves either. The writer stores an entry, and only
//! then publishes, with release order, the first pointer into the chunk. So readers may load the
//! entry relaxed.
//!
//! Memory bound: the units that were requested, and less than one further chunk.

#![allow(unsafe_code)]

use super::chunk_pool::ChunkPool;
use super::pointer::INDEX_BITS;
use std::alloc::Layout;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

const MIN_BITS: u32 = 7;
const MAX_BITS: u32 = 18;
const SMALL_CHUNKS: u32 = MAX_BITS - MIN_BITS + 1;
const CHUNKS: u32 = SMALL_CHUNKS + (1 << (INDEX_BITS - MAX_BITS)) - 1;

/// Chunks start on a cache line, so that no block lies in two lines.
const CHUNK_ALIGNMENT: usize = 64;

/// The size of a huge page. Chunks of at least this size are aligned to it, so that the system can
/// use huge pages. Look-ups go to random places; with small pages they spent half of their time on
/// translating addresses.
const HUGE_PAGE: usize = 2 << 20;

/// Returns the number of the chunk that holds a unit.
const fn chunk_of(index: u32) -> u32 {
    if index >> MAX_BITS != 0 {
        SMALL_CHUNKS - 1 + (index >> MAX_BITS)
    } else {
        // Setting the lowest bit does not change the logarithm, and avoids the logarithm of zero.
        (index >> (MIN_BITS - 1) | 1).ilog2()
    }
}

/// Returns the index of the first unit in a chunk.
const fn first_of(chunk: u32) -> u32 {
    if chunk == 0 {
        0
    } else if chunk < SMALL_CHUNKS {
        1 << (MIN_BITS + chunk - 1)
    } else {
        (chunk - SMALL_CHUNKS + 1) << MAX_BITS
    }
}

/// Returns the number of units of a chunk.
const fn size_of_chunk(chunk: u32) -> u32 {
    first_of(chunk + 1) - first_of(chunk)
}

/// Returns the layout of a chunk; chunks of at least [`HUGE_PAGE`] bytes are aligned to it.
const fn layout_of<T>(units: u32) -> Layout {
    let size = units as usize * size_of::<T>();
    let alignment = if size < HUGE_PAGE { CHUNK_ALIGNMENT } else { HUGE_PAGE };
    match Layout::from_size_align(size, alignment) {
        Ok(layout) => layout,
        Err(_) => panic!("chunks have at most some megabytes"),
    }
}

/// Allocates memory for a chunk, of undefined content. With huge pages, the first touch of each may
/// take milliseconds.
pub(super) fn allocate(layout: Layout, has_huge_pages: bool) -> Option<NonNull<u8>> {
    assert!(layout.size() != 0);
    // SAFETY: the layout has a size.
    let memory = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
    if has_huge_pages && layout.size() >= HUGE_PAGE {
        advise_huge_pages(memory.as_ptr().cast(), layout.size(), true);
    }
    Some(memory)
}

/// Frees the memory of [`allocate`]. It first withdraws the advice to use huge pages: an allocator
/// may keep the addresses and the advice with them, and the next user of the memory, which did not
/// ask for huge pages, would wait for each at its first touch.
///
/// # Safety
/// The memory was allocated with this layout and is no longer in use.
pub(super) unsafe fn free(memory: *mut u8, layout: Layout) {
    if layout.size() >= HUGE_PAGE {
        advise_huge_pages(memory.cast(), layout.size(), false);
    }
    // SAFETY: the caller's promise.
    unsafe { std::alloc::dealloc(memory, layout) };
}

/// Returns the layout of a chunk of the largest size.
pub(super) const fn largest_chunk<T>() -> Layout {
    layout_of::<T>(1 << MAX_BITS)
}

pub(crate) struct Arena<T> {
    /// For each chunk, the address that unit 0 would have if all units lay side by side around this
    /// chunk.
    chunks: [AtomicPtr<T>; CHUNKS as usize],
    /// The pool of chunks of the largest size.
    spare: Option<Arc<ChunkPool>>,
}

impl<T> Arena<T> {
    pub(crate) const fn new(spare: Option<Arc<ChunkPool>>) -> Arena<T> {
        Arena { chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS as usize], spare }
    }

    /// Returns the address of a unit.
    ///
    /// # Safety
    /// `index` is below the last result of [`Arena::grow`], and the caller knows of it either as
    /// the writer or from a pointer that it loaded with acquire order.
    #[inline(always)]
    pub(crate) unsafe fn unit(&self, index: u32) -> *mut T {
        debug_assert!(index < 1 << INDEX_BITS);
        // SAFETY: an index of 27 bits is in one of the chunks of the table.
        let chunk = unsafe { self.chunks.get_unchecked(chunk_of(index) as usize) };
        // Relaxed is enough, see the module's documentation.
        chunk.load(Ordering::Relaxed).wrapping_add(index as usize)
    }

    fn layout(chunk: u32) -> Layout {
        layout_of::<T>(size_of_chunk(chunk))
    }

    /// Allocates memory for a chunk. If the arena has a chunk pool with a limit above 0, and the
    /// pool has no chunk of this size, the memory from the system gets small pages, so that the
    /// writer waits for none of them for long.
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        match self.spare.as_ref().filter(|spare| spare.has_any()) {
            None => allocate(layout, true),
            Some(spare) => spare.take(layout).or_else(|| allocate(layout, false)),
        }
    }

    /// Adds the chunk that begins at unit `capacity`, the present number of units. Returns the new
    /// number, or `None` if there is no memory.
    ///
    /// # Safety
    /// Only the writer calls this, with 0 or the result of the last call, below 2^27.
    pub(crate) unsafe fn grow(&self, capacity: u32) -> Option<u32> {
        let chunk = chunk_of(capacity);
        debug_assert_eq!(first_of(chunk), capacity);
        let memory = self.allocate(Self::layout(chunk))?.cast::<T>().as_ptr();
        let origin = memory.wrapping_sub(capacity as usize);
        self.chunks[chunk as usize].store(origin, Ordering::Release);
        Some(first_of(chunk + 1))
    }

    /// Frees the chunk that was added last, whatever its content: the caller drops the values,
    /// because it knows which ones are alive. Returns false if there is no chunk.
    pub(crate) fn free_last_chunk(&mut self) -> bool {
        let last =
            (0..CHUNKS).rev().find(|&chunk| !self.chunks[chunk as usize].get_mut().is_null());
        let Some(chunk) = last else { return false };
        let layout = Self::layout(chunk);
        let origin = std::mem::replace(self.chunks[chunk as usize].get_mut(), null_mut());
        let memory = origin.wrapping_add(first_of(chunk) as usize).cast::<u8>();
        if let (Some(spare), Some(memory)) = (&self.spare, NonNull::new(memory)) {
            // SAFETY: `grow` allocated this chunk with the same layout, and it is out of the table.
            if unsafe { spare.give(memory, layout) } {
                return true;
            }
        }
        // SAFETY: as above.
        unsafe { free(memory, layout) };
        true
    }

    /// Returns the bytes of memory of `capacity` units.
    pub(crate) fn bytes(capacity: u32) -> usize {
        capacity as usize * size_of::<T>()
    }
}

/// Asks the system to back memory by huge pages, or not to. The system may decline; nothing depends
/// on it.
fn advise_huge_pages(memory: *mut std::ffi::c_void, size: usize, are_wanted: bool) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        let advice = if are_wanted { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: the range is one allocation, and this advice changes nothing that can be
        // observed.
        let _ = unsafe { madvise(memory, size, advice) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (memory, size, are_wanted);
}

impl<T> Drop for Arena<T> {
    fn drop(&mut self) {
        while self.free_last_chunk() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_indices_in_order() {
        assert_eq!(first_of(CHUNKS), 1 << INDEX_BITS);
        for chunk in 0..CHUNKS {
            let (first, size) = (first_of(chunk), size_of_chunk(chunk));
            assert!((1 << MIN_BITS..=1 << MAX_BITS).contains(&size));
            assert_eq!(chunk_of(first), chunk);
            assert_eq!(chunk_of(first + size - 1), chunk);
        }
    }

    #[test]
    fn units_do_not_overlap_nor_move() {
        let arena = Arena::<[u64; 4]>::new(None);
        let mut capacity = 0;
        while capacity < 3000 {
            // SAFETY: the first call gets 0, and each further call gets the result of the previous
            // one.
            capacity = unsafe { arena.grow(capacity) }.unwrap();
            for index in 0..capacity {
                // SAFETY: the unit is within capacity, and only this thread uses the arena.
                unsafe { arena.unit(index).write([index as u64; 4]) };
            }
        }
        for index in 0..capacity {
            // SAFETY: written above.
            assert_eq!(unsafe { arena.unit(index).read() }, [index as u64; 4]);
        }
    }
}
