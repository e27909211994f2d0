//! These tests run a compaction without tables and shards: two files, a few facts, and a statement
//! about the content of the memtables.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use espalier_mutation::{
    Cell as Value, Clustering, ColumnData, DecoratedKey, DeletionTime, PartitionHeader, Row,
    Unfiltered, UnfilteredStream,
    purge::PurgeLimits,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_sstable::{
    Descriptor, PageCache, SSTable, SSTableId, SSTableWriter, VectorLimits, WriterOptions,
    components::list_directory,
    versions::{SpecialData, Version, VersionFeatures},
};
use espalier_types::CqlType;
use futures_util::future::LocalBoxFuture;
use uuid::Uuid;

use crate::{
    CompactionContext, CompactionError, CompactionKind, Merged, OutputFactory, ShardLoad,
    TableCompactions, TableData, Throughput, compaction_id, merge, recover, strategy::Split,
};

const DIRECTORY: &str = "ks/t";
/// Deletions before this second may be purged.
const GC_BEFORE_S: u32 = 1000;

fn table() -> Arc<TableMetadata> {
    let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
        .partition_key("k", CqlType::Blob)
        .regular("v", CqlType::Blob)
        .build();
    Arc::new(table)
}

fn features() -> &'static VersionFeatures {
    Version::named("da").unwrap()
}

fn named(number: u64) -> Descriptor {
    let id = SSTableId::Generation(number.try_into().unwrap());
    Descriptor::new(PathBuf::from(DIRECTORY), features(), id)
}

/// A partition of one row: its key, and the row's value or deletion at a timestamp in µs.
type Partition = (&'static str, i64, Option<&'static str>);

async fn write(file_system: &FileSystem, number: u64, partitions: &[Partition]) -> Rc<SSTable> {
    let metadata = table();
    let options = WriterOptions::for_table(named(number), metadata.clone()).unwrap();
    let mut writer = SSTableWriter::create(file_system, options).await.unwrap();
    let mut sorted: Vec<(DecoratedKey, i64, Option<&str>)> = partitions
        .iter()
        .map(|(key, timestamp, value)| {
            (DecoratedKey::new(Bytes::from_static(key.as_bytes())), *timestamp, *value)
        })
        .collect();
    sorted.sort_by(|left, right| left.0.cmp(&right.0));
    for (key, timestamp, value) in sorted {
        let header = PartitionHeader { key, deletion: DeletionTime::LIVE, static_row: None };
        writer.start_partition(header).unwrap();
        let mut row = Row::empty(Clustering::empty());
        match value {
            Some(value) => {
                let id = metadata.column("v").unwrap().id;
                let cell = Value::live(timestamp, Bytes::copy_from_slice(value.as_bytes()));
                row.columns.push((id, ColumnData::Simple(cell)));
            }
            None => row.deletion = DeletionTime::new(timestamp, GC_BEFORE_S - 1),
        }
        writer.add(Unfiltered::Row(row)).await.unwrap();
        writer.end_partition().await.unwrap();
    }
    let written = writer.finish().await.unwrap().unwrap();
    let cache = PageCache::new(1 << 20);
    Rc::new(SSTable::open(file_system, &metadata, written.descriptor, &cache).await.unwrap())
}

/// A table with some SSTables, and memtables that hold something of all partitions.
struct Data {
    sstables: Rc<[Rc<SSTable>]>,
    oldest_in_memory: Option<i64>,
}

impl TableData for Data {
    fn sstables(&self) -> Rc<[Rc<SSTable>]> {
        self.sstables.clone()
    }

    fn oldest_in_memory(&self, _: &DecoratedKey, _: &mut Vec<u8>) -> Option<i64> {
        self.oldest_in_memory
    }

    fn minimum_timestamp_in_memory(&self) -> Option<i64> {
        self.oldest_in_memory
    }
}

struct Outputs(Cell<u64>);

