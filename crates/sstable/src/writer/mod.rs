//! The writer writes an SSTable: partitions in key order, each with its rows and markers in
//! clustering order.
//!
//! When [`SSTableWriter::finish`] returns, all components are durable, unless the options exclude
//! that. TOC.txt, which makes the files an SSTable, becomes durable last. A crash before that
//! leaves TemporaryTOC.txt, which marks the files as garbage. The writer rejects input that is out
//! of order, or that the version cannot hold, before it writes any of it.
//!
//! Memory: a chunk, a row, three pieces of 512 KiB for Data.db, a buffer of 256 KiB for each other
//! file, ten bits of filter for each partition, and four bytes for each page of an index. The BIG
//! index adds the index of one partition's rows, and a key for every 128 partitions.

mod copy;
mod finish;
mod index;
mod options;
mod partition;
mod row;
mod row_index;
mod sstable_writer;
mod uniform;

pub use finish::WrittenSSTable;
pub use options::{PresentColumns, WriterOptions};
pub use sstable_writer::{SSTableWriter, StreamWriteError};
pub use uniform::UniformEnd;
