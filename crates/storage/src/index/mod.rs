//! Secondary indexes: for each index, each memtable and each SSTable has the entries of its rows.
//! An entry is a value with a primary key; entries are in order, except those of an index on
//! vectors.
//!
//! | module | contents |
//! | --- | --- |
//! | `entry` | the bytes of an entry |
//! | `component` | writes the entries and vectors of a flushed memtable |
//! | `source` | the searched SSTables, and cursors over entries |
//! | `union` | the union of cursors in the order of the table |
//! | `candidates` | the places of one term |
//! | `range`, `kept` | the places of a range of values, sorted in passes |
//! | `nearest` | a search for the most similar vectors |
//!
//! Entries may be stale: an entry says that some write gave the row the value, not that the row
//! still has it. The reader (`read::by_index`) reads each row and drops the rows that do not have
//! the value (docs/decisions/0034-secondary-indexes.md). While some SSTable or memtable lacks its
//! entries (`engine::index_build`), a query reads all rows of its target.

mod candidates;
mod component;
pub(crate) mod entry;
mod kept;
mod nearest;
mod range;
mod source;
mod union;

pub(crate) use candidates::{Candidates, Found, PLACES_AT_ONCE, Places};
pub(crate) use component::write_memtable;
