//! The buffer into which a connection receives frames. The bodies of requests share its memory, so
//! the buffer bounds what an idle connection and a waiting request keep of it.

use bytes::{Bytes, BytesMut};

/// Minimum space that the buffer reserves for reads, in bytes. A connection with little traffic
/// holds this much.
pub(super) const MIN_READ_BYTES: usize = 4 * 1024;

/// Maximum growth of the buffer for one read, in bytes. The buffer grows by no more than it holds,
/// or by the usual space of a read, so the header of a large frame reserves little.
const MAX_GROWTH: usize = 1024 * 1024;

/// Maximum length, in bytes, of a body that is always copied before its request waits. A larger
/// body that shares a segment of 128 KiB keeps at most four times its length. Arbitrary: the copy
/// takes a few microseconds.
const MAX_COPIED_BODY: usize = 32 * 1024;

/// The bytes that have arrived and are not decoded.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffer {
    pub bytes: BytesMut,
    /// An upper bound of the allocation behind `bytes`, in bytes. `bytes.capacity()` does not show
    /// it: the rest behind a frame shares the memory of the whole frame.
    allocated: usize,
}

impl ReceiveBuffer {
    /// Takes the buffer for a read. If it has little space left, it first grows by `read_bytes` or
    /// more. The decoder lacks `missing` bytes.
    pub fn take_for_read(&mut self, missing: usize, read_bytes: usize) -> BytesMut {
        let mut bytes = std::mem::take(&mut self.bytes);
        if self.allocated > 2 * read_bytes && bytes.len() < self.allocated / 8 {
            // Returns memory that a large frame or a busy time took.
            bytes = BytesMut::from(&bytes[..]);
            self.allocated = 0;
        }
        if bytes.capacity() - bytes.len() < MIN_READ_BYTES / 2 {
            bytes.reserve(missing.min(bytes.len().min(MAX_GROWTH)).max(read_bytes));
        }
        self.allocated = self.allocated.max(bytes.capacity());
        bytes
    }

    /// Returns the body of a request that may wait: a copy, if the body is small or shares much
    /// more memory. A waiting request counts as in flight by the length of its body, but would keep
    /// all memory that arrived with it.
    pub fn alone(&self, body: Bytes) -> Bytes {
        if body.len() <= MAX_COPIED_BODY || body.len() < self.allocated / 4 {
            Bytes::copy_from_slice(&body)
        } else {
            body
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 1 << 20;
    const READ_BYTES: usize = 64 * 1024;

    /// Receives a frame of 1 MiB and `rest` further bytes.
    fn receive_large_frame(rest: usize) -> ReceiveBuffer {
        let mut buffer = ReceiveBuffer::default();
        while buffer.bytes.len() < FRAME + rest {
            let missing = FRAME.saturating_sub(buffer.bytes.len());
            let mut bytes = buffer.take_for_read(missing, READ_BYTES);
            bytes.resize(bytes.capacity().min(FRAME + rest), 0);
            buffer.bytes = bytes;
        }
        buffer
    }

    #[test]
    fn the_memory_of_a_large_frame_is_returned_before_the_next_read() {
        for rest in [0, 5000] {
            let mut buffer = receive_large_frame(rest);
            drop(buffer.bytes.split_to(FRAME));
            let mut bytes = buffer.take_for_read(0, READ_BYTES);
            assert_eq!(bytes.len(), rest);
            assert!(!bytes.try_reclaim(FRAME), "the buffer keeps the memory of the frame");
        }
    }

    #[test]
    fn a_waiting_request_keeps_little_more_than_its_body() {
        for length in [200, 100_000] {
            let mut buffer = receive_large_frame(length);
            let frame = buffer.bytes.split_to(FRAME).freeze();
            let body = buffer.bytes.split_to(length).freeze();
            let body = buffer.alone(body);
            drop(std::mem::take(&mut buffer.bytes));
            assert_eq!(body.len(), length);
            assert!(frame.is_unique(), "the body of {length} bytes shares the memory of the frame");
        }
        // A body that has most of the memory is not copied.
        let mut buffer = receive_large_frame(0);
        let body = buffer.bytes.split_to(FRAME).freeze();
        assert_eq!(buffer.alone(body.clone()).as_ptr(), body.as_ptr());
    }
}
