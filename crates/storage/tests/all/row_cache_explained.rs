//! Tests that the row cache reports exactly its continuous ranges, after reads, flushes and
//! evictions.

use std::sync::Arc;

use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringSlice, ClusteringSlices, DeletionTime, Mutation,
    PartitionUpdate, schema::TableMetadata,
};
use espalier_runtime::file::FileSystem;
use espalier_storage::{CacheExplanation, ContinuousPartition, Node, ReadTarget};

use insta::assert_snapshot;

use crate::{row_cache::settings, support::*};

async fn known(database: &Node, table: &Arc<TableMetadata>) -> ContinuousPartition {
    match database.explain_cached(table, key("p")).await.unwrap() {
        CacheExplanation::Known(known) => known,
        other => panic!("{other:?}"),
    }
}

/// Returns ranges in the notation `[1, 3) 2`, with the number of rows at the end, for tables with
/// one clustering column.
fn ranges(known: &ContinuousPartition) -> Vec<String> {
    let value = |bound: &ClusteringBound| match bound.values.first() {
        Some(Some(value)) => i32::from_be_bytes(*value.first_chunk().unwrap()).to_string(),
        _ => "…".to_owned(),
    };
    let range = |range: &espalier_storage::ExplainedRange| {
        let open = if range.start.kind == BoundKind::InclusiveStart { '[' } else { '(' };
        let close = if range.end.kind == BoundKind::InclusiveEnd { ']' } else { ')' };
        format!("{open}{}, {}{close} {}", value(&range.start), value(&range.end), range.rows)
    };
    known.ranges.iter().map(range).collect()
}

async fn read_slice(database: &Node, table: &Arc<TableMetadata>, start: i32, end: i32) {
    let bound = |kind, number| ClusteringBound { kind, values: [Some(int(number))].into() };
    let slice = ClusteringSlice {
        start: bound(BoundKind::InclusiveStart, start),
        end: bound(BoundKind::ExclusiveEnd, end),
    };
    let mut command = command(table, ReadTarget::Partition(key("p")));
    command.slices = Arc::new(ClusteringSlices { slices: vec![slice] });
    database.read(command).await.unwrap();
}

#[test]
fn explained_ranges_are_those_that_were_read() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(1 << 20)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        let unknown = database.explain_cached(&wide, key("p")).await.unwrap();
        assert_eq!(unknown, CacheExplanation::Unknown);
        for at in 0..20 {
            database.apply(insert(&wide, "p", Some(at), 10, &[("v", "x")])).await.unwrap();
        }
        let mut deletion = PartitionUpdate::new(wide.id, key("p"));
        deletion.deletion = DeletionTime::new(5, NOW);
        database.apply(Mutation { updates: vec![deletion] }).await.unwrap();
        database.flush("ks", None).await.unwrap();

        read_slice(&database, &wide, 3, 5).await;
        let first = known(&database, &wide).await;
        assert_eq!(ranges(&first), ["[3, 5) 2"]);
        assert_eq!((first.rows, first.deletion), (2, DeletionTime::new(5, NOW)));
        assert!(first.row_bytes > 2 && !first.has_static_row);

        read_slice(&database, &wide, 10, 12).await;
        read_slice(&database, &wide, 5, 6).await;
        assert_eq!(ranges(&known(&database, &wide).await), ["[3, 6) 3", "[10, 12) 2"]);

        read_partition(&database, &wide, "p").await.unwrap();
        let all = known(&database, &wide).await;
        assert_eq!((ranges(&all), all.unreported_ranges), (vec!["[…, …] 20".to_owned()], 0));

        database.forget_cached_rows().await;
        let forgotten = database.explain_cached(&wide, key("p")).await.unwrap();
        assert_eq!(forgotten, CacheExplanation::Unknown);
    });
}

#[test]
fn a_partition_of_one_row_is_known_or_not() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(1 << 20)).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        database.apply(insert(&narrow, "p", None, 10, &[("v", "x")])).await.unwrap();
        database.flush("ks", None).await.unwrap();
        let unknown = database.explain_cached(&narrow, key("p")).await.unwrap();
        assert_eq!(unknown, CacheExplanation::Unknown);
        read_partition(&database, &narrow, "p").await.unwrap();
        assert_eq!(known(&database, &narrow).await.rows, 1);
        database.store().row_cache().set_limit(0);
        let off = database.explain_cached(&narrow, key("p")).await.unwrap();
        assert_eq!(off, CacheExplanation::NodeIsOff);
    });
}

/// Shows the partition's state: its continuous ranges, and their rows.
async fn shown(database: &Node, table: &Arc<TableMetadata>) -> String {
    match database.explain_cached(table, key("p")).await.unwrap() {
        CacheExplanation::Known(known) => ranges(&known).join(", "),
        other => format!("{other:?}"),
    }
}

#[test]
fn continuity_follows_reads_flushes_and_evictions() {
    let file_system = FileSystem::simulated(1);
    let history = run(async {
        let database = open(&file_system, settings(1 << 20)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        let write = async |rows: &[i32]| {
            for at in rows {
                database.apply(insert(&wide, "p", Some(*at), 10, &[("v", "x")])).await.unwrap();
            }
            database.flush("ks", None).await.unwrap();
        };
        let mut history = String::new();
        let mut record = async |step: &str| {
            history += &format!("{step}: {}\n", shown(&database, &wide).await);
        };
        write(&[0, 2, 4, 6, 8, 10, 12, 14, 16, 18]).await;
        record("even rows are written").await;
        read_slice(&database, &wide, 0, 5).await;
        record("0 to 5 are read").await;
        read_slice(&database, &wide, 11, 15).await;
        record("11 to 15 are read").await;
        write(&[3, 7, 13]).await;
        record("3, 7 and 13 are written").await;
        read_slice(&database, &wide, 5, 11).await;
        record("5 to 11 are read").await;
        // One byte too much moves the clock hand once. It leaves the rows of the last flush, which
        // are the youngest.
        let used = database.store().row_cache().metrics().used_bytes as usize;
        database.store().row_cache().set_limit(used - 1);
        database.store().row_cache().set_limit(1 << 20);
        record("the clock hand makes a step").await;
        read_slice(&database, &wide, 0, 4).await;
        record("0 to 4 are read").await;
        read_partition(&database, &wide, "p").await.unwrap();
        record("all is read").await;
        database.forget_cached_rows().await;
        record("all is dropped").await;
        history
    });
    assert_snapshot!(history, @r"
    even rows are written: Unknown
    0 to 5 are read: [0, 5) 3
    11 to 15 are read: [0, 5) 3, [11, 15) 2
    3, 7 and 13 are written: [0, 5) 4, [11, 15) 3
    5 to 11 are read: [0, 15) 11
    the clock hand makes a step: [3, 3] 1, [13, 13] 1
    0 to 4 are read: [0, 4) 3, [13, 13] 1
    all is read: […, …] 13
    all is dropped: Unknown
    ");
}
