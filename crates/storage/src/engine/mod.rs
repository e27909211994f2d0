//! Opens and closes a shard's store, and runs its background tasks. Below `node`, only this module
//! starts tasks of other modules.
//!
//! | module | contents |
//! | --- | --- |
//! | `start` | the steps of a start that a node and a store alone share, and the end of a store |
//! | `alone` | the start of a store that is used alone |
//! | `index_build` | the task that builds missing entries of secondary indexes |
//! | `prefetch` | the task that extends the ranges of the empty-range cache |
//! | `metrics` | counters and gauges of a store and its background work |

mod alone;
mod index_build;
mod metrics;
mod prefetch;
mod start;

pub use alone::DIRECTORY_LOCK;
pub(crate) use index_build::has_entries_of;
pub(crate) use start::{
    begin_segment_ids, find_all_tables, load_discarded, prepare_directories, start_compactions,
    start_flushes,
};
