//! The buffer into which a connection receives frames. The bodies of requests share its memory, so
//! the buffer bounds what an idle connection keeps of it.

use bytes::BytesMut;

/// Minimum space for a read, in bytes. A connection with little traffic holds this much.
pub(super) const MIN_READ_BYTES: usize = 4 * 1024;

/// Maximum growth of the buffer for one read, in bytes. The buffer grows by no more than it holds,
/// or by the usual space of a read, so the header of a large frame reserves little.
const MAX_GROWTH: usize = 1024 * 1024;

/// The bytes that have arrived and are not decoded.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffer {
    pub bytes: BytesMut,
    /// An upper bound of the allocation behind `bytes`, in bytes. `bytes.capacity()` does not show
    /// it: the rest behind a frame shares the memory of the whole frame.
    allocated: usize,
}

impl ReceiveBuffer {
    /// Takes the buffer for a read of `read_bytes` or more. The decoder is missing this many bytes.
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
}
