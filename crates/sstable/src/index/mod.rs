//! This module contains the indexes that find partitions and rows in Data.db.

pub mod big;
pub mod bti;
