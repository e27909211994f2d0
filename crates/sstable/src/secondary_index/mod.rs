//! SecondaryIndex_NAME.db: the entries of one secondary index for the rows of one SSTable.
//!
//! The component is Espalier's own; Cassandra and ScyllaDB copy it, and delete it with its SSTable.
//! Its pages have their checksums in Checksums.db. Format: docs/formats/secondary-index.md.
//!
//! | module | contents |
//! | --- | --- |
//! | `entry` | the parts of an entry that a block stores |
//! | `block`, `block_writer` | blocks of sorted entries, each a whole number of pages |
//! | `writer`, `layout` | the component: blocks, a trie that leads to them, a description |
//! | `reader`, `cursor` | reads the component through the page cache |
//! | `runs` | sorts entries that do not fit in memory, for the writer |

mod block;
mod block_writer;
mod cursor;
mod entry;
mod layout;
mod reader;
mod runs;
#[cfg(test)]
mod tests;
mod writer;

pub use cursor::EntryCursor;
pub use reader::SecondaryIndex;
pub use runs::IndexRuns;
pub use writer::SecondaryIndexWriter;
