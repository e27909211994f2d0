//! This module defines the numbers of Summary.db. Fields that the JVM holds in native memory order
//! are little-endian; all others are big-endian.

/// Number of bytes before the places.
pub(super) const HEAD_BYTES: usize = 4 + 4 + 8 + 4 + 4;

/// Length of a place in bytes.
pub(super) const PLACE_BYTES: usize = 4;

/// Number of bytes of a sample after its key.
pub(super) const POSITION_BYTES: usize = 8;

/// The sampling level of a summary from which no sample was removed.
pub(super) const FULL_SAMPLING: u32 = 128;

/// Maximum length of places and samples in bytes. Lengths and places are signed in Cassandra.
pub(super) const MAX_SAMPLES_BYTES: usize = i32::MAX as usize;

/// The head of the file, before the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) min_index_interval: u32,
    pub(super) count: u32,
    /// Length of places and samples in bytes.
    pub(super) length: u64,
    pub(super) sampling_level: u32,
    pub(super) count_at_full_sampling: u32,
}

impl Head {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.min_index_interval.to_be_bytes());
        out.extend_from_slice(&self.count.to_be_bytes());
        out.extend_from_slice(&self.length.to_be_bytes());
        out.extend_from_slice(&self.sampling_level.to_be_bytes());
        out.extend_from_slice(&self.count_at_full_sampling.to_be_bytes());
    }
}
