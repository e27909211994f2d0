//! The entries of one index on vectors for the rows of one SSTable, in SecondaryIndex_NAME.db.
//!
//! The component is Espalier's own, as that of the other secondary indexes (`secondary_index`,
//! which opens both). Its pages have their checksums in Checksums.db. Format:
//! docs/formats/vector-index.md.
//!
//! | module | contents |
//! | --- | --- |
//! | `rows` | growing arrays that never move |
//! | `codes` | vectors of eight bits a component, and distances between them |
//! | `beam`, `graph` | the graph of near vectors, and its construction |
//! | `top` | the most similar of many |
//! | `layout`, `records` | the description, and records of fixed length in pages |
//! | `points`, `writer` | the vectors of a segment, and the writer |
//! | `search`, `reader` | searches through the page cache |
//!
//! Entries come in segments. A segment of few vectors has them as they are, and a search compares
//! all of them. A larger one has codes, which a search compares one by one, or along the graph if
//! the segment has one. Places (the primary keys of the rows) are byte strings to this module.

mod beam;
mod codes;
mod graph;
mod layout;
mod points;
mod reader;
mod records;
mod rows;
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
