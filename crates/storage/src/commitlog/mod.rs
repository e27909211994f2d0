//! The commit log: every write goes here before it is acknowledged, and comes back from here after a crash.
//!
//! Each shard has a log of its own: preallocated segments, written in runs of records, synced in rounds. A segment is
//! needed until every memtable that holds a write of it is flushed; then its file is recycled or removed. The format is
//! ours (`layout`); the ideas of segments, positions and group commit are Cassandra's and ScyllaDB's.
//!
//! | module | what it knows |
//! | --- | --- |
//! | `layout`, `wire` | the bytes of segments and records |
//! | `encode`, `decode`, `columns` | mutations and column mappings as records |
//! | `log`, `round`, `segment`, `writer`, `allocator` | appending, waiting, files, the two background tasks |
//! | `reader`, `replay` | reading back after a restart |
//! | `intervals`, `settled` | parts of the log whose writes are in SSTables, or in none any more |

mod allocator;
mod columns;
mod configuration;
mod decode;
mod encode;
mod intervals;
mod layout;
mod log;
mod position;
mod reader;
mod replay;
mod round;
mod segment;
mod settled;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

pub use columns::ColumnMapping;
pub use configuration::{CommitLogConfiguration, CommitLogSync, ReplayPolicy};
pub use layout::LogKind;
pub use log::{AppendError, Appended, CommitLog, CommitLogMetrics};
pub use position::LogPosition;
pub use replay::{FoundSegment, FoundSegments, find_segments};
pub use round::CommitTicket;
pub(crate) use round::Round;

pub(crate) use columns::Translation;
pub(crate) use decode::decode_mutation;
pub(crate) use encode::EncodedMutation;
pub(crate) use intervals::{between, joined};
pub(crate) use layout::{KIND_COLUMNS, KIND_MARKER, KIND_MUTATION};
pub(crate) use replay::read_segment;
pub(crate) use settled::{SettledNote, SettledWrites};
pub(crate) use wire::{BodyError, BodyReader, put_bytes, put_values, put_vint};
