//! Page-aligned byte buffers: one owner fills a [`PageBufferMut`], many share the frozen
//! [`PageBuffer`].
//!
//! Invariant: a block has either exactly one [`PageBufferMut`] or any number of [`PageBuffer`]s;
//! the bytes of a buffer are initialised. The count of references is atomic so that a page may
//! become [`bytes::Bytes`] and cross threads; a clone costs one uncontended atomic increment.

use super::PAGE_BYTES;
use super::pool::{self, Block};
use bytes::Bytes;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

/// Immutable shared bytes in page-aligned memory; a view of a whole block or of a part of it.
pub struct PageBuffer {
    block: NonNull<Block>,
    start: usize,
    length: usize,
}

// SAFETY: the bytes are immutable while shared, and the count is atomic.
unsafe impl Send for PageBuffer {}
// SAFETY: as for `Send`.
unsafe impl Sync for PageBuffer {}

impl PageBuffer {
    /// Copies `bytes` into page-aligned memory.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let mut buffer = PageBufferMut::with_capacity(bytes.len());
        buffer.extend_from_slice(bytes);
        buffer.freeze()
    }

    /// Returns a view of a part, which shares the memory. Panics if the range is not inside.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let begin = match range.start_bound() {
            Bound::Included(&begin) => begin,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.length,
        };
        assert!(begin <= end && end <= self.length, "{begin}..{end} of {} bytes", self.length);
        let mut part = self.clone();
        part.start += begin;
        part.length = end - begin;
        part
    }

    /// Converts to [`Bytes`] without copying.
    pub fn into_bytes(self) -> Bytes {
        if self.is_empty() { Bytes::new() } else { Bytes::from_owner(self) }
    }

    /// Returns the bytes of memory that this view keeps alive, for accounting.
    pub fn memory_bytes(&self) -> usize {
        self.block().capacity
    }

    /// Returns whether no other view shares the memory.
    pub fn is_unique(&self) -> bool {
        self.block().references.load(Ordering::Acquire) == 1
    }

    /// Returns the memory, empty, to be filled again; `None` if another view shares it.
    pub fn into_empty(self) -> Option<PageBufferMut> {
        if !self.is_unique() {
            return None;
        }
        // The uses by other threads happened before: `is_unique` has acquired them, and a new view
        // can only be cloned from this one.
        let this = std::mem::ManuallyDrop::new(self);
        Some(PageBufferMut { block: this.block, length: 0 })
    }

    fn block(&self) -> &Block {
        // SAFETY: the block lives as long as a reference to it is counted, and this view is one.
        unsafe { self.block.as_ref() }
    }
}

impl Clone for PageBuffer {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed as in `Arc`: a new reference is made from an existing one.
        self.block().references.fetch_add(1, Ordering::Relaxed);
        PageBuffer { ..*self }
    }
}

