//! Data.db: partitions one after another, each with its rows in clustering order. Format:
//! docs/formats/data.md.
//!
//! ```text
//! partition   be16 key length, key, deletion time, [static row], (row | marker)*, 01
//! row         flags, [extended flags], clustering values, vint body length, body
//! marker      02, kind, be16 number of values, clustering values, vint body length, body
//! body        vint length of the preceding item, then liveness, deletions, columns
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | `espalier_mutation::encoding` | the parts of rows and markers, shared with messages |
//! | [`decode`], [`encode`] | rows and markers; one walk reads all of them |
//! | [`ranking`] | numbers that order most rows |
//! | [`column_map`], `compatible_types` | the mapping from a file's columns to the table's |
//! | [`file`], `chunk_table`, [`stream`] | chunks of the file, their table, bytes across chunks |
//! | `open_chunk`, [`read_ahead`] | checksums and decompression of chunks; sequential reads |
//! | [`writer`] | chunks, checksums and digest of a file being written |

pub(crate) mod chunk_table;
pub(crate) mod column_map;
pub(crate) mod compatible_types;
pub(crate) mod decode;
pub(crate) mod deletion_time;
pub(crate) mod encode;
pub(crate) mod file;
/// Flags of rows and cells, and the arithmetic of deltas.
pub(crate) mod layout {
    pub(crate) use espalier_mutation::encoding::{baselines::Baselines, flags::*};
}
mod open_chunk;
pub(crate) mod ranking;
pub(crate) mod read_ahead;
pub(crate) mod stream;
pub(crate) mod writer;

pub(crate) use espalier_mutation::encoding::{clustering_values, input, value as values};
