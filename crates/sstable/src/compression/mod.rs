//! The Data.db of a compressed table is stored in chunks. Each chunk is compressed on its own, and
//! its checksum follows it. Format: docs/formats/compression.md.
//!
//! | module | content |
//! | --- | --- |
//! | [`compressor`] | the algorithms |
//! | `lz4` | blocks of the most common algorithm |
//! | `chunk_decoder` | the decoder of a file, with its dictionary |
//! | [`layout`] | CompressionInfo.db: the algorithm, and the position of each chunk |

pub(crate) mod chunk_decoder;
pub(crate) mod compressor;
pub(crate) mod layout;
mod lz4;

pub use compressor::Compressor;
pub use layout::CompressionInfo;
