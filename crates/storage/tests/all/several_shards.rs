//! Several shards are one database: writes and reads find the owner, ranges are read in ring order,
//! and the number of shards may change between runs.

use espalier_mutation::{
    DecoratedKey, KeyRange, Mutation,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::file::FileSystem;
use espalier_storage::{FlatColumns, Node, ReadTarget, RowLookup};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::support::{shards::on_shards, *};

async fn write_names(database: &Node, names: std::ops::Range<i32>) {
    let narrow = table(database, "narrow");
    let mut all = Mutation::default();
    for number in names.clone() {
        let mutation = insert(&narrow, &number.to_string(), None, 1, &[("v", "1")]);
        all.updates.extend(mutation.updates);
    }
    // Half of them as one mutation over all shards, the others one by one.
    let rest = all.updates.split_off(all.updates.len() / 2);
    database.apply(all).await.unwrap();
    for update in rest {
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
    }
}

async fn check_names(database: &Node, count: i32) {
    let narrow = table(database, "narrow");
    let result = read_all(database, &narrow).await;
    assert_eq!(result.partitions.len(), count as usize);
    assert!(result.partitions.is_sorted_by_key(|partition| partition.key.clone()));
    // Then in pages, and one by one.
    let mut command = command(&narrow, ReadTarget::Range(KeyRange::full()));
    command.limits.rows = 7;
    let mut paged = Vec::new();
    loop {
        let page = database.read(command.clone()).await.unwrap();
        assert!(page.partitions.len() <= 7);
        paged.extend(page.partitions);
        match page.next {
            Some(next) => command.resume = Some(next),
            None => break,
        }
    }
    assert_eq!(paged, result.partitions);
    for number in 0..count {
        let row = read_partition(database, &narrow, &number.to_string()).await;
        assert!(row.is_some(), "{number}");
    }
}

#[test]
pub fn the_number_of_shards_may_change() {
    let file_system = FileSystem::simulated(1);
    let mut count = 0;
    for (shards, ends) in
        [(1, "killed"), (3, "killed"), (2, "stopped"), (4, "killed"), (1, "killed")]
    {
        let before = count;
        count += 60;
        let after = count;
        on_shards(shards, &file_system, configuration(), move |database| async move {
            if before == 0 {
                create(&database, vec![narrow_table()]).await;
            }
            check_names(&database, before).await;
            write_names(&database, before..after).await;
            check_names(&database, after).await;
            if shards != 3 {
                database.flush("ks", Some("narrow")).await.unwrap();
                check_names(&database, after).await;
            }
            if ends == "stopped" {
                database.shutdown().await.unwrap();
            }
        })
        .unwrap();
    }
    on_shards(2, &file_system, configuration(), move |database| async move {
        check_names(&database, count).await;
    })
    .unwrap();
}

#[test]
fn a_limit_by_bytes_counts_the_keys_that_earlier_shards_returned() {
    let file_system = FileSystem::simulated(4);
    on_shards(2, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        for number in 0..80 {
            let key = format!("{number:01000}");
            database.apply(insert(&narrow, &key, None, 1, &[("v", "1")])).await.unwrap();
        }
        let owner = |key: &DecoratedKey| database.store().routing().shard_of(&narrow, key);
        let all = read_all(&database, &narrow).await.partitions;
        let first = owner(&all[0].key);
        let of_first = all.iter().take_while(|partition| owner(&partition.key) == first).count();
        // The keys of the first shard fill three quarters of the page.
        let limit = 1300 * of_first;
        assert!(limit < 1000 * all.len(), "{of_first} of {} keys on the first shard", all.len());
        let mut command = command(&narrow, ReadTarget::Range(KeyRange::full()));
        command.limits.bytes = limit;
        let count = database.read(command).await.unwrap().partitions.len();
        assert!(count > of_first, "{count} of {of_first} keys of the first shard");
        assert!(1000 * count <= limit, "{count} keys of 1000 bytes in {limit} bytes");
    })
    .unwrap();
}