impl Drop for PageBuffer {
    #[inline]
    fn drop(&mut self) {
        if self.block().references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // As in `Arc`: the uses by other threads happened before the block is reused.
        fence(Ordering::Acquire);
        self.block().references.store(1, Ordering::Relaxed);
        // SAFETY: the last reference is gone.
        unsafe { pool::put_back(self.block) };
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start + length` is within the initialised bytes of the block, which do not
        // change while they are shared.
        unsafe {
            let memory = self.block.as_ref().memory.as_ptr().add(self.start);
            std::slice::from_raw_parts(memory, self.length)
        }
    }
}

impl AsRef<[u8]> for PageBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::borrow::Borrow<[u8]> for PageBuffer {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl From<PageBuffer> for Bytes {
    fn from(buffer: PageBuffer) -> Bytes {
        buffer.into_bytes()
    }
}

impl fmt::Debug for PageBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageBuffer({} bytes)", self.length)
    }
}

/// Page-aligned memory with a single owner, to be filled.
pub struct PageBufferMut {
    block: NonNull<Block>,
    length: usize,
}

// SAFETY: this is the only owner of its memory.
unsafe impl Send for PageBufferMut {}
// SAFETY: shared access only reads.
unsafe impl Sync for PageBufferMut {}

impl PageBufferMut {
    /// Creates an empty buffer for `bytes` bytes, rounded up to whole pages (at least one).
    pub fn with_capacity(bytes: usize) -> Self {
        PageBufferMut { block: pool::take(bytes), length: 0 }
    }

    /// Creates an empty buffer as [`PageBufferMut::with_capacity`] does, in the memory of `spare`
    /// if that is large enough.
    pub fn reusing(spare: Option<PageBufferMut>, bytes: usize) -> Self {
        match spare {
            Some(mut spare) if spare.capacity() >= bytes => {
                spare.clear();
                spare
            }
            _ => Self::with_capacity(bytes),
        }
    }

    /// Creates a buffer of `length` bytes with arbitrary content: zeroes, or the bytes of the
    /// memory's last user. The caller overwrites all of it through a slice, or cuts off the rest.
    pub fn of_anything(length: usize) -> Self {
        let mut buffer = Self::with_capacity(length);
        let known = buffer.block().initialised;
        if known < length {
            buffer.length = known;
            buffer.resize(length);
            // SAFETY: this buffer alone reaches the block, and no reference to it is held.
            unsafe { buffer.block.as_mut().initialised = length };
        }
        buffer.length = length;
        buffer
    }

    /// Returns the number of bytes that the buffer can hold.
    pub fn capacity(&self) -> usize {
        self.block().capacity
    }

    /// Appends `bytes`. Panics if they do not fit: the capacity is fixed.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let spare = self.spare();
        assert!(bytes.len() <= spare.len(), "{} bytes into {} spare", bytes.len(), spare.len());
        // SAFETY: `spare` is at least as long, and only this buffer reaches it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), spare.as_mut_ptr().cast(), bytes.len());
        }
        self.length += bytes.len();
    }

    /// Sets the length, filling with zeroes. Panics beyond the capacity.
    pub fn resize(&mut self, length: usize) {
        assert!(length <= self.capacity(), "{length} bytes of {}", self.capacity());
        if let Some(grown) = length.checked_sub(self.length) {
            self.spare()[..grown].fill(MaybeUninit::new(0));
        }
        self.length = length;
    }

    /// Fills with zeroes up to the next multiple of [`PAGE_BYTES`].
    pub fn pad_to_page(&mut self) {
        self.resize(self.length.next_multiple_of(PAGE_BYTES));
    }

    /// Removes the bytes but keeps the memory.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Ends the filling and returns the buffer for sharing.
    pub fn freeze(self) -> PageBuffer {
        let this = std::mem::ManuallyDrop::new(self);
        PageBuffer { block: this.block, start: 0, length: this.length }
    }

    /// Returns the memory after the filled bytes.
    pub(super) fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        let block = self.block();
        let (memory, spare) = (block.memory.as_ptr(), block.capacity - self.length);
        // SAFETY: the range is within the block, which only this buffer reaches.
        unsafe { std::slice::from_raw_parts_mut(memory.add(self.length).cast(), spare) }
    }

    /// Sets the length.
    ///
    /// # Safety
    /// The bytes below `length` are initialised, and `length` is not beyond the capacity.
    pub(super) unsafe fn set_length(&mut self, length: usize) {
        debug_assert!(length <= self.capacity());
        self.length = length;
    }

    fn block(&self) -> &Block {
        // SAFETY: the block lives until this, its only owner, is dropped or frozen.
        unsafe { self.block.as_ref() }
    }
}

impl Drop for PageBufferMut {
    fn drop(&mut self) {
        // SAFETY: this was the only owner.
        unsafe { pool::put_back(self.block) };
    }
}

impl Deref for PageBufferMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `length` bytes are initialised.
        unsafe { std::slice::from_raw_parts(self.block().memory.as_ptr(), self.length) }
    }
}

impl DerefMut for PageBufferMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the first `length` bytes are initialised, and there is no other owner.
        unsafe { std::slice::from_raw_parts_mut(self.block().memory.as_ptr(), self.length) }
    }
}

impl fmt::Debug for PageBufferMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageBufferMut({} of {} bytes)", self.length, self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_reused() {
        let first = PageBuffer::copy_from(&[7; 5000]);
        assert_eq!(first.as_ptr() as usize % PAGE_BYTES, 0);
        assert_eq!(first.memory_bytes(), 2 * PAGE_BYTES);
        let at = first.as_ptr();
        drop(first);
        let second = PageBufferMut::with_capacity(8192);
        assert_eq!(second.spare_at(), at);
    }

    impl PageBufferMut {
        fn spare_at(&self) -> *const u8 {
            self.block().memory.as_ptr()
        }
    }

    #[test]
    fn memory_of_anything_is_cleared_once() {
        let mut buffer = PageBufferMut::of_anything(5000);
        assert_eq!((buffer.len(), &buffer[..3]), (5000, &[0; 3][..]));
        let at = buffer.as_ptr();
        buffer.fill(7);
        drop(buffer);
        let again = PageBufferMut::of_anything(6000);
        assert_eq!(again.as_ptr(), at);
        assert!(again[..5000].iter().all(|&byte| byte == 7));
        assert!(again[5000..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn the_memory_of_a_page_buffer_without_other_owners_is_reused() {
        let whole = PageBuffer::copy_from(&[7; 5000]);
        let at = whole.as_ptr();
        let part = whole.slice(4000..);
        assert!(whole.into_empty().is_none());
        let again = part.into_empty().unwrap();
        assert_eq!((again.len(), again.capacity()), (0, 2 * PAGE_BYTES));
        assert_eq!(again.freeze().as_ptr(), at);
    }

    #[test]
    fn parts_share_memory_and_keep_it() {
        let whole = PageBuffer::copy_from(b"espalier");
        let part = whole.slice(2..5);
        assert!(!whole.is_unique());
        drop(whole);
        assert_eq!(&*part, b"pal");
        assert_eq!(&*part.slice(1..), b"al");
        assert!(part.is_unique());
        let bytes = part.into_bytes();
        assert_eq!(std::thread::spawn(move || bytes.to_vec()).join().unwrap(), b"pal");
    }

    #[test]
    fn growing_shows_zeroes_not_old_bytes() {
        drop(PageBuffer::copy_from(&[9; PAGE_BYTES]));
        let mut buffer = PageBufferMut::with_capacity(PAGE_BYTES);
        buffer.extend_from_slice(b"x");
        buffer.pad_to_page();
        assert_eq!(buffer.len(), PAGE_BYTES);
        assert!(buffer[1..].iter().all(|&byte| byte == 0));
        buffer.resize(1);
        buffer.resize(3);
        assert_eq!(&buffer[..], b"x\0\0");
    }

    #[test]
    #[should_panic(expected = "2..9 of 8 bytes")]
    fn parts_outside_are_refused() {
        let _ = PageBuffer::copy_from(b"espalier").slice(2..9);
    }

    #[test]
    fn the_pool_keeps_to_its_limit() {
        std::thread::spawn(|| {
            pool::set_pool_limit(2 * PAGE_BYTES);
            let pages: Vec<_> = (0..8).map(|_| PageBuffer::copy_from(b"p")).collect();
            let ours: Vec<_> = pages.iter().map(|page| page.as_ptr()).collect();
            drop(pages);
            let again: Vec<_> = (0..2).map(|_| PageBufferMut::with_capacity(1)).collect();
            assert!(again.iter().all(|page| ours.contains(&page.spare_at())));
        })
        .join()
        .unwrap();
    }
}
