//! Tests of mutations and of their reconciliation, in one binary: to build a test binary takes as
//! long as to run its tests.
#![allow(clippy::unwrap_used)]

mod deletion_ties;
mod leaps;
mod merge;
mod packed_rows;
mod range_tombstones;
mod shadowable_deletions;
mod support;