impl OutputFactory for Outputs {
    fn next<'a>(
        &'a self,
        metadata: &'a Arc<TableMetadata>,
        _: SpecialData,
    ) -> LocalBoxFuture<'a, Result<WriterOptions, CompactionError>> {
        Box::pin(async move {
            self.0.set(self.0.get() + 1);
            Ok(WriterOptions::for_table(named(self.0.get()), metadata.clone())?)
        })
    }
}

struct Idle(Throughput);

impl ShardLoad for Idle {
    fn running_compactions(&self) -> usize {
        1
    }

    fn throughput(&self) -> &Throughput {
        &self.0
    }

    fn shard_count(&self) -> usize {
        1
    }
}

fn context(file_system: &FileSystem, data: Data) -> CompactionContext {
    CompactionContext {
        file_system: file_system.clone(),
        metadata: table(),
        directory: DIRECTORY.into(),
        version: features().version,
        host: Uuid::nil(),
        oldest_segment: None,
        limits: PurgeLimits { now_s: 2000, gc_before_s: GC_BEFORE_S },
        read_ahead_bytes: 1 << 20,
        vector_limits: VectorLimits::default(),
        table: Rc::new(data),
        outputs: Rc::new(Outputs(Cell::new(100))),
        load: Rc::new(Idle(Throughput::new(None))),
    }
}

/// Merges files of these partitions. Returns the content of each partition of the output: a value,
/// or nothing but a deletion.
fn compacted(
    inputs: &[&[Partition]],
    outside: &[Partition],
    oldest_in_memory: Option<i64>,
) -> Vec<(String, Option<String>)> {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        file_system.create_dir_all(DIRECTORY).await.unwrap();
        let mut opened = Vec::new();
        for (number, partitions) in (1..).zip(inputs) {
            opened.push(write(&file_system, number, partitions).await);
        }
        let mut all = opened.clone();
        if !outside.is_empty() {
            all.push(write(&file_system, 50, outside).await);
        }
        let compactions = Rc::new(TableCompactions::default());
        let guard = compactions.begin(compaction_id(), CompactionKind::Major, opened).unwrap();
        let data = Data { sstables: all.into(), oldest_in_memory };
        let context = context(&file_system, data);
        let merged = merge(context, &guard.running, 0, Split::Never, None).await.unwrap();
        let Merged { written, transaction, .. } = merged.unwrap();
        let removed: Vec<Descriptor> =
            guard.running.inputs.iter().map(|input| input.descriptor().clone()).collect();
        assert!(transaction.commit(&removed).await.is_ok());
        transaction.finish(&removed).await.unwrap();
        let mut found = Vec::new();
        for output in written.unwrap() {
            let cache = PageCache::new(1 << 20);
            let opened = SSTable::open(&file_system, &table(), output.descriptor, &cache).await;
            found.extend(content_of(&opened.unwrap()).await);
        }
        found.sort();
        found
    })
}

async fn content_of(sstable: &SSTable) -> Vec<(String, Option<String>)> {
    use espalier_mutation::{ClusteringSlices, KeyRange};
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let all = Arc::new(ClusteringSlices::all());
    let mut scan = sstable.reader().scan_as(&table(), KeyRange::full(), all).await.unwrap();
    let mut found = Vec::new();
    while let Some(mut partition) = scan.next_partition().await.unwrap() {
        let key = text(&partition.header().key.key);
        while let Some(fragment) = partition.next().await.unwrap() {
            let Unfiltered::Row(row) = fragment else { panic!("no row: {fragment:?}") };
            let value = row.columns.first().map(|(_, data)| match data {
                ColumnData::Simple(cell) => text(&cell.value),
                ColumnData::Complex(_) => panic!("v is no collection"),
            });
            found.push((key.clone(), value));
        }
    }
    found
}

fn found(key: &str, value: Option<&str>) -> (String, Option<String>) {
    (key.into(), value.map(str::to_owned))
}

