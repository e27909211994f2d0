//! CQL's reconciliation: which of two writes stays. By timestamp; at equal timestamps a deletion wins over a value, an
//! expiring cell over one that is not, then the greater value. The rules are those of Cassandra 5.0 (see the notes at
//! each function), so that the same files read the same on both.

mod cells;
mod dropped;
mod leap;
mod merge;
mod rows;

pub use cells::{cell_wins, reconcile_cells};
pub use dropped::remove_dropped;
pub use leap::KnownDead;
pub use merge::{MergedPartition, UnfilteredMerger, merge_headers};
pub use rows::{apply_deletion, merge_counters, merge_rows, merge_rows_into};
