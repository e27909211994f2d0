//! The tests of mutations and of what reconciles them. In one binary, since each takes as long to build as its tests to run.
#![allow(clippy::unwrap_used)]

mod leaps;
mod merge;
mod packed_rows;
mod range_tombstones;
mod shadowable_deletions;
mod support;
