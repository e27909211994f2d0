//! The buffers that the kernel may read or fill, and their adapters for compio.

use super::page_buffer::{PageBuffer, PageBufferMut};
use bytes::{Bytes, BytesMut};
use compio::buf::{IoBuf, IoBufMut, IoVectoredBuf, SetLen};
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes that the kernel may read during an operation.
///
/// # Safety
/// The slice stays at the same address and does not change while the value is owned, even when the
/// value itself is moved.
pub unsafe trait IoBytes: 'static {
    /// Returns the bytes to write or send.
    fn io_bytes(&self) -> &[u8];
}

macro_rules! stable_on_the_heap {
    ($($type:ty),+) => {$(
        // SAFETY: the bytes are on the heap or static; moving the value does not move them, and
        // ownership keeps other code from changing them.
        unsafe impl IoBytes for $type {
            fn io_bytes(&self) -> &[u8] {
                self
            }
        }
    )+};
}

stable_on_the_heap!(
    Vec<u8>,
    Bytes,
    BytesMut,
    Box<[u8]>,
    Rc<[u8]>,
    Arc<[u8]>,
    PageBuffer,
    PageBufferMut,
    &'static [u8]
);

/// A buffer to be written, without its first `from` bytes.
pub(crate) struct Sending<B> {
    pub(crate) buffer: B,
    pub(crate) from: usize,
}

impl<B: IoBytes> IoBuf for Sending<B> {
    fn as_init(&self) -> &[u8] {
        self.buffer.io_bytes().get(self.from..).unwrap_or_default()
    }
}

/// Several buffers to be written together, without the bytes already written.
pub(crate) struct SendingVectored<B> {
    pub(crate) buffers: Vec<B>,
    /// The index of the first buffer that is not written whole; its first `from` bytes are written.
    pub(crate) next: usize,
    pub(crate) from: usize,
}

/// Maximum number of buffers that the kernel takes at once (`IOV_MAX`).
const MAX_VECTORS: usize = 1024;

impl<B: IoBytes> SendingVectored<B> {
    pub(crate) fn new(buffers: Vec<B>) -> Self {
        SendingVectored { buffers, next: 0, from: 0 }
    }

    /// Counts `sent` more bytes as written; returns true if nothing is left.
    pub(crate) fn advance(&mut self, sent: usize) -> bool {
        self.from += sent;
        while let Some(buffer) = self.buffers.get(self.next) {
            let length = buffer.io_bytes().len();
            if self.from < length {
                return false;
            }
            self.from -= length;
            self.next += 1;
        }
        true
    }
}

impl<B: IoBytes> IoVectoredBuf for SendingVectored<B> {
    fn iter_slice(&self) -> impl Iterator<Item = &[u8]> {
        let from = self.from;
        let rest = self.buffers.get(self.next..).unwrap_or_default();
        rest.iter().take(MAX_VECTORS).enumerate().map(move |(index, buffer)| {
            let bytes = buffer.io_bytes();
            if index == 0 { bytes.get(from..).unwrap_or_default() } else { bytes }
        })
    }
}

/// A buffer to be filled after the `base` bytes that it holds, by at most `limit` bytes.
pub(crate) struct Filling<B> {
    pub(crate) buffer: B,
    pub(crate) base: usize,
    pub(crate) limit: usize,
}

impl IoBuf for Filling<PageBufferMut> {
    fn as_init(&self) -> &[u8] {
        &self.buffer[self.base..]
    }
}

impl SetLen for Filling<PageBufferMut> {
    unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: the caller has initialised `len` bytes after `base`.
        unsafe { self.buffer.set_length(self.base + len) };
    }
}

impl IoBufMut for Filling<PageBufferMut> {
    fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        // The buffer's length is `base` until the operation is done, so the spare part begins
        // there.
        debug_assert_eq!(self.buffer.len(), self.base);
        let limit = self.limit;
        let spare = self.buffer.spare();
        let end = limit.min(spare.len());
        &mut spare[..end]
    }
}

impl IoBuf for Filling<BytesMut> {
    fn as_init(&self) -> &[u8] {
        &self.buffer[self.base..]
    }
}

impl SetLen for Filling<BytesMut> {
    unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: the caller has initialised `len` bytes after `base`.
        unsafe { self.buffer.set_len(self.base + len) };
    }
}

impl IoBufMut for Filling<BytesMut> {
    fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        debug_assert_eq!(self.buffer.len(), self.base);
        let limit = self.limit;
        let spare = self.buffer.spare_capacity_mut();
        let end = limit.min(spare.len());
        &mut spare[..end]
    }
}
