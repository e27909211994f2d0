//! Tests that the survey of an index counts all keys, counts no byte twice, and counts the pages
//! that look-ups really read.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use crate::support;

use espalier_runtime::file::FileSystem;
use espalier_sstable::index::bti::{partition_index::PartitionIndexReader, survey::survey};
use espalier_sstable::{Component, PageCache};
use espalier_trie::page::{MemoryPages, Walker};
use support::{block_on, cases, open};

/// Counts look-ups by the number of pages that they read, for every stored prefix.
async fn pages_of_look_ups(file: &[u8]) -> Vec<u64> {
    let pages = MemoryPages(file);
    let index = PartitionIndexReader::open(pages, file.len() as u64).await.unwrap();
    let mut counts = Vec::new();
    let mut cursor = index.cursor(index.source());
    let mut found = cursor.first().await.unwrap();
    while found.is_some() {
        let mut walker = Walker::new(pages);
        walker.prefix(index.footer().root, cursor.prefix()).await.unwrap().unwrap();
        let pages = walker.pages_touched() as usize;
        counts.resize(counts.len().max(pages + 1), 0);
        counts[pages] += 1;
        found = cursor.next().await.unwrap();
    }
    counts
}

#[test]
fn nothing_is_missed_and_nothing_counted_twice() {
    let mut wide = 0;
    for case in cases() {
        for descriptor in &case.sstables {
            let reader = block_on(open(descriptor)).unwrap();
            if !reader.features().has_trie_index() {
                continue;
            }
            let found =
                block_on(survey(&FileSystem::real(), descriptor, &PageCache::new(1 << 20), |_| {}));
            let found = found.unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let partitions = &found.partitions;
            assert_eq!(partitions.payloads(), reader.partition_count(), "{}", case.name);
            let file = std::fs::read(descriptor.path(&Component::Partitions)).unwrap();
            let expected = block_on(pages_of_look_ups(&file));
            assert_eq!(partitions.pages_of_look_ups, expected, "{}", case.name);
            for trie in [partitions, &found.rows] {
                let file = std::fs::read(descriptor.path(&trie.component)).unwrap();
                assert_eq!(trie.file_bytes, file.len() as u64);
                let by_page: u64 = trie.pages.iter().map(|page| page.used_bytes()).sum();
                assert_eq!(by_page, trie.used_bytes(), "{}", case.name);
                // All other bytes are padding, and padding is zero.
                let zeroes = file.iter().filter(|byte| **byte == 0).count() as u64;
                assert!(trie.padding_bytes() <= zeroes, "{}: {trie:?}", case.name);
                // A trie that fits into a page needs no padding.
                if file.len() <= 4096 {
                    assert_eq!(trie.padding_bytes(), 0, "{}: {trie:?}", case.name);
                }
            }
            wide += found.rows.tries;
        }
    }
    assert!(wide > 0);
    println!("{wide} tries of rows");
}
