//! The global allocator (mimalloc). Its memory comes from [`espalier_runtime::heap`], which touches
//! huge pages before they are needed.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use espalier_runtime::{allocation::Counted, heap};

/// Shards make and drop many small objects on the same core, for which mimalloc is good. `bench`
/// counts the allocations.
#[global_allocator]
static ALLOCATOR: Counted<mimalloc::MiMalloc> = Counted(mimalloc::MiMalloc);

/// Size of the parts in which the allocator gets its memory. The allocator keeps its records of a
/// part, 2 MiB for each GiB, in at most 32 MiB.
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
}

/// Returns free memory to the system at once, which otherwise happens bit by bit during use. A
/// benchmark calls it before it measures.
pub(crate) fn return_unused() {
    // SAFETY: may be called anywhere.
    unsafe { mi_collect(true) };
}

/// Runs before `main`: the allocator uses the memory that it is given first, and by `main` it would
/// have taken memory of its own.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = give_memory;

/// Counts the parts that the allocator did not take.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn give_memory() {
    let Some(memory) = heap::reserve() else { return };
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
    heap::record_allocators_own();
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
        heap::take(start, size);
        if !is_zero.is_null() {
            // SAFETY: the pointer is the allocator's variable for this result. `false` is always
            // allowed; the allocator itself knows which memory was never used.
            unsafe { is_zero.write(false) };
        }
    } else {
        // SAFETY: the allocator calls this again before it uses the memory.
        unsafe { heap::leave(start, size) };
    }
    true
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn objects_are_where_we_gave_memory() {
        assert!(
            espalier_runtime::heap::reserve().is_none(),
            "the memory must be reserved before main"
        );
        let object = Box::new([7u8; 100]);
        assert!(espalier_runtime::heap::has(object.as_ptr()));
        let large = vec![1u8; 5 << 20];
        assert!(espalier_runtime::heap::has(large.as_ptr()));
        assert_eq!(super::REFUSED.load(super::Ordering::Relaxed), 0, "parts refused");
    }
}
