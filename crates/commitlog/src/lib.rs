//! The commit log stores writes on disk until a flush has stored them; after a crash, the replay
//! reads them from the log.
//!
//! Each shard has its own log. A log is a sequence of preallocated segments. Appended records
//! gather in write buffers, and one sync makes a batch of them durable. A segment is needed until
//! every memtable with writes of this segment is flushed; then its file is recycled or removed.
//!
//! Invariants: A ticket resolves with success only if its record is durable; under periodic sync,
//! it resolves at once. Positions of one log grow with time. A segment receives bytes only after
//! its predecessor's last record is durable or has failed.
//!
//! The crate does not depend on memtables: its user reports the oldest segment with unflushed
//! writes ([`CommitLog::reclaim`]), and applies the mutations of a replay.
//!
//! Memory of a log: 8 MiB of records that gather and 8 MiB that the writer writes, two buffers of
//! up to 4 MiB for reuse, and one waker for each waiting write. A replay has a window of 256 KiB,
//! or of one larger record, for the segment that it reads. Before, it gathers up to 4 MiB and one
//! record of each segment that it makes durable.
//!
//! Lineage: the format is Espalier's own (`layout`, docs/formats/commit-log.md). Segments,
//! positions and group commit follow Cassandra and ScyllaDB.
//!
//! | module | contents |
//! | --- | --- |
//! | `layout` | byte format of segments; the parts of records are in `mutation` |
//! | `encode`, `decode`, `columns` | records of mutations and column mappings |
//! | `log`, `state`, `sync_batch`, `segment` | append path, shared state, tickets, files |
//! | `writer`, `allocator` | the two background tasks |
//! | `reader`, `replay` | replay after a restart |
//! | `intervals`, `discarded` | intervals that SSTables hold or compactions purged |
//! | [`checked_text`] | small text files with a checksum |

mod allocator;
mod barrier;
pub mod checked_text;
mod columns;
mod configuration;
mod decode;
mod discarded;
mod encode;
mod error;
mod intervals;
mod layout;
mod log;
mod reader;
mod replay;
mod segment;
mod state;
mod sync_batch;
#[cfg(test)]
mod tests;
mod writer;

pub use columns::{ColumnMapping, Translation};
pub use configuration::{CommitLogConfiguration, CommitLogSync, ReplayPolicy};
pub use decode::decode_mutation;
pub use discarded::{DiscardedIntervals, DiscardedIntervalsFile};
pub use encode::EncodedMutation;
pub use error::CommitLogError;
pub use intervals::between;
pub use layout::{KIND_COLUMNS, KIND_MARKER, KIND_MUTATION, LogKind};
pub use log::{AppendError, Appended, CommitLog, CommitLogMetrics};
pub use replay::{
    FoundSegment, FoundSegments, copy_for_tables, find_segments, make_durable, read_segment,
};
pub use sync_batch::{CommitTicket, SyncBatch};
