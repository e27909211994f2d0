//! SSTables: data, index, filter, statistics, compression, verification.
//!
//! An SSTable is an immutable set of files that holds partitions in key order. [`SSTableWriter`]
//! writes it and [`SSTableReader`] reads it. The formats are those of Apache Cassandra and
//! ScyllaDB; a row of the table in [`versions`] describes each of them.
//!
//! | module | content |
//! | --- | --- |
//! | [`components`] | file names, identifiers, TOC.txt, Digest.crc32 |
//! | [`versions`] | what a format version decides |
//! | `data` | Data.db: chunks, partitions, rows, cells |
//! | [`index`] | Partitions.db and Rows.db, or Index.db and Summary.db |
//! | [`filter`] | Filter.db |
//! | [`scylla`] | Scylla.db |
//! | [`statistics`] | Statistics.db, the serialization header in it |
//! | `checksums` | Checksums.db |
//! | `secondary_index`, `vector_index` | SecondaryIndex_NAME.db, of values and of vectors |
//! | [`compression`] | CompressionInfo.db and the algorithms |
//! | `page_cache` | pages and chunks in memory |
//! | `writer`, `reader` | an SSTable as a whole |
//! | `opened` | an SSTable in use by a shard, and sets of such SSTables |
//! | [`verify`] | whether the components agree with each other |
//! | [`dump`] | content as text |
//!
//! Files are untrusted. A reader compares a length with the bytes that exist before it uses the
//! length, and compares checksums before it parses content. An error about damaged bytes names
//! file, offset and reason.

mod append_file;
mod checksums;
pub mod components;
pub mod compression;
mod data;
pub mod dump;
mod error;
pub mod filter;
pub mod index;
mod input;
mod opened;
mod page_cache;
mod reader;
pub mod scylla;
mod secondary_index;
pub mod statistics;
mod vector_index;
pub mod verify;
pub mod versions;
mod write_behind;
mod writer;

pub use components::{Component, Descriptor, SSTableId};
pub use data::{
    column_map::ColumnSelection,
    compatible_types::reads_values_of,
    deletion_time::{DeletionScope, UnstorableDeletion, check_deletion},
    read_ahead::WHOLE_READ_AHEAD_BYTES,
    writer::ChunkFormat,
};
pub use error::{FileName, Result, SSTableError};
pub use opened::{BytesOnDisk, Droppable, SSTable, SSTableSet, set_commit_log_facts};
pub use page_cache::{PageCache, PageCacheMetrics, PartMetrics};
pub use reader::{
    Ahead, Caveat, DataReader, IndexedPartition, Inspection, PartitionStream, PointLookup,
    PointScratch, Presence, RawRow, RowBatch, RowBatches, SSTableReader, Scan, ScannedPartition,
    read_statistics,
};
pub use secondary_index::{EntryCursor, IndexRuns, SecondaryIndex, SecondaryIndexWriter};
pub use statistics::{EncodingStats, Statistics, collector::WriterFacts};
pub use vector_index::{
    ChunkedBytes, ChunkedRows, NearestNodes, NearestSearch, Neighbor, Top, VectorIndex,
    VectorIndexWriter, VectorLimits, VectorPoints,
};
pub use writer::{
    PresentColumns, SSTableWriter, StreamWriteError, UniformEnd, WriterOptions, WrittenSSTable,
};
