use espalier_mutation::{Clustering, DecoratedKey, path};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_sstable::{SSTable, VectorIndexWriter, VectorPoints};
use espalier_types::{CqlType, Similarity};

use super::*;
use crate::test_database::{open_sstable, table_builder, write_sstable};

const INDEX: &str = "by_v";
const OPTIONS: VectorIndexOptions =
    VectorIndexOptions { similarity: Similarity::Euclidean, dimension: 2, optimizes_recall: false };

/// Returns the place of a partition of one row.
fn place(table: &TableMetadata, key: i32) -> Vec<u8> {
    let key = DecoratedKey::new(Bytes::copy_from_slice(&key.to_be_bytes()));
    let mut place = Vec::new();
    path::put_partition(key.borrowed(), &mut place);
    path::put_row::<&[u8]>(table.comparator(), &[], &mut place);
    place
}

/// Writes an SSTable of one row whose component of vectors has `places`.
async fn sstable(places: &[Vec<u8>], table: &Arc<TableMetadata>) -> Rc<SSTable> {
    let file_system = FileSystem::simulated(1);
    let key = DecoratedKey::new(Bytes::from_static(b"0001"));
    let mut writer = write_sstable(&file_system, table, &key, Clustering::empty(), &[0; 8]).await;
    let (limits, shape) = (VectorLimits::default(), (OPTIONS.similarity, OPTIONS.dimension));
    let descriptor = writer.descriptor();
    let component =
        VectorIndexWriter::create(&file_system, descriptor, INDEX, "s", shape, &limits, true);
    let mut component = component.await.unwrap();
    let mut points = VectorPoints::new(OPTIONS.similarity, OPTIONS.dimension, &limits);
    for (number, place) in (1_u8..).zip(places) {
        points.push(place, &[f32::from(number), 1.0]);
    }
    component.write_segment(points, true).await.unwrap();
    writer.add_vector_index(component).await.unwrap();
    open_sstable(&file_system, table, writer).await
}

/// Returns a table with a column of vectors.
fn table() -> Arc<TableMetadata> {
    let v = CqlType::Vector { element: CqlType::Float.into(), dimension: 2 };
    let builder = table_builder("t", 1).partition_key("k", CqlType::Int);
    Arc::new(builder.regular("v", v).build())
}

/// Returns a search of SSTables.
fn search(sstables: &[Rc<SSTable>], table: &Arc<TableMetadata>) -> NearestPlaces {
    NearestPlaces {
        memtables: Vec::new(),
        files: sstables.iter().cloned().map(IndexFile::new).collect(),
        index: INDEX.into(),
        options: OPTIONS,
        vector: vec![1.0, 1.0],
        count: 10,
        limits: VectorLimits::default(),
        bound: None,
        compared: 0,
        table: table.clone(),
        listed: Listed::Rows,
    }
}

/// Returns whether a search finds damage, and whether it names the file.
async fn finds_damage(places: &[Vec<u8>], table: &Arc<TableMetadata>) -> (bool, bool) {
    let mut search = search(&[sstable(places, table).await], table);
    let outcome = search.next(&[], None, false).await;
    assert!(outcome.as_ref().err().is_none_or(entry::is_malformed));
    (outcome.is_err(), search.files().any(|file| file.forget_damaged(INDEX)))
}

#[test]
fn a_malformed_place_is_found_before_any_row_is_read() {
    let table = table();
    let (good, mut cut) = (place(&table, 1), place(&table, 2));
    cut.truncate(cut.len() - 3);
    block_on(async {
        assert_eq!(finds_damage(std::slice::from_ref(&good), &table).await, (false, false));
        // The search finds the place last, and the order of the table puts it anywhere.
        assert_eq!(finds_damage(&[good, cut], &table).await, (true, true));
    });
}

#[test]
fn a_malformed_place_condemns_only_the_sstable_that_has_it() {
    let table = table();
    let (good, mut cut) = (place(&table, 1), place(&table, 2));
    cut.truncate(cut.len() - 3);
    block_on(async {
        let sstables = [sstable(&[good], &table).await, sstable(&[cut], &table).await];
        let mut search = search(&sstables, &table);
        let error = search.next(&[], None, false).await.err().unwrap();
        assert!(entry::is_malformed(&error));
        let damaged: Vec<bool> = search.files().map(|file| file.forget_damaged(INDEX)).collect();
        assert_eq!(damaged, [false, true]);
    });
}

#[test]
fn places_come_once_and_in_the_order_of_the_table() {
    let table = table();
    // The search finds the places in this order.
    let found = [5, 3, 4, 1, 3, 2].map(|key| place(&table, key));
    let mut expected = found.to_vec();
    expected.sort();
    expected.dedup();
    block_on(async {
        let mut search = search(&[sstable(&found, &table).await], &table);
        let Places { places, is_last } = search.next(&[], None, false).await.unwrap();
        assert_eq!((places, is_last), (expected, true));
    });
}
