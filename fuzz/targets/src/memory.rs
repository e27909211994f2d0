//! A counting allocator, so that a run that takes too much memory fails instead of only making the
//! machine slow.
//!
//! The memory of C libraries (zstd) is not counted here; libFuzzer's own limit covers it, under a
//! sanitizer.
#![allow(unsafe_code, reason = "a global allocator needs unsafe code")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with counters.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grow(bytes: usize) {
    let live = LIVE_BYTES.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    PEAK_BYTES.fetch_max(live, Relaxed);
}

fn shrink(bytes: usize) {
    LIVE_BYTES.fetch_sub(bytes, Relaxed);
}

// SAFETY: each call is forwarded to the system's allocator with unchanged arguments; the counters
// do not influence it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller promises what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: as above; the pointer came from the system's allocator, as all pointers do.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `work` and returns by how many bytes the allocated memory grew at its peak.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = LIVE_BYTES.load(Relaxed);
    PEAK_BYTES.store(before, Relaxed);
    work();
    PEAK_BYTES.load(Relaxed).saturating_sub(before)
}