#[test]
fn the_later_write_of_two_files_wins() {
    let old: &[Partition] = &[("a", 1, Some("old")), ("b", 5, Some("kept"))];
    let new: &[Partition] = &[("a", 2, Some("new")), ("c", 3, Some("alone"))];
    let expected = [found("a", Some("new")), found("b", Some("kept")), found("c", Some("alone"))];
    assert_eq!(compacted(&[old, new], &[], None), expected);
    assert_eq!(compacted(&[new, old], &[], None), expected);
}

#[test]
fn a_deletion_is_purged_unless_data_outside_may_be_older() {
    let old: &[Partition] = &[("a", 10, Some("covered")), ("b", 10, Some("kept"))];
    let new: &[Partition] = &[("a", 20, None)];
    let (purged, stays) =
        ([found("b", Some("kept"))], [found("a", None), found("b", Some("kept"))]);
    assert_eq!(compacted(&[old, new], &[], None), purged);
    // A later write in a memtable cannot be covered, an earlier one may be.
    assert_eq!(compacted(&[old, new], &[], Some(21)), purged);
    assert_eq!(compacted(&[old, new], &[], Some(5)), stays);
    // A file that is not compacted counts likewise, if it may have the partition.
    assert_eq!(compacted(&[old, new], &[("a", 21, Some("later"))], None), purged);
    assert_eq!(compacted(&[old, new], &[("a", 5, Some("earlier"))], None), stays);
}

#[test]
fn a_stopped_compaction_leaves_its_inputs_alone() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        file_system.create_dir_all(DIRECTORY).await.unwrap();
        let mut partitions = Vec::new();
        let keys: Vec<&'static str> =
            (0..100).map(|number| &*Box::leak(format!("key {number}").into_boxed_str())).collect();
        partitions.extend(keys.into_iter().map(|key| (key, 1, Some("value"))));
        let input = write(&file_system, 1, &partitions).await;
        let before = file_system.read_dir(DIRECTORY).await.unwrap().len();
        let compactions = Rc::new(TableCompactions::default());
        let kind = CompactionKind::Major;
        let guard = compactions.begin(compaction_id(), kind, vec![input.clone()]).unwrap();
        assert!(compactions.begin(compaction_id(), kind, vec![input.clone()]).is_none());
        guard.running.stop();
        let data = Data { sstables: [input].into(), oldest_in_memory: None };
        let context = context(&file_system, data);
        let merged = merge(context, &guard.running, 0, Split::Never, None).await.unwrap();
        assert!(merged.is_none());
        assert_eq!(file_system.read_dir(DIRECTORY).await.unwrap().len(), before);
    });
}

/// An operator has copied an SSTable into the directory, under the name that the compaction has
/// chosen for its output.
#[test]
fn a_crash_leaves_an_sstable_that_has_the_name_of_an_output() {
    for operations in 0.. {
        let file_system = FileSystem::simulated(operations);
        let disk = file_system.simulated_disk().unwrap();
        block_on(async {
            file_system.create_dir_all(DIRECTORY).await.unwrap();
            let input = write(&file_system, 1, &[("a", 1, Some("input"))]).await;
            write(&file_system, 101, &[("b", 1, Some("copy"))]).await;
            let compactions = Rc::new(TableCompactions::default());
            let inputs = vec![input.clone()];
            let guard = compactions.begin(compaction_id(), CompactionKind::Major, inputs).unwrap();
            let data = Data { sstables: [input].into(), oldest_in_memory: None };
            let context = context(&file_system, data);
            disk.power_off_after(operations);
            let merged = merge(context, &guard.running, 0, Split::Never, None).await;
            assert!(merged.is_err(), "{operations}");
        });
        for seed in 0..4 {
            let crashed = FileSystem::on(disk.crash(seed));
            block_on(async {
                let directory = Path::new(DIRECTORY);
                recover(&crashed, directory).await.unwrap();
                let found = list_directory(&crashed, directory).await.unwrap();
                assert_eq!(found.sealed, [named(1), named(101)], "{operations}, seed {seed}");
            });
        }
        if !disk.is_power_off() {
            break;
        }
    }
}
