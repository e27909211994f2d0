//! The allocator, and where it gets its memory from: huge pages that are there before they are needed, see [`espalier_runtime::heap`].

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use espalier_runtime::{allocation::Counted, heap};

/// Many small objects are made and dropped on the same core, which mimalloc does well. `bench` counts them.
#[global_allocator]
static ALLOCATOR: Counted<mimalloc::MiMalloc> = Counted(mimalloc::MiMalloc);

/// Parts in which memory is given to the allocator: what it notes about each must fit into 32 MiB, two for each GiB.
const PART_BYTES: usize = 14 << 30;

/// Makes memory usable, or tells that it is not used any more. Called in the middle of an allocation, so it must not allocate.
type Commit = extern "C" fn(bool, *mut c_void, usize, *mut bool, *mut c_void) -> bool;

unsafe extern "C" {
    /// Of mimalloc 3, which the binding has compiled in without telling of it (`mimalloc.h`).
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

    /// The same.
    fn mi_collect(is_forced: bool);
}

/// Gives back now what is free and would go bit by bit while memory is used: for those who measure what comes next.
pub(crate) fn return_unused() {
    // SAFETY: may be called anywhere.
    unsafe { mi_collect(true) };
}

/// Runs before `main`, since the allocator takes what it is given first, and would have got memory of its own by then.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = give_memory;

/// Parts that the allocator did not take.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn give_memory() {
    let Some(memory) = heap::reserve() else { return };
    for offset in (0..memory.len()).step_by(PART_BYTES) {
        let size = PART_BYTES.min(memory.len() - offset);
        let start = memory.cast::<u8>().as_ptr().wrapping_add(offset).cast::<c_void>();
        // SAFETY: it was mapped for this, is zero, and stays for as long as the process. If the allocator does not take it, it gets what it needs by itself.
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
    heap::note_allocators_own();
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
            // SAFETY: the allocator's variable for this. It knows by itself what was never used.
            unsafe { is_zero.write(false) };
        }
    } else {
        // SAFETY: the allocator does not use it before it has called this again.
        unsafe { heap::leave(start, size) };
    }
    true
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn objects_are_where_we_gave_memory() {
        assert!(espalier_runtime::heap::reserve().is_none(), "it was reserved before main");
        let object = Box::new([7u8; 100]);
        assert!(espalier_runtime::heap::has(object.as_ptr()));
        let large = vec![1u8; 5 << 20];
        assert!(espalier_runtime::heap::has(large.as_ptr()));
        assert_eq!(super::REFUSED.load(super::Ordering::Relaxed), 0, "all parts are taken");
    }
}
