//! Helpers that several tests share.

pub mod bank;
pub mod cases;
pub mod compact;
pub mod node;
pub mod round_trip;
pub mod shards;
pub mod turns;
