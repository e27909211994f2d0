//! What several tests of the grammar share.
#![allow(dead_code)] // No test needs all of it.

pub mod cases;
pub mod compact;
pub mod round_trip;
