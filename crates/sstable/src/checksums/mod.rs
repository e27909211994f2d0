//! Checksums.db contains checksums of the components that have none of their own.
//!
//! Data.db and, in newer versions, Statistics.db carry checksums. The indexes, the filter and the
//! table of chunks carry none in any version, so a flipped bit in Partitions.db would silently hide
//! a partition. Espalier therefore writes one more component, which has a checksum for each page of
//! the files without checksums. The reader verifies each page that it reads from the disk, before
//! it uses the page's content. Cassandra and ScyllaDB copy components that they do not know, and
//! delete them with their SSTable. Without Checksums.db, a reader checks only the structure of
//! these files, and compares the index with Data.db. Format: docs/formats/checksums.md.
//!
//! Memory of a reader: four bytes for each page of 4 KiB.

mod layout;
mod pages;
mod reader;
mod writer;

pub(crate) use pages::{PageChecksums, check_page, combine};
pub(crate) use reader::{Checksums, FileChecksums};
pub(crate) use writer::format_checksums;
