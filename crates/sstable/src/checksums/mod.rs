//! Checksums.db: checksums of the components that have none of their own.
//!
//! Of the files of an SSTable, Data.db and Statistics.db carry checksums; the tries, the filter and the table of chunks do
//! not, in no version. A flipped bit in Partitions.db is a partition that is silently not found. So Espalier writes one
//! more component: a checksum for each page of those files, compared when the page is read, before it is believed.
//! Cassandra and ScyllaDB carry components that they do not know and delete them with their set. Files that come without
//! it are read as far as their structure can be checked. The format is in docs/formats/checksums.md.
//!
//! Memory of a reader: four bytes for each page of 4 KiB.

mod layout;
mod pages;
mod reader;
mod writer;

pub(crate) use pages::{PageChecksums, check_page, combine};
pub(crate) use reader::{Checksums, FileChecksums};
pub(crate) use writer::format_checksums;
