//! Finding partitions and rows in Data.db.

pub mod bti;
