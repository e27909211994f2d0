//! The in-memory trie: byte-comparable keys to contents, in 32-byte blocks.
//!
//! Design: B. Lambov, "Trie Memtables in Cassandra" (PVLDB 15(12), 2022), sections 4 and 5. Nodes are
//! leaf, chain (one to 28 single transitions), sparse (two to six children), split (more), and
//! prefix (a content on one of the others); the type is in the 32-bit pointer. What differs from
//! the paper: contents are typed values in slots of their own; a content's pointer is told by the low
//! bits, so that a trie holds 4 GiB of structure and 2^27 contents; blocks and contents are
//! recycled.
//!
//! **Invariants.** One writer, who has the [`InMemoryTrie`]; any number of [`Reader`]s on any
//! thread, without locks. A content is published by a single store after it and all nodes that lead
//! to it are complete. A reader sees each key either with or without a change, and sees the changes
//! of separate operations one by one; several operations together are not atomic. Nothing that a
//! pinned reader may have found is recycled or mutated.
//!
//! **Memory bound.** [`InMemoryTrie::allocated_bytes`] is all that the structure and the slots take,
//! in chunks of at most 8 MiB (blocks) or 262,144 slots (contents), and equals used + retired + free
//! bytes. Besides it there are the two tables of chunks (8 KiB), 4 bytes for each retired block or
//! content, and a cache line for each reader.

mod arena;
mod branch;
mod build;
mod check;
mod cursor;
mod dismantle;
mod dump;
mod epoch;
mod insert;
mod limbo;
mod node;
mod place;
mod pointer;
mod pool;
mod reader;
mod remove;
mod shared;
mod space;
mod sparse_word;
mod stats;
mod subtrie;
mod trie;
mod view;

pub use branch::Branch;
pub use check::Corruption;
pub use cursor::MemoryCursor;
pub use dismantle::Dismantle;
pub use reader::{Guard, Reader};
pub use space::TrieFull;
pub use stats::Stats;
pub use subtrie::Subtrie;
pub use trie::InMemoryTrie;
