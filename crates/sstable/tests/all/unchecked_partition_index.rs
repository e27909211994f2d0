//! Tests files without Checksums.db. If Partitions.db is broken, a scan that begins at a key inside
//! the file must fail or return all keys from its start on. If a broken bit only hides a leaf,
//! verification must find it.

use crate::support;

use std::sync::Arc;

use espalier_mutation::{ClusteringSlices, DecoratedKey, KeyBound, KeyRange};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, ColumnSelection, Component, PageCache, SSTableError, SSTableReader, verify::verify,
};
use support::{
    block_on,
    broken::{Files, generated, store},
    generate::Shape,
};

async fn keys_from(
    file_system: &FileSystem,
    files: &Files,
    start: KeyBound,
) -> Result<Vec<DecoratedKey>, SSTableError> {
    let cache = PageCache::new(1 << 20);
    let reader = SSTableReader::open(file_system, files.descriptor.clone(), None, &cache).await?;
    let range = KeyRange { start, end: KeyBound::Unbounded };
    let slices = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(range, slices, &ColumnSelection::All).await?;
    let mut keys = Vec::new();
    while let Some(partition) = scan.next_partition().await? {
        keys.push(espalier_mutation::UnfilteredStream::header(&partition).key.clone());
    }
    Ok(keys)
}

#[test]
fn scans_from_inside() {
    let shape = Shape { partitions: 20, rows: 3, is_reconciled: true, is_odd: false };
    let files = generated(5, shape, ChunkFormat::PLAIN).without(&Component::Checksums);
    let content = files.components[&Component::Partitions].clone();
    block_on(async {
        let file_system = store(&files, None).await;
        let keys = keys_from(&file_system, &files, KeyBound::Unbounded).await.unwrap();
        assert!(keys.len() > 8);
        let (mut errors, mut silent) = (0, 0);
        for at in 0..content.len() {
            for bit in 0..8 {
                let mut broken = content.clone();
                broken[at] ^= 1 << bit;
                let file_system = store(&files, Some((&Component::Partitions, &broken))).await;
                let mut is_silent = false;
                for (index, key) in keys.iter().enumerate() {
                    let start = KeyBound::BeforeKey(key.clone());
                    match keys_from(&file_system, &files, start).await {
                        Ok(found) if found == keys[index..] => {}
                        Ok(_) => is_silent = true,
                        Err(_) => errors += 1,
                    }
                }
                silent += usize::from(is_silent);
                let is_noticed = !verify(&file_system, &files.descriptor).await.unwrap().is_ok();
                assert!(is_noticed || !is_silent, "bit {bit} of byte {at} loses keys unnoticed");
            }
        }
        // A leaf that is no longer reached does not show in a scan; only verification finds that it
        // is missing.
        assert!(errors > 1000 && silent < 100, "{errors} errors, {silent} bits that lose keys");
    });
}
