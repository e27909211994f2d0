//! What reader and writer agree on; see docs/formats/checksums.md.

/// The first bytes.
pub(super) const MAGIC: [u8; 4] = *b"espc";
/// Version of the format.
pub(super) const VERSION: u32 = 1;
/// Magic, version, number of files.
pub(super) const HEAD_BYTES: usize = 12;
/// The checksum of all that stands before it.
pub(super) const TAIL_BYTES: usize = 4;
/// No more files are believed; there are four.
pub(super) const MAXIMUM_FILES: u32 = 64;
