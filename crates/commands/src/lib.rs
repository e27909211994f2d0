//! This crate has the parts that several commands of the binary share: sizes and durations in
//! texts, the memory budget, and drawings.

pub mod memory;
pub mod svg;
pub mod units;
