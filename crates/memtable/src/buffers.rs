//! Buffers of the writes to a memtable.

/// Buffers that are kept between writes, so that an ordinary write allocates nothing but its row.
#[derive(Default)]
pub(super) struct Buffers {
    /// The path that is written to.
    pub(super) path: Vec<u8>,
    /// The values of a clustering that its path does not preserve.
    pub(super) kept: Vec<u8>,
    /// A merged row.
    pub(super) merged: Vec<u8>,
}
