//! Counts how often a thread allocates.
//!
//! Nothing is counted before [`count_allocations`] is called. Until then an allocation costs, over
//! one without this counter, the load of a byte that never changes and a branch that is never
//! taken; a deallocation costs nothing.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_COUNTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// An allocator that counts the allocations that it passes on.
#[derive(Debug)]
pub struct Counted<A>(pub A);

/// Starts to count, in all threads, for as long as the process lives.
pub fn count_allocations() {
    IS_COUNTED.store(true, Ordering::Relaxed);
}

/// Returns how many blocks of memory the calling thread has requested since [`count_allocations`],
/// including reallocations; 0 if the process uses another allocator than [`Counted`].
pub fn thread_allocations() -> u64 {
    ALLOCATIONS.get()
}

#[inline(always)]
fn note() {
    if IS_COUNTED.load(Ordering::Relaxed) {
        count();
    }
}

#[cold]
fn count() {
    // A thread that ends may allocate after its variables are gone; such allocations are not
    // counted.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the allocator below with unchanged arguments; `note` neither allocates
// (the variable is constant before its first use and has no destructor) nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.realloc(pointer, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn a_thread_counts_its_own() {
        let allocator = Counted(System);
        let layout = Layout::from_size_align(64, 8).unwrap();
        let once = || {
            // SAFETY: the size is not 0, and each block is freed with the layout of its allocation.
            unsafe {
                let pointer = allocator.alloc(layout);
                let pointer = allocator.realloc(pointer, layout, 128);
                allocator.dealloc(pointer, Layout::from_size_align(128, 8).unwrap());
            }
        };
        count_allocations();
        let before = thread_allocations();
        once();
        std::thread::scope(|scope| scope.spawn(once).join().unwrap());
        assert_eq!(thread_allocations() - before, 2);
    }
}
