//! The in-memory trie, cursors, merge and slice; the page-packed trie writer and reader.
//!
//! * [`memory`]: the trie of memtables, in 32-byte blocks, with one writer and lock-free readers;
//! * [`page`]: the trie of files, in 4 KiB pages;
//! * [`prefetch`]: memory asked for before it is needed;
//! * [`cursor`]: how a trie is walked, and the walks over walks: union, slice, entries.
//!
//! Keys are byte-comparable: their order is the order of their bytes, unsigned. The design of the
//! first and the last follows B. Lambov, "Trie Memtables in Cassandra" (PVLDB 15(12), 2022), of which
//! the sections are cited where they apply; where we differ, the module says so.

pub mod cursor;
pub mod memory;
pub mod page;
pub mod prefetch;
