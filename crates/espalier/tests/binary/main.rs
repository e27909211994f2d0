//! Tests of the `espalier` binary as a user starts it. Each file tests one behaviour; one program
//! has all of them. `decisions`, `layers` and `tidy` test the source tree.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

mod bad_arguments;
mod bench_index_formats;
mod bench_memtable;
mod bench_simple_query;
mod decisions;
mod layers;
mod sstable_arguments;
mod sstable_dump;
mod sstable_lost_parts;
mod sstable_messages;
mod sstable_reports;
mod sstable_tools;
mod sstable_write;
mod start_and_stop;
mod support;
mod tidy;
