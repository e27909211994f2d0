//! Segments, the outer frame of version 5. A segment carries whole envelopes (self-contained) or a
//! part of one large envelope, at most 128 KiB, guarded by two checksums. Compression is a property
//! of the connection, decided in STARTUP.
//!
//! Cassandra's nodes speak to each other in the same frames, so the crate `internode` uses this
//! module.

mod layout;
mod reader;
mod writer;

pub use super::checksum::crc32;
pub use layout::MAX_PAYLOAD;
pub use reader::{Segment, SegmentReader};
pub(super) use writer::append;
pub use writer::{open, seal};
