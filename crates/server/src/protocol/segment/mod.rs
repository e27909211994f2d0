//! Segments, the outer frame of version 5. A segment carries whole envelopes (self-contained) or a
//! part of one large envelope, at most 128 KiB, guarded by two checksums. Compression is a property
//! of the connection, decided in STARTUP.

mod layout;
mod reader;
mod writer;

pub use layout::MAX_PAYLOAD;
pub(super) use reader::SegmentReader;
pub(super) use writer::{open, seal};
