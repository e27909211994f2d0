//! Decides by CQL's rules which of two writes stays.
//!
//! The later timestamp wins; at equal timestamps a deletion wins over a value, an expiring cell
//! over one that does not expire, then the later deletion or expiry, and then the greater value.
//! The rules are those of Cassandra 5.0, so that both databases read the same files alike. Each
//! function states its own rules.

mod cells;
mod dropped;
mod leap;
mod merge;
mod rows;

pub use cells::{cell_wins, reconcile_cells};
pub use dropped::remove_dropped;
pub use leap::KnownEmpty;
pub use merge::{MergedPartition, StoppedAt, merge_headers};
pub use rows::{apply_deletion, merge_counters, merge_rows, merge_rows_into};
