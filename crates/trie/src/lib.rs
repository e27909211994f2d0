//! Tries: the in-memory trie, the page-packed trie's writer and readers, and the cursors that walk,
//! merge and slice them.
//!
//! - [`memory`]: the trie of memtables, in 32-byte blocks, with one writer and lock-free readers;
//! - [`page`]: the trie of files, in 4 KiB pages;
//! - [`prefetch`]: hints to the processor to fetch memory before it is needed;
//! - [`cursor`]: the walk over a trie, and the cursors over other cursors: union, slice, entries.
//!
//! Keys are byte-comparable: their order is the order of their bytes, unsigned. The design of
//! [`memory`] and [`cursor`] follows B. Lambov, "Trie Memtables in Cassandra" (PVLDB 15(12), 2022).
//! Comments call it "the paper" and cite its sections. Each module says where it differs from the
//! paper.

pub mod cursor;
pub mod memory;
pub mod page;
pub mod prefetch;
