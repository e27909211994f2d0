//! Prefetches memory that will be needed soon: waiting for cache lines one after the other takes
//! ten times as long as fetching them together.

#![allow(unsafe_code)]

/// Bytes of a cache line on common processors; if lines are longer, some are requested twice.
const LINE_BYTES: usize = 64;

/// Hints to the processor to fetch the cache line of an address. Never faults.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Hints to the processor to fetch the first line of a value.
#[inline(always)]
pub fn prefetch_of<T>(what: &T) {
    prefetch(std::ptr::from_ref(what).cast());
}

/// Hints to the processor to fetch the lines of `bytes` from `start` to `end`. Both may be greater
/// than the length.
#[inline(always)]
pub fn prefetch_range(bytes: &[u8], start: usize, end: usize) {
    let begin = bytes.as_ptr().wrapping_add(start);
    let lead = begin.addr() % LINE_BYTES;
    for line in (0..end.saturating_sub(start) + lead).step_by(LINE_BYTES) {
        prefetch(begin.wrapping_sub(lead).wrapping_add(line));
    }
}
