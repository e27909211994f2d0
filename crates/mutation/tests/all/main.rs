//! Tests of mutations and of their reconciliation, in one binary, because building a test binary
//! takes as long as running its tests.
#![allow(clippy::unwrap_used)]

mod deletion_ties;
mod leaps;
mod merge;
mod packed_rows;
mod range_tombstones;
mod shadowable_deletions;
mod support;
