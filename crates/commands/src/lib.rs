//! This crate has the parts that several commands of the binary share. It splits the memory budget,
//! and draws SVG. Sizes and durations are parsed by storage, which has settings too.

pub mod memory;
pub mod svg;
pub use espalier_storage::units;
