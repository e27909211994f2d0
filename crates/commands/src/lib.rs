//! This crate has the parts that several commands of the binary share. It parses and prints sizes
//! and durations, splits the memory budget, and draws SVG.

pub mod memory;
pub mod svg;
pub mod units;
