//! This crate has the parts that several commands of the binary share. It splits the memory budget,
//! and draws SVG. The storage crate parses sizes and durations, because its settings have them too.

pub mod memory;
pub mod svg;
pub use espalier_storage::units;
