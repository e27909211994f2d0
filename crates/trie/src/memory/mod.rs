//! The in-memory trie: byte-comparable keys to contents, in 32-byte blocks.
//!
//! Design: B. Lambov, "Trie Memtables in Cassandra" (PVLDB 15(12), 2022), sections 4 and 5. Nodes
//! are leaf, chain (one to 26 single transitions), sparse (two to six children), array (up to 24 or
//! 48), wide (a place for each byte), and prefix (a content on one of the others); the type is in
//! the 32-bit pointer. Differences from the paper:
//! - Array and wide nodes, of several blocks side by side, replace split nodes, whose three levels
//!   of blocks are three accesses to memory one after the other.
//! - Contents are typed values in blocks of their own (at most 32 bytes), next to the chain that
//!   leads to them.
//! - The low bits mark the pointer to a content, so that a trie holds 4 GiB.
//! - Blocks and contents are recycled.
//!
//! **Invariants.** One writer, which owns the [`InMemoryTrie`]; any number of [`Reader`]s on any
//! thread, without locks. A content is published by a single store after it and all nodes that lead
//! to it are complete. A reader sees each key either with or without a change, and sees the changes
//! of separate operations one by one, and those of a [`Transaction`] together. Nothing that a
//! pinned reader may have found is recycled or mutated.
//!
//! **Why readers need no locks.** A reader goes from the root by links, each loaded with acquire
//! order and stored with release order after everything to which it leads; so whatever the reader
//! reaches is complete. A published node is changed in these ways only, each of which becomes
//! visible by one store:
//! 1. A link gets another node or content. The root becomes empty if all keys are removed, and a
//!    link of an array or wide node if its child is removed.
//! 2. An empty place of an array or wide node gets a child. A place of a sparse node gets a child,
//!    and then the node's word changes, which makes the child visible to readers. Places of a
//!    sparse node are used once, so the writer copies the node to remove a child. While there are
//!    readers, it also copies an array node to add a transition.
//!
//! Without readers an array node is changed in place, transitions included.
//!
//! All other bytes stay until the block is recycled. Some are stale: the head of a chain whose tail
//! a fork has taken over, a content's word after the content is removed. Only pointers that are no
//! longer linked lead to them.
//!
//! A removed unit (block or content) is recycled when no reader can reach it; `epoch` explains why
//! a reader that pins later does not find the unit. A reader that was pinned may continue from a
//! retired node to the units to which the node points. Such a unit was in the structure when the
//! node was retired, so it was retired at the same time or later, or not at all. So its epoch is
//! not before the node's epoch, and the pin that keeps the node also keeps the unit. Stale words
//! are safe for the same reason: every pointer to a stale word was unlinked no later than the unit
//! to which the word points.
//!
//! Chunks are added, never moved, and stand in their table before the first pointer into them is
//! published.
//!
//! **Memory bound.** [`InMemoryTrie::allocated_bytes`] is everything that structure and contents
//! take, in chunks of at most 8 MiB, and equals used + retired + free bytes. Besides it there are
//! the table of chunks (4 KiB), 4 bytes for each retired block or content and up to 1 KiB for each
//! of their epochs, a cache line for each reader, a bit for each block if contents must be dropped,
//! and a transaction's record of the nodes that it has copied (24 bytes each). Chunks may be left
//! to other tries ([`ChunkPool`]).

mod arena;
mod array;
mod atomics;
mod branch;
mod build;
mod check;
mod chunk_pool;
mod copy_on_write;
mod cursor;
mod dump;
mod epoch;
mod incremental_drop;
mod insert;
mod live;
mod look_ahead;
mod node;
mod own_blocks;
mod place;
mod pointer;
mod pool;
mod reader;
mod remove;
mod retired;
mod shared;
mod snapshot;
mod space;
mod sparse_word;
mod stats;
mod subtrie;
mod transaction;
mod trie;
mod view;

pub use branch::Branch;
pub use check::Corruption;
pub use chunk_pool::ChunkPool;
pub use cursor::MemoryCursor;
pub use incremental_drop::IncrementalDrop;
pub use look_ahead::LOOK_AHEAD_KEYS;
pub use reader::{Guard, Reader};
pub use snapshot::Snapshot;
pub use space::TrieFull;
pub use stats::Stats;
pub use subtrie::Subtrie;
pub use transaction::Transaction;
pub use trie::InMemoryTrie;
