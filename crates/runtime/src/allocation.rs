//! Counts the allocations of each thread, and prepares the allocator at the first allocation.
//!
//! Nothing is counted before [`count_allocations`] is called. Until then this module adds to an
//! allocation the load of a byte, which does not change after the first allocation, and a branch
//! that is not taken. It adds nothing to a deallocation.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

/// The bits of [`STATE`]. If one is set, an allocation calls `prepare_or_count`.
const IS_FIRST: u8 = 1;
const IS_COUNTED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(IS_FIRST);

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// An allocator that counts the allocations that it passes on. A process has at most one.
#[derive(Debug)]
pub struct Counted<A> {
    allocator: A,
    prepare: fn(),
}

impl<A> Counted<A> {
    /// Wraps an allocator. `prepare` runs once, before the first allocation; it must not allocate.
    pub const fn new(allocator: A, prepare: fn()) -> Self {
        Self { allocator, prepare }
    }

    #[inline(always)]
    fn note(&self) {
        let state = STATE.load(Ordering::Relaxed);
        if state != 0 {
            self.prepare_or_count(state);
        }
    }

    #[cold]
    fn prepare_or_count(&self, state: u8) {
        if state & IS_FIRST != 0 {
            self.prepare_once();
        }
        if state & IS_COUNTED != 0 {
            // A thread that ends may allocate after its variables are gone; such allocations are
            // not counted.
            let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
        }
    }

    fn prepare_once(&self) {
        if STATE.fetch_and(!IS_FIRST, Ordering::Relaxed) & IS_FIRST != 0 {
            (self.prepare)();
        }
    }
}

/// Starts to count, in all threads, for as long as the process lives.
pub fn count_allocations() {
    STATE.fetch_or(IS_COUNTED, Ordering::Relaxed);
}

/// Returns the number of blocks of memory that the calling thread has requested since
/// [`count_allocations`], including reallocations; 0 if the process uses another allocator than
/// [`Counted`].
pub fn thread_allocations() -> u64 {
    ALLOCATIONS.get()
}

// SAFETY: every call goes to the allocator below with unchanged arguments; `note` does not
// allocate (the thread's variable is constant before its first use and has no destructor, and
// `prepare` does not allocate), so it does not call itself, and it does not unwind.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note();
        // SAFETY: the caller's promises are passed on.
        unsafe { self.allocator.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { self.allocator.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.note();
        // SAFETY: the caller's promises are passed on.
        unsafe { self.allocator.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.note();
        // SAFETY: the caller's promises are passed on.
        unsafe { self.allocator.realloc(pointer, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    static PREPARED: AtomicU8 = AtomicU8::new(0);

    fn prepare() {
        PREPARED.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn a_thread_counts_only_its_own_allocations() {
        let allocator = Counted::new(System, prepare);
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
        assert_eq!(PREPARED.load(Ordering::Relaxed), 1);
    }
}
