//! A read sees a write to one partition as a whole or not at all, even if the read yields in the
//! middle. A read during the end of a flush misses nothing and sees nothing twice.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    rc::Rc,
};

use espalier_mutation::{
    BoundKind, CellRef, ClusteringBound, DeletionTime, Direction, Liveness, Mutation,
    NO_DELETION_TIME, PartitionUpdate, RangeTombstone, RowRef,
};
use espalier_runtime::{file::FileSystem, preempt::force_yields, spawn_local, yield_now};
use espalier_storage::ReadTarget;

use crate::support::*;

const ROWS: i32 = 700;

#[test]
pub fn a_long_read_sees_one_version_of_a_partition() {
    for seed in espalier_testing::seeds(12) {
        let file_system = FileSystem::simulated(seed);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![wide_table()]).await;
            let wide = table(&database, "wide");
            let version = Rc::new(Cell::new(0));
            let write = |version: i64| {
                let mut update = PartitionUpdate::new(wide.id, key("p"));
                let value = version.to_string();
                for clustering in 0..ROWS {
                    // Each version also deletes and restores some rows.
                    let is_gone = (i64::from(clustering) + version) % 5 == 0;
                    if !is_gone {
                        let values = [("v", value.as_str())];
                        update.rows.push(row(&wide, Some(clustering), 2 * version, &values));
                    }
                }
                update.range_tombstones.push(RangeTombstone {
                    start: ClusteringBound::bottom(),
                    end: ClusteringBound {
                        kind: BoundKind::InclusiveEnd,
                        values: [Some(int(ROWS))].into(),
                    },
                    deletion: DeletionTime::new(2 * version - 1, NOW),
                });
                Mutation { updates: vec![update] }
            };
            force_yields(Some(seed));
            database.apply(write(1)).await.unwrap();
            version.set(1);
            let is_over = Rc::new(Cell::new(false));
            let readers: Vec<_> = [Direction::Forward, Direction::Reverse, Direction::Forward]
                .into_iter()
                .map(|direction| {
                    let (database, wide, is_over) =
                        (database.clone(), wide.clone(), is_over.clone());
                    spawn_local(async move {
                        let mut reads = 0;
                        while !is_over.get() {
                            let mut command = command(&wide, ReadTarget::Partition(key("p")));
                            command.direction = direction;
                            let result = database.read(command).await.unwrap();
                            let rows = &result.partitions[0].rows;
                            let version = text(&wide, &rows[0], "v").unwrap();
                            assert_eq!(rows.len(), 560, "rows of version {version}");
                            for row in rows {
                                assert_eq!(text(&wide, row, "v").as_ref(), Some(&version));
                            }
                            reads += 1;
                        }
                        reads
                    })
                })
                .collect();
            for version in 2..10 {
                for _ in 0..20 {
                    yield_now().await;
                }
                database.apply(write(version)).await.unwrap();
                if version == 6 {
                    database.flush("ks", None).await.unwrap();
                }
            }
            is_over.set(true);
            for reader in readers {
                assert!(reader.await > 0);
            }
            force_yields(None);
        });
    }
}

/// Rows are written one by one, without a yield between them.
#[test]
pub fn a_long_read_sees_one_version_of_single_rows() {
    for seed in espalier_testing::seeds(12) {
        let file_system = FileSystem::simulated(seed);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![wide_table()]).await;
            let wide = table(&database, "wide");
            let column = wide.column("v").unwrap().id;
            let write = |version: i64| {
                let value = version.to_string();
                let cell = CellRef {
                    timestamp: version,
                    ttl: 0,
                    local_deletion_time: NO_DELETION_TIME,
                    value: value.as_bytes(),
                };
                for clustering in 0..ROWS {
                    let row = RowRef {
                        liveness: Liveness::live(version),
                        deletion: DeletionTime::LIVE,
                        cells: &[(column, cell)],
                    };
                    let clustering = [Some(int(clustering))];
                    let key = key("p");
                    let written = database
                        .store()
                        .try_write_row(&wide, key.borrowed(), &clustering, &row)
                        .unwrap();
                    drop(written.unwrap());
                }
            };
            force_yields(Some(seed));
            write(1);
            let is_over = Rc::new(Cell::new(false));
            let versions = Rc::new(RefCell::new(HashSet::new()));
            let reader = {
                let (database, wide, is_over) = (database.clone(), wide.clone(), is_over.clone());
                let versions = versions.clone();
                spawn_local(async move {
                    while !is_over.get() {
                        let command = command(&wide, ReadTarget::Partition(key("p")));
                        let result = database.read(command).await.unwrap();
                        let rows = &result.partitions[0].rows;
                        assert_eq!(rows.len(), ROWS as usize);
                        let version = text(&wide, &rows[0], "v").unwrap();
                        for row in rows {
                            assert_eq!(text(&wide, row, "v").as_ref(), Some(&version));
                        }
                        versions.borrow_mut().insert(version);
                    }
                })
            };
            // On a slow machine a read yields more often, and misses more versions.
            let mut version = 1;
            while version < 10 || versions.borrow().len() < 3 {
                for _ in 0..20 {
                    yield_now().await;
                }
                version += 1;
                assert!(version < 10_000, "the reader sees no new version");
                write(version);
            }
            is_over.set(true);
            reader.await;
            force_yields(None);
        });
    }
}

#[test]
pub fn scans_during_flushes_see_each_row_once() {
    for seed in espalier_testing::seeds(8) {
        let file_system = FileSystem::simulated(seed);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![narrow_table()]).await;
            let narrow = table(&database, "narrow");
            force_yields(Some(seed));
            for number in 0..200 {
                let mutation = insert(&narrow, &number.to_string(), None, 1, &[("v", "1")]);
                database.apply(mutation).await.unwrap();
            }
            let flusher = {
                let (database, narrow) = (database.clone(), narrow.clone());
                spawn_local(async move {
                    for round in 2..6 {
                        database.flush("ks", None).await.unwrap();
                        for number in 0..50 {
                            let name = number.to_string();
                            let mutation = insert(&narrow, &name, None, round, &[("v", "1")]);
                            database.apply(mutation).await.unwrap();
                        }
                    }
                })
            };
            let mut scans = 0;
            while !flusher.is_finished() || scans == 0 {
                let result = read_all(&database, &narrow).await;
                assert_eq!(result.partitions.len(), 200);
                scans += 1;
                yield_now().await;
            }
            flusher.await;
            force_yields(None);
        });
    }
}
