//! This module defines the numbers of Checksums.db; see docs/formats/checksums.md.

/// The first bytes of the file.
pub(super) const MAGIC: [u8; 4] = *b"espc";
/// Version of the format.
pub(super) const VERSION: u32 = 1;
/// Length of the head in bytes: magic, version, number of files.
pub(super) const HEAD_BYTES: usize = 12;
/// Length of the tail in bytes: the checksum of all bytes before it.
pub(super) const TAIL_BYTES: usize = 4;
/// Maximum number of files. Espalier writes at most five, and one for each secondary index.
pub(super) const MAX_FILES: u32 = 4096;
