//! A read of very many slices of a partition yields among them.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::{Clustering, ClusteringSlice, ClusteringSlices};
use espalier_runtime::{file::FileSystem, preempt, spawn_local};
use espalier_storage::{ReadPosition, ReadTarget};

use crate::support::*;

const SLICES: i32 = 10_000;

#[test]
fn a_resumed_read_yields_while_it_copies_the_slices_behind() {
    run(async {
        let database = Rc::new(open(&FileSystem::simulated(1), configuration()).await.unwrap());
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        for at in [0, SLICES - 1] {
            database.apply(insert(&wide, "p", Some(at), 1, &[("v", "x")])).await.unwrap();
        }
        let mut command = command(&wide, ReadTarget::Partition(key("p")));
        let slices = (0..SLICES).map(|at| ClusteringSlice::prefix([Some(int(at))].into()));
        command.slices = Arc::new(ClusteringSlices { slices: slices.collect() });
        let clustering = Some(Clustering::new([int(0)]));
        command.resume = Some(ReadPosition { key: key("p"), clustering, rows_of_partition: 1 });
        preempt::force_every_yield(true);
        let reader = database.clone();
        let read = spawn_local(async move { reader.read(command).await });
        let mut turns = 0;
        while !read.is_finished() {
            preempt::yield_now().await;
            turns += 1;
        }
        preempt::force_every_yield(false);
        assert_eq!(read.await.unwrap().partitions[0].rows.len(), 1);
        // The memtable's stream yields after each 128 slices without a row.
        assert!(turns > SLICES / 4, "{turns}");
        database.shutdown().await.unwrap();
    });
}
