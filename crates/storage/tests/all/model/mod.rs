//! Compares a node with a plain model. Random writes of every kind go to both, with flushes and
//! restarts of the node at random moments. Reads go forward, in reverse, by slices, with limits and
//! in pages.

mod flat;
mod reference;
mod writer;

use espalier_mutation::{Liveness, Mutation, schema::TableMetadata};
use espalier_runtime::file::FileSystem;
use espalier_storage::{Node, PartitionRows, ReadCommand, ReadLimits, ReadTarget};

use crate::support::*;

pub(crate) use self::{flat::compare_flat, reference::Model, writer::Writer};

/// Clears the liveness, because a reader cannot tell whether a row exists by its liveness or by a
/// cell. Removes static rows without selected columns beside other rows, because reads of one row
/// do not look for static rows.
pub(crate) fn forget_liveness(partitions: &mut [PartitionRows]) {
    for partition in partitions.iter_mut().filter(|partition| !partition.rows.is_empty()) {
        partition.static_row.take_if(|row| row.columns.is_empty());
    }
    for row in partitions.iter_mut().flat_map(|partition| &mut partition.rows) {
        row.liveness = Liveness::NONE;
    }
}

/// Reads in pages and joins them. Most page sizes also have a limit of tombstones.
pub(crate) async fn read_in_pages(
    database: &Node,
    mut command: ReadCommand,
    page: usize,
) -> Vec<PartitionRows> {
    let mut partitions: Vec<PartitionRows> = Vec::new();
    command.limits.rows = page;
    command.limits.tombstones = [10, 1, 3, usize::MAX][page % 4];
    loop {
        let result = database.read(command.clone()).await.unwrap();
        let rows: usize = result.partitions.iter().map(|p| p.rows.len().max(1)).sum();
        assert!(rows <= page, "{rows} rows in a page of {page}");
        for partition in result.partitions {
            match partitions.last_mut() {
                Some(last) if last.key == partition.key => {
                    assert_eq!(last.static_row, partition.static_row);
                    last.rows.extend(partition.rows);
                }
                _ => partitions.push(partition),
            }
        }
        match result.next {
            Some(next) => command.resume = Some(next),
            None => return partitions,
        }
    }
}

const VERSIONS: [&str; 5] = ["da", "oa", "nb", "me", "mt"];

fn check(seed: u64, definition: fn() -> TableMetadata, partitions: u64, spread: u64, steps: u64) {
    let file_system = FileSystem::simulated(seed);
    let mut model = Model::default();
    let mut writer = Writer::new(seed);
    let mut is_created = false;
    for _ in 0..3 {
        run(async {
            espalier_runtime::preempt::force_yields(Some(seed));
            let mut configuration = configuration();
            // Each life of the node writes a random version of SSTables, and reads the SSTables of
            // earlier lives.
            let version = VERSIONS[writer.random.below(VERSIONS.len() as u64) as usize];
            configuration.sstables.format = version.into();
            let database = open(&file_system, configuration).await.unwrap();
            if !is_created {
                create(&database, vec![keeping_tombstones(definition())]).await;
                is_created = true;
            }
            let table = table(&database, &definition().name);
            for step in 0..steps {
                match writer.below(12) {
                    0 => database.flush("ks", None).await.unwrap(),
                    1..6 => {
                        let command = writer.command(&table, partitions, spread);
                        let mut expected = model.read(&command);
                        forget_liveness(&mut expected);
                        let context = format!("seed {seed} step {step} {command:?}");
                        let mut got = database.read(command.clone()).await.unwrap();
                        forget_liveness(&mut got.partitions);
                        assert_eq!(got.partitions, expected, "{context}");
                        assert_eq!(got.next, None, "{context}");
                        let page = 1 + writer.below(4) as usize;
                        let mut got = read_in_pages(&database, command.clone(), page).await;
                        forget_liveness(&mut got);
                        assert_eq!(got, expected, "pages of {page}: {context}");
                        compare_flat(&database, &command, &expected, page, &context).await;
                    }
                    _ => {
                        let update = writer.update(&table, partitions, spread);
                        if !update.is_empty() {
                            model.writes.push(update.clone());
                            database.apply(Mutation { updates: vec![update] }).await.unwrap();
                        }
                    }
                }
            }
            if writer.below(2) == 0 {
                database.shutdown().await.unwrap();
            }
            espalier_runtime::preempt::force_yields(None);
        });
    }
}

#[test]
pub fn wide_partitions() {
    espalier_testing::seeds(40).for_each(|seed| check(seed, wide_table, 3, 6, 60));
}

#[test]
pub fn partitions_of_many_rows_are_read_in_several_looks() {
    espalier_testing::seeds(6).for_each(|seed| check(100 + seed, wide_table, 1, 300, 250));
}

#[test]
pub fn single_row_partitions() {
    espalier_testing::seeds(20).for_each(|seed| check(200 + seed, narrow_table, 12, 1, 60));
}

#[test]
pub fn clusterings_of_several_columns_in_both_orders() {
    espalier_testing::seeds(20).for_each(|seed| check(300 + seed, mixed_table, 2, 4, 60));
}

#[test]
fn limits_by_bytes_bound_a_page() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![keeping_tombstones(wide_table())]).await;
        let table = table(&database, "wide");
        for row in 0..50 {
            let value = "v".repeat(100);
            database.apply(insert(&table, "p", Some(row), 1, &[("v", &value)])).await.unwrap();
        }
        let mut command = command(&table, ReadTarget::Partition(key("p")));
        command.limits = ReadLimits { bytes: 1000, ..ReadLimits::NONE };
        let result = database.read(command).await.unwrap();
        let rows = result.partitions[0].rows.len();
        assert!((5..=10).contains(&rows), "{rows} rows of 100 bytes in 1000");
        assert!(result.next.is_some());
    });
}
