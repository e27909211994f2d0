//! The read path on one shard: it selects the sources that may hold the data, merges them, keeps
//! live rows and applies the limits.
//!
//! Memory bound: the result, which the limits bound, and one fragment of each source.

mod by_index;
mod cached_source;
mod continuous_scan;
mod in_place;
mod partition;
mod range_read;
mod range_scan;
mod shard_read;
mod single_row;
mod source;
mod trace;
mod visit;

pub(crate) use partition::{Remaining, keep_live};
pub(crate) use shard_read::{TableAccess, may_hold, read_on_shard, read_one, sources_of};
pub(crate) use source::{FileSource, Source};
pub(crate) use trace::{
    RowSource, trace_found_row, trace_partition_query, trace_result, trace_row_lookup,
    trace_sstable,
};
pub(crate) use visit::visit_on_shard;
pub use visit::{FragmentVisitor, Visit};
