//! The global allocator (mimalloc). Its memory comes from [`super`], which touches huge pages
//! before they are needed.

use std::ffi::{c_int, c_long, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use mimalloc::MiMalloc;

use super::{leave, record_allocators_own, reserve, take};
use crate::allocation::Counted;

/// The allocator of a program that serves or measures: its `#[global_allocator]`.
pub type Allocator = Counted<MiMalloc>;

/// Creates the allocator. Its first allocation reserves the area, because mimalloc maps memory of
/// its own if it gets none before.
///
/// mimalloc suits shards, which make and drop many small objects on the same core.
pub const fn allocator() -> Allocator {
    Counted::new(MiMalloc, give_memory)
}

/// Size of the parts in which the allocator gets its memory. It is limited because the allocator's
/// records of a part, 2 MiB for each GiB, may take at most 32 MiB.
const PART_BYTES: usize = 14 << 30;

/// Commits memory before use, or decommits it. The allocator calls it in the middle of an
/// allocation, so it must not allocate.
type Commit = extern "C" fn(bool, *mut c_void, usize, *mut bool, *mut c_void) -> bool;

unsafe extern "C" {
    /// A function of mimalloc 3 that the binding links but does not declare (`mimalloc.h`).
    fn mi_manage_memory(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
        is_exclusive: bool,
        commit: Commit,
        commit_argument: *mut c_void,
        arena_id: *mut *mut c_void,
    ) -> bool;

    /// A function of mimalloc 3 that the binding links but does not declare.
    fn mi_collect(is_forced: bool);

    /// A function of mimalloc 3 that the binding links but does not declare.
    fn mi_option_set(option: c_int, value: c_long);
}

/// The numbers of mimalloc's options `mi_option_purge_delay` and `mi_option_allow_thp`.
const PURGE_DELAY: c_int = 15;
const ALLOW_THP: c_int = 43;
/// The time in milliseconds after which other threads return free memory to the system, if the
/// second thread of [`super::fill_ahead`] has not done so (arbitrary).
const PURGE_DELAY_OF_OTHERS_MS: c_long = 60_000;

/// Returns free memory to the system at once, on the calling thread. The second thread of
/// [`super::fill_ahead`] calls it at intervals, and a benchmark before it measures. Does nothing if
/// the process has another allocator than [`allocator`].
pub fn return_unused() {
    // SAFETY: may be called anywhere.
    unsafe { mi_collect(true) };
}

/// Prepares the allocator for the threads of [`super::fill_ahead`].
///
/// - Threads that free memory leave its return to the thread that calls [`return_unused`].
///   Otherwise an arbitrary thread returns all memory that was freed within a second in one step.
/// - The allocator maps memory itself for objects of large alignment, such as the chunks of tries.
///   It does not ask for huge pages there. Otherwise the first touch of such a page holds the core
///   for milliseconds.
///
/// It has to run after the allocator's own start. If the allocator found huge pages turned off at
/// its start, it would forbid all huge pages of the process.
pub(super) fn prepare_for_threads() {
    // SAFETY: sets variables of the allocator, of a word each. A thread that reads them meanwhile
    // has the old value or the new one; both are valid.
    unsafe {
        mi_option_set(PURGE_DELAY, PURGE_DELAY_OF_OTHERS_MS);
        mi_option_set(ALLOW_THP, 0);
    }
}

/// Counts the parts that the allocator did not take.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of parts of the reserved area that the allocator refused. No huge pages are
/// prepared in these parts.
pub fn refused_parts() -> usize {
    REFUSED.load(Ordering::Relaxed)
}

/// Gives the allocator its memory. Does not allocate.
fn give_memory() {
    let Some(memory) = reserve() else { return };
    for offset in (0..memory.len()).step_by(PART_BYTES) {
        let size = PART_BYTES.min(memory.len() - offset);
        let start = memory.cast::<u8>().as_ptr().wrapping_add(offset).cast::<c_void>();
        // SAFETY: the range was reserved for this, is zero, and stays for the life of the process.
        // If the allocator refuses it, the allocator maps memory itself.
        let is_taken = unsafe {
            mi_manage_memory(
                start,
                size,
                false,
                false,
                true,
                -1,
                false,
                commit,
                null_mut(),
                null_mut(),
            )
        };
        REFUSED.fetch_add(usize::from(!is_taken), Ordering::Relaxed);
    }
    record_allocators_own();
}

extern "C" fn commit(
    is_used: bool,
    start: *mut c_void,
    size: usize,
    is_zero: *mut bool,
    _: *mut c_void,
) -> bool {
    let Some(start) = NonNull::new(start.cast::<u8>()) else { return false };
    if is_used {
        take(start, size);
        if !is_zero.is_null() {
            // SAFETY: the pointer is the allocator's variable for this result. `false` is always
            // allowed; the allocator itself knows which memory was never used.
            unsafe { is_zero.write(false) };
        }
    } else {
        // SAFETY: the allocator calls this again before it uses the memory.
        unsafe { leave(start, size) };
    }
    true
}
