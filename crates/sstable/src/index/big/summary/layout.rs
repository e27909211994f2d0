//! Numbers of Summary.db. What stands in native order in memory of the JVM is little-endian, all else big-endian.

/// Bytes before the places.
pub(super) const HEAD_BYTES: usize = 4 + 4 + 8 + 4 + 4;

/// Bytes of a place.
pub(super) const PLACE_BYTES: usize = 4;

/// Bytes of a sample behind its key.
pub(super) const POSITION_BYTES: usize = 8;

/// The level at which no sample was taken away.
pub(super) const FULL_SAMPLING: u32 = 128;

/// Lengths and places are signed in Cassandra.
pub(super) const MAXIMUM_SAMPLES_BYTES: usize = i32::MAX as usize;

/// What stands before the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) min_index_interval: u32,
    pub(super) count: u32,
    /// Bytes of places and samples.
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
