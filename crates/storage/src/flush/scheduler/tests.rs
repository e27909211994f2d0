//! Which table is flushed next.

use bytes::Bytes;
use espalier_mutation::{
    DecoratedKey, DeletionTime, Mutation, PartitionUpdate,
    schema::{TableBuilder, TableId},
};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_types::CqlType;
use uuid::Uuid;

use super::victim;
use crate::test_database::{create, open, table};

#[test]
fn a_table_that_is_being_dropped_is_not_the_next_one() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let database = open(file_system).await;
        let metadata = TableBuilder::new("ks", "narrow", TableId(Uuid::from_u128(0xa1)))
            .partition_key("k", CqlType::Blob)
            .regular("v", CqlType::Blob)
            .build();
        let metadata = create(&database, metadata).await;
        let key = DecoratedKey::new(Bytes::from_static(b"a"));
        let mut update = PartitionUpdate::new(metadata.id, key);
        update.deletion = DeletionTime::new(1, 1);
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
        let table = table(&database, &metadata);
        assert!(victim(&database).is_none());
        // As after a flush that has failed.
        table.switch_memtable();
        assert!(victim(&database).is_some());
        table.set_dropped();
        assert!(victim(&database).is_none());
    });
}
