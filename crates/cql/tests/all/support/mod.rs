//! What several tests of the grammar share.

pub mod cases;
pub mod compact;
pub mod round_trip;
