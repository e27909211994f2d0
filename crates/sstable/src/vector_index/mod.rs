//! The entries of one index on vectors for the rows of one SSTable, in SecondaryIndex_NAME.db.
//!
//! The component is Espalier's own, as are the components of other secondary indexes. The module
//! `secondary_index` opens both kinds. Checksums.db has the checksums of its pages. Format:
//! docs/formats/vector-index.md.
//!
//! | module | contents |
//! | --- | --- |
//! | `rows` | growing arrays that never move |
//! | `kernels` | products of codes, with the processor's vector instructions |
//! | `codes` | vectors with eight bits for each component, and distances between them |
//! | `beam`, `graph` | the graph of near vectors, and its construction |
//! | `top` | the most similar items of a search |
//! | `layout`, `records` | the description, and records of fixed length in pages |
//! | `points`, `writer` | the vectors of a segment, and the writer |
//! | `search`, `reader` | searches through the page cache |
//! | `scales` | the error of the codes that a search has left out |
//!
//! Entries come in segments. A segment of few vectors has floats, and a search compares all of
//! them. A larger segment has codes. A search compares all codes, or follows the graph if the
//! segment has one. Places (the primary keys of the rows) are byte strings to this module.

mod beam;
mod codes;
mod graph;
mod kernels;
mod layout;
mod points;
mod reader;
mod records;
mod rows;
mod scales;
mod search;
#[cfg(test)]
mod tests;
mod top;
mod writer;

pub(crate) use layout::{MAGIC, VERSION, VectorDescription};
pub use points::{VectorLimits, VectorPoints};
pub use reader::{NearestNodes, NearestSearch, Neighbor, VectorIndex};
pub use rows::{ChunkedBytes, ChunkedRows};
pub use top::Top;
pub use writer::VectorIndexWriter;
