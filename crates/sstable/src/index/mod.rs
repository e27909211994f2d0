//! Finding partitions and rows in Data.db.

pub mod big;
pub mod bti;
