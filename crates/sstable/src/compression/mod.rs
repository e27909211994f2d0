//! Data.db in chunks: each compressed on its own, each followed by its checksum. Source: reference 4.
//!
//! | module | what |
//! | --- | --- |
//! | [`compressor`] | the algorithms |
//! | `lz4` | blocks of the most usual one |
//! | `chunk_decoder` | the one of a file, with its dictionary |
//! | [`layout`] | CompressionInfo.db: which algorithm, and where each chunk lies |

pub(crate) mod chunk_decoder;
pub(crate) mod compressor;
pub(crate) mod layout;
mod lz4;

pub use compressor::Compressor;
pub use layout::CompressionInfo;
