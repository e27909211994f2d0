use std::{collections::BTreeSet, path::Path};

use espalier_runtime::{block_on, file::FileSystem};

use super::{SecondaryIndex, SecondaryIndexWriter};
use crate::{
    checksums::FileChecksums,
    components::{Component, Descriptor},
    page_cache::{CachedFile, PageCache, Part},
};

fn descriptor() -> Descriptor {
    Descriptor::parse(Path::new("/da-1-bti-Data.db")).unwrap().0
}

fn entries(seed: u64) -> BTreeSet<Vec<u8>> {
    (0..500_u64).map(|i| (seed + i * i * 7919 % 10_007).to_be_bytes().to_vec()).collect()
}

async fn written(file_system: &FileSystem) -> (Component, FileChecksums) {
    let (descriptor, signature) = (descriptor(), "v int");
    let writer = SecondaryIndexWriter::create(file_system, &descriptor, "i", signature, true);
    let mut writer = writer.await.unwrap();
    for seed in [1_000_000, 0] {
        for entry in entries(seed) {
            writer.add(&entry).unwrap();
            writer.make_room().await.unwrap();
        }
        assert!(writer.add(&0_u64.to_be_bytes()).is_err());
        writer.end_segment().unwrap();
    }
    let (component, file) = writer.finish().await.unwrap();
    (component, FileChecksums { length: file.length, pages: file.pages.into() })
}

async fn opened(
    file_system: &FileSystem,
    component: &Component,
    checksums: Option<FileChecksums>,
) -> crate::Result<SecondaryIndex> {
    let (cache, path) = (PageCache::new(1 << 20), descriptor().path(component));
    let file = CachedFile::open(file_system, &path, Part::Index, &cache, checksums).await?;
    SecondaryIndex::open(file).await
}

#[test]
fn each_segment_returns_its_entries_in_order() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let (component, checksums) = written(&file_system).await;
        assert_eq!(component.to_string(), "SecondaryIndex_i.db");
        let index = opened(&file_system, &component, Some(checksums)).await.unwrap();
        assert_eq!(index.signature(), "v int");
        assert_eq!(index.entry_count() as usize, entries(0).len() + entries(1_000_000).len());
        for (mut cursor, seed) in index.cursors(false).into_iter().zip([1_000_000, 0]) {
            let expected = entries(seed);
            let mut found = Vec::new();
            let mut is_there = cursor.seek(&[]).await.unwrap();
            while is_there {
                found.push(cursor.entry().to_vec());
                is_there = cursor.next().await.unwrap();
            }
            assert!(found.iter().eq(&expected));
            let place = (seed + 5000).to_be_bytes().to_vec();
            assert!(cursor.seek(&place).await.unwrap());
            assert_eq!(Some(cursor.entry()), expected.range(place..).next().map(Vec::as_slice));
            assert!(!cursor.seek(&[0xFF]).await.unwrap());
        }
    });
}

#[test]
fn damage_is_found_before_it_is_used() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let (component, checksums) = written(&file_system).await;
        assert!(opened(&file_system, &component, None).await.is_err());
        let path = descriptor().path(&component);
        let bytes = file_system.read(&path).await.unwrap().to_vec();
        for at in (0..bytes.len()).step_by(997).chain(bytes.len() - 20..bytes.len()) {
            let mut harmed = bytes.clone();
            harmed[at] ^= 4;
            file_system.remove_file(&path).await.unwrap();
            file_system.create_new(&path).await.unwrap().append(harmed).await.unwrap();
            let is_found = match opened(&file_system, &component, Some(checksums.clone())).await {
                Err(_) => true,
                Ok(index) => {
                    let mut is_found = false;
                    for mut cursor in index.cursors(true) {
                        let mut step = cursor.seek(&[]).await;
                        while let Ok(true) = step {
                            step = cursor.next().await;
                        }
                        is_found |= step.is_err();
                    }
                    is_found
                }
            };
            assert!(is_found, "byte {at}");
        }
    });
}
