//! The other kinds of memtables behave like the trie: the tests of memtables, reads, isolation and
//! flushes run with each kind.

use espalier_mutation::schema::{TableMetadata, TableOptions};
use espalier_runtime::file::FileSystem;
use espalier_storage::{MemtableKind, Node, Structure};

use crate::support::*;

/// Runs tests again, with this kind of memtable for tables that name none.
macro_rules! with_kind {
    ($kind:ident, $structure:ident, $shards:literal, $($module:ident::$test:ident,)*) => {
        mod $kind {
            use super::*;
            $(
                #[test]
                fn $test() {
                    let kind = MemtableKind { structure: Structure::$structure, shards: $shards };
                    with_memtables(kind, crate::$module::$test);
                }
            )*
        }
    };
}

macro_rules! with_each_kind {
    ($($module:ident::$test:ident,)*) => {
        with_kind! { skip_list, SkipList, 1, $($module::$test,)* }
        with_kind! { sharded_trie, Trie, 3, $($module::$test,)* }
        with_kind! { sharded_skip_list, SkipList, 4, $($module::$test,)* }
    };
}

with_each_kind! {
    walk::rows_are_read_from_memory_from_files_and_after_a_restart,
    model::wide_partitions,
    model::single_row_partitions,
    model::clusterings_of_several_columns_in_both_orders,
    reads_are_isolated::a_long_read_sees_one_version_of_a_partition,
    reads_are_isolated::a_long_read_sees_one_version_of_single_rows,
    reads_are_isolated::scans_during_flushes_see_each_row_once,
    dead_rows::reads_among_deleted_and_rewritten_rows_agree_with_a_model,
    dead_rows::a_read_seeks_past_deleted_rows,
    dead_rows::a_read_seeks_past_deleted_ranges_and_partitions,
    covered_rows::a_range_deletion_over_many_rows_is_not_walked,
    covered_rows::reads_over_covered_rows_agree_with_a_model,
    memory_pressure::writers_are_held_back_and_memory_is_bounded,
    several_shards::the_number_of_shards_may_change,
    several_shards::the_fast_path_answers_for_its_own_shard_only,
    versions_of_files::a_node_reads_the_files_it_wrote_in_every_version,
}

with_kind! { skip_list_of_many_rows, SkipList, 1, model::partitions_of_many_rows_are_read_in_several_looks, }

/// Writes a thousand rows. Returns the bytes by which the memtables have grown.
async fn grow(database: &Node, table: &TableMetadata, timestamp: i64) -> u64 {
    let before = database.store().metrics().memtable_bytes;
    for number in 0..1000 {
        let name = format!("{number}");
        database.apply(insert(table, &name, None, timestamp, &[("v", "x")])).await.unwrap();
    }
    database.store().metrics().memtable_bytes - before
}

fn narrow_table_with(memtable: &str) -> TableMetadata {
    let options = TableOptions { memtable: memtable.into(), ..TableOptions::default() };
    narrow_table().rebuild().options(options).build()
}

#[test]
fn a_table_has_the_kind_that_it_names_from_its_next_memtable_on() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let trie_bytes = grow(&database, &table(&database, "narrow"), 1).await;
        // The schema's memtables grow as well, so the table's memtable is flushed before each
        // check.
        for (memtable, is_trie) in
            [("skiplist", false), ("trie", true), ("skiplist", false), ("gone", true)]
        {
            create(&database, vec![narrow_table_with(memtable)]).await;
            database.flush("ks", None).await.unwrap();
            let bytes = grow(&database, &table(&database, "narrow"), 2).await;
            assert_eq!(bytes == trie_bytes, is_trie, "{memtable}: {bytes}, the trie {trie_bytes}");
        }
        assert_eq!(read_all(&database, &table(&database, "narrow")).await.partitions.len(), 1000);
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let narrow = table(&database, "narrow");
        assert_eq!(narrow.options.memtable, "gone");
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), 1000);
    });
}
