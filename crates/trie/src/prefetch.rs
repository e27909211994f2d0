//! Memory that will be needed soon is asked for at once: lines that are waited for one after the other take ten times as long.

#![allow(unsafe_code)]

/// Bytes of a cache line of the processors that matter; with longer ones some lines are asked for twice.
const LINE_BYTES: usize = 64;

/// Asks the processor to fetch the cache line of an address. Never faults.
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

/// Asks the processor for the first line of something.
#[inline(always)]
pub fn prefetch_of<T>(what: &T) {
    prefetch(std::ptr::from_ref(what).cast());
}

/// Asks the processor for the lines of `bytes` from `start` to `end`, which may lie behind them.
#[inline(always)]
pub fn prefetch_range(bytes: &[u8], start: usize, end: usize) {
    let begin = bytes.as_ptr().wrapping_add(start);
    let lead = begin.addr() % LINE_BYTES;
    for line in (0..end.saturating_sub(start) + lead).step_by(LINE_BYTES) {
        prefetch(begin.wrapping_sub(lead).wrapping_add(line));
    }
}
