//! The espalier binary.
fn main() {}
