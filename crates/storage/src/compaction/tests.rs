//! This test checks the header of a compaction's output.

use bytes::Bytes;
use espalier_mutation::{Cell, ColumnData};
use espalier_runtime::{block_on, file::FileSystem, time};

use crate::test_database::{create, open, table, table_of_blobs, write_of};

/// The compaction turns the expired cell into a tombstone, whose deletion time is the second in
/// which the cell was written. The header must have a minimum that is not above this time, as
/// Cassandra's verifier demands.
#[test]
fn the_header_covers_tombstones_of_expired_cells() {
    const TTL: u32 = 100;
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let node = open(file_system).await;
        let metadata = create(&node, table_of_blobs("t", 0xa1)).await;
        let now_s = u32::try_from(time::now_seconds()).unwrap();
        for name in ["a", "b"] {
            let cell = Cell::expiring(1, TTL, now_s - 1, Bytes::from_static(b"1"));
            let key = Bytes::from_static(name.as_bytes());
            node.apply(write_of(&metadata, key, ColumnData::Simple(cell))).await.unwrap();
            node.flush("ks", Some("t")).await.unwrap();
        }
        node.compactions().compact("ks", Some("t"), false).await.unwrap();
        let view = table(&node, &metadata).view();
        let [sstable] = &*view.sstables else { panic!("{} files", view.sstables.len()) };
        let statistics = sstable.reader().statistics();
        let written_s = statistics.stats.min_local_deletion_time;
        assert_eq!(written_s, now_s - 1 - TTL);
        let least = statistics.header.min_local_deletion_time;
        assert!(least <= written_s, "{least} s in the header, {written_s} s in the data");
    });
}
