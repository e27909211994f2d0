//! Reads an SSTable in several ways: scans, dumps, look-ups by key and slice, and a verification.

use std::sync::Arc;

use espalier_mutation::{
    ClusteringBound, ClusteringSlice, ClusteringSlices, DecoratedKey, Direction, KeyBound,
    KeyRange, UnfilteredStream,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ColumnSelection, Descriptor, PageCache, Result, SSTableReader,
    dump::{Dump, ReadableDump},
    verify::verify,
};

/// Limits for small inputs that claim much: rows that are read, and bytes that are verified.
const MAX_STEPS: usize = 5000;
const MAX_VERIFIED_BYTES: u64 = 1 << 20;
/// Number of partitions that are looked up again by their keys.
const LOOKED_UP: usize = 3;

/// Opens, scans, looks up and verifies an SSTable. The results may be anything; the call must only
/// end.
pub async fn read_everything(file_system: &FileSystem, descriptor: &Descriptor) {
    let cache = PageCache::new(1 << 20);
    let opened = SSTableReader::open(file_system, descriptor.clone(), None, &cache).await;
    if let Ok(reader) = &opened {
        let mut keys = vec![reader.first_key().clone(), reader.last_key().clone()];
        let mut positions = Vec::new();
        let _ = scan(reader, &mut keys, &mut positions).await;
        keys.dedup();
        for key in keys.iter().take(LOOKED_UP) {
            let _ = look_up(reader, key, &positions).await;
        }
        if let Some(key) = keys.last() {
            let behind =
                KeyRange { start: KeyBound::AfterKey(key.clone()), end: KeyBound::Unbounded };
            let all = Arc::new(ClusteringSlices::all());
            if let Ok(mut scan) = reader.scan(behind, all, &ColumnSelection::All).await {
                let _ = scan.next_partition().await.is_ok();
            }
        }
    }
    if opened.is_err() || opened.is_ok_and(|reader| reader.data_length() < MAX_VERIFIED_BYTES) {
        let _ = verify(file_system, descriptor).await;
    }
}

async fn scan(
    reader: &SSTableReader,
    keys: &mut Vec<DecoratedKey>,
    positions: &mut Vec<ClusteringBound>,
) -> Result<()> {
    let table = reader.table();
    let raw = Dump { table: &table, full_values: false };
    let readable = ReadableDump::new(table.clone(), false);
    let mut line = Vec::new();
    let all = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), all, &ColumnSelection::All).await?;
    let mut steps = 0;
    while let Some(mut partition) = scan.next_partition().await? {
        if keys.len() < 2 * LOOKED_UP {
            keys.push(partition.header().key.clone());
        }
        raw.write_header(partition.header(), &mut line);
        while let Some(unfiltered) = partition.next().await? {
            if positions.len() < 64 {
                positions.push(unfiltered.position().to_bound(true));
            }
            raw.write_unfiltered(&unfiltered, &mut line);
            readable.write_unfiltered(&unfiltered, &mut line);
            line.clear();
            steps += 1;
            if steps > MAX_STEPS {
                return Ok(());
            }
        }
        steps += 1;
    }
    Ok(())
}

async fn look_up(
    reader: &SSTableReader,
    key: &DecoratedKey,
    positions: &[ClusteringBound],
) -> Result<()> {
    let table = reader.table();
    let mut choices = vec![Arc::new(ClusteringSlices::all())];
    for index in [0, positions.len() / 2, positions.len().saturating_sub(1)] {
        let Some(bound) = positions.get(index) else { continue };
        let one = ClusteringSlice::prefix(bound.values.clone());
        let rest = ClusteringSlice { end: ClusteringSlice::all().end, ..one.clone() };
        for slice in [one, rest] {
            choices.push(Arc::new(ClusteringSlices::normalise(vec![slice], table.comparator())));
        }
    }
    for slices in choices {
        for direction in [Direction::Forward, Direction::Reverse] {
            let all = ColumnSelection::All;
            let Ok(Some(mut stream)) =
                reader.read_partition(key, slices.clone(), direction, &all).await
            else {
                continue;
            };
            let mut steps = 0;
            while let Ok(Some(_)) = stream.next().await {
                steps += 1;
                if steps > MAX_STEPS {
                    break;
                }
            }
        }
    }
    Ok(())
}