#[test]
fn pages_of_sparse_flat_rows_miss_no_shard() {
    let file_system = FileSystem::simulated(5);
    on_shards(3, &file_system, configuration(), |database| async move {
        let names: Vec<String> = (0..30).map(|number| format!("v{number:02}")).collect();
        let start = TableBuilder::new("ks", "sparse", TableId(Uuid::from_u128(0xa7)))
            .partition_key("k", CqlType::Blob);
        let sparse = names.iter().fold(start, |builder, name| builder.regular(name, CqlType::Blob));
        create(&database, vec![sparse.build()]).await;
        let sparse = table(&database, "sparse");
        // A file and a memtable have each row, so the read merges the rows.
        for timestamp in [1, 2] {
            for number in 0..90 {
                let row = insert(&sparse, &number.to_string(), None, timestamp, &[("v00", "1")]);
                database.apply(row).await.unwrap();
            }
            if timestamp == 1 {
                database.flush("ks", None).await.unwrap();
            }
        }
        let ids: Vec<_> = sparse.regular_columns().iter().map(|column| column.id).collect();
        let mut command = command(&sparse, ReadTarget::Range(KeyRange::full()));
        command.flat = Some(FlatColumns::new(0, ids).into());
        for limit in (100..16_000).step_by(150) {
            (command.limits.bytes, command.resume) = (limit, None);
            let mut rows = 0;
            loop {
                let page = database.read(command.clone()).await.unwrap();
                rows += page.row_count();
                let Some(next) = page.next else { break };
                command.resume = Some(next);
            }
            assert_eq!(rows, 90, "in pages of {limit} bytes");
        }
    })
    .unwrap();
}

#[test]
fn flushes_on_all_shards_give_files_different_numbers() {
    let file_system = FileSystem::simulated(2);
    on_shards(3, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
        write_names(&database, 0..100).await;
        database.flush("ks", None).await.unwrap();
    })
    .unwrap();
    run(async {
        let keyspace = file_system.read_dir("node/data/ks").await.unwrap();
        let files = file_system.read_dir(&keyspace[0].path).await.unwrap();
        let tables = files.iter().filter(|file| file.name.ends_with("-TOC.txt")).count();
        assert_eq!(tables, 3, "{files:?}");
    });
}

/// Looks for a row in memory. `None` is a look-up without an answer.
fn is_found(database: &Node, table: &TableMetadata, key: &DecoratedKey) -> Option<bool> {
    let mut lookup = RowLookup::<&[u8]>::new(table, key.borrowed(), &[]);
    lookup.poll(database.store(), |found| found.row.is_some()).known_or(|| false)
}

#[test]
pub fn the_fast_path_answers_for_its_own_shard_only() {
    let file_system = FileSystem::simulated(3);
    on_shards(2, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
        write_names(&database, 0..40).await;
        let narrow = table(&database, "narrow");
        let (mut here, mut elsewhere) = (0, 0);
        for number in 0..40 {
            let key = key(number.to_string());
            let owner = database.store().routing().shard_of(&narrow, &key);
            let found = is_found(&database, &narrow, &key);
            let write = insert(&narrow, &number.to_string(), None, 2, &[("v", "2")]);
            let ticket = database.store().try_apply(&write);
            assert_eq!(ticket.is_some(), owner == 0);
            if let Some(ticket) = ticket {
                ticket.unwrap().await.unwrap();
            }
            match owner {
                0 => {
                    assert_eq!(found, Some(true));
                    here += 1;
                }
                _ => {
                    assert_eq!(found, None);
                    elsewhere += 1;
                }
            }
        }
        assert!(here > 0 && elsewhere > 0);
        // After a flush a row may lie in a file; a row that no file may hold is known to be absent.
        database.flush("ks", None).await.unwrap();
        for number in 0..40 {
            let known = key(number.to_string());
            assert_eq!(is_found(&database, &narrow, &known), None);
        }
        let absent = (0..1000).map(|number| key(format!("absent{number}")));
        let answered = absent.filter(|key| {
            let found = is_found(&database, &narrow, key);
            assert_ne!(found, Some(true));
            found.is_some()
        });
        assert!(answered.count() > 300);
    })
    .unwrap();
}

#[test]
fn an_unsupported_format_is_an_error_at_start_on_several_shards() {
    let file_system = FileSystem::simulated(4);
    let mut configuration = configuration();
    configuration.sstables.format = "zz".into();
    let error = on_shards(3, &file_system, configuration, |_| async {}).unwrap_err();
    assert_eq!(error.to_string(), "the configured sstable_format is not supported");
}
