//! The commit log stores every write before it is acknowledged; the replay restores the writes from
//! it after a crash.
//!
//! Each shard has its own log. A log is a sequence of preallocated segments. Appended records
//! gather in write buffers, and one sync makes a batch of them durable. A segment is needed until
//! every memtable that holds a write of it is flushed; then its file is recycled or removed.
//!
//! Lineage: the format is Espalier's own (`layout`, docs/formats/commit-log.md). Segments,
//! positions and group commit follow Cassandra and ScyllaDB.
//!
//! | module | contents |
//! | --- | --- |
//! | `layout`, `wire` | byte formats of segments and records |
//! | `encode`, `decode`, `columns` | records of mutations and column mappings |
//! | `log`, `sync_batch`, `segment` | append path, tickets, files |
//! | `writer`, `allocator` | the two background tasks |
//! | `reader`, `replay` | replay after a restart |
//! | `intervals`, `discarded` | intervals that SSTables hold or compactions purged |

mod allocator;
mod barrier;
mod columns;
mod configuration;
mod decode;
mod discarded;
mod encode;
mod intervals;
mod layout;
mod log;
mod position;
mod reader;
mod replay;
mod segment;
mod sync_batch;
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
pub use sync_batch::CommitTicket;
pub(crate) use sync_batch::SyncBatch;

pub(crate) use columns::Translation;
pub(crate) use decode::decode_mutation;
pub(crate) use discarded::{DiscardedIntervals, DiscardedIntervalsFile};
pub(crate) use encode::EncodedMutation;
pub(crate) use intervals::{between, joined};
pub(crate) use layout::{KIND_COLUMNS, KIND_MARKER, KIND_MUTATION};
pub(crate) use replay::read_segment;
pub(crate) use wire::{BodyError, BodyReader, put_bytes, put_values, put_vint};
