//! The in-memory trie, cursors, merge and slice; the page-packed trie writer and reader.

pub mod page;
