//! The in-memory trie: byte-comparable keys to contents, in 32-byte blocks.
//!
//! Design: B. Lambov, "Trie Memtables in Cassandra" (PVLDB 15(12), 2022), sections 4 and 5. Nodes are
//! leaf, chain (one to 26 single transitions), sparse (two to six children), array (up to 24 or 48),
//! wide (a place for each byte), and prefix (a content on one of the others); the type is in the
//! 32-bit pointer. What differs from the paper: array and wide nodes, of several blocks side by side,
//! are in place of split nodes, whose three levels of blocks are three accesses to memory one after
//! the other; contents are typed values in blocks of their
//! own (at most 32 bytes), beside the chain that leads to them; a content's pointer is told by the
//! low bits, so that a trie holds 4 GiB; blocks and contents are recycled.
//!
//! **Invariants.** One writer, who has the [`InMemoryTrie`]; any number of [`Reader`]s on any
//! thread, without locks. A content is published by a single store after it and all nodes that lead
//! to it are complete. A reader sees each key either with or without a change, and sees the changes
//! of separate operations one by one, and those of a [`Transaction`] together. Nothing that a
//! pinned reader may have found is recycled or mutated.
//!
//! **Why readers need no locks.** A reader goes from the root by links, each loaded with acquire
//! order and stored with release order after all that it leads to; so whatever it reaches is complete.
//! A node that has been published is changed in these ways only, each one store:
//! 1. a link gets another node or content, or none where a child of an array or wide node goes;
//! 2. an empty place of an array or wide node gets a child; one of a sparse node does, and then its word, which
//!    tells readers so. Places of a sparse node are used once: to lose a child it is copied, as an array node is
//!    to get one.
//!
//! Without readers an array node is changed in place, transitions and all.
//!
//! All other bytes stay until the block is recycled. Some are stale: the head of a chain of which a
//! fork took over the tail, a content's word when the content is gone. To those lead only pointers
//! that are no longer linked.
//!
//! What is taken out is recycled when no reader can come to it: `epoch` shows that those who pinned
//! later do not find the way. Those who were pinned may go on from a retired node to what it points to.
//! That was in the structure when the node was retired, so it was retired at the same time or later,
//! or not at all; it has no lesser epoch than the node, and the pin that keeps the node keeps it.
//! Stale words need the same of their pointers: one that leads to a stale word was unlinked no later
//! than what is in the word.
//!
//! Chunks are added, never moved, and stand in their table before the first pointer into them is
//! published.
//!
//! **Memory bound.** [`InMemoryTrie::allocated_bytes`] is all that structure and contents take, in
//! chunks of at most 8 MiB, and equals used + retired + free bytes. Besides it there are the table
//! of chunks (4 KiB), 4 bytes for each retired block or content, a cache line for each reader,
//! a bit for each block if contents must be dropped, and a transaction's note of the nodes that it
//! has copied (24 bytes each). Chunks may be left to other tries ([`SpareChunks`]).

mod arena;
mod array;
mod atomics;
mod branch;
mod build;
mod check;
mod cursor;
mod dismantle;
mod dump;
mod epoch;
mod insert;
mod limbo;
mod live;
mod look_ahead;
mod node;
mod own_blocks;
mod place;
mod pointer;
mod pool;
mod reader;
mod remove;
mod shared;
mod snapshot;
mod space;
mod spare_chunks;
mod sparse_word;
mod stats;
mod subtrie;
mod transaction;
mod trie;
mod unshare;
mod view;

pub use branch::Branch;
pub use check::Corruption;
pub use cursor::MemoryCursor;
pub use dismantle::Dismantle;
pub use look_ahead::LOOK_AHEAD_KEYS;
pub use reader::{Guard, Reader};
pub use snapshot::Snapshot;
pub use space::TrieFull;
pub use spare_chunks::SpareChunks;
pub use stats::Stats;
pub use subtrie::Subtrie;
pub use transaction::Transaction;
pub use trie::InMemoryTrie;
