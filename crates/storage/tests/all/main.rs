//! Storage as a whole, one behaviour a file. One program, because linking many takes longer than running them.
#![allow(clippy::unwrap_used)]

mod acknowledged_writes_survive_crashes;
mod altered_tables;
mod commit_log_damage;
mod compaction_crashes;
mod compaction_model;
mod compaction_of_shared_files;
mod counters;
mod covered_rows;
mod dead_rows;
mod disk_failures;
mod dropped_and_truncated_tables;
mod full_tries;
mod imports;
mod kinds_of_memtables;
mod large_memtable;
mod logged_batches;
mod looks;
mod memory_pressure;
mod model;
mod reads_are_isolated;
mod reads_on_other_threads;
mod resharding_survives_crashes;
mod row_cache;
mod row_cache_accounts;
mod row_cache_continuity;
mod row_cache_explained;
mod row_cache_races;
mod segments_are_recycled;
mod several_shards;
mod shadowable_rows;
mod support;
mod sync_modes;
mod the_clock_goes_back;
mod versions_of_files;
mod walk;
