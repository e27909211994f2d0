//! Writes an SSTable: partitions in key order, each with its rows and markers in clustering order.
//!
//! Guaranteed: when [`SSTableWriter::finish`] returns, all components are durable and TOC.txt, which makes them an
//! SSTable, came last. A crash before leaves files without TOC.txt, which are garbage. Input out of order, or that the
//! version cannot hold, is refused before it is written.
//!
//! Memory: a chunk, a row, buffers of 256 KiB for each file, ten bits of filter for each partition, four bytes for each page
//! of an index. With the BIG index besides: the index of one partition's rows, and a key for every 128 partitions.

mod copy;
mod even;
mod finish;
mod index;
mod only_row;
mod options;
mod partition;
mod row_index;
mod sstable_writer;

pub use even::EvenEnd;
pub use finish::WrittenSSTable;
pub use options::{PresentColumns, WriterOptions};
pub use sstable_writer::{SSTableWriter, StreamWriteError};
