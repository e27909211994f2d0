use std::{alloc::System, collections::BTreeSet, path::Path};

use espalier_mutation::{DecoratedKeyRef, path, put_entry_value};
use espalier_runtime::{
    allocation::{Counted, count_allocations, thread_allocations},
    block_on,
    file::FileSystem,
    random,
};
use espalier_testing::{at_least, seeds};
use espalier_trie::page::PAGE_SIZE;
use espalier_types::byte_comparable::TERMINATOR;

use super::{IndexRuns, SecondaryIndex, SecondaryIndexWriter};
use crate::{
    checksums::{FileChecksums, PageChecksums},
    components::{Component, Descriptor},
    error::SSTableError,
    page_cache::{CachedFile, PageCache, Part},
};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted::new(System, || ());

const PARTITIONS: u64 = 3;

fn descriptor() -> Descriptor {
    Descriptor::parse(Path::new("/da-1-bti-Data.db")).unwrap().0
}

/// Returns the entry of a row with this value and key. Without a row, returns the entry of the
/// partition.
fn entry(form: &[u8], key: &[u8], row: Option<&[u8]>) -> Vec<u8> {
    let mut entry = Vec::new();
    put_entry_value(form, &mut entry);
    path::put_partition(DecoratedKeyRef::new(key), &mut entry);
    if let Some(row) = row {
        entry.extend_from_slice(row);
        entry.push(TERMINATOR);
    }
    entry
}

/// Returns the byte-comparable form of a bigint.
fn bigint(value: u64) -> Vec<u8> {
    [&[0x40][..], &(value ^ 1 << 63).to_be_bytes(), &[0x38]].concat()
}

fn bytes(most: u64, of: u64) -> Vec<u8> {
    (0..random::below(most)).map(|_| random::below(of) as u8).collect()
}

fn random_key() -> [u8; 16] {
    std::array::from_fn(|_| random::below(256) as u8)
}

/// Returns random entries that share values, keys and beginnings of rows, some of them long.
fn random_entries(count: u64) -> BTreeSet<Vec<u8>> {
    let long = |bytes: Vec<u8>| match random::below(60) {
        0 => [vec![7; 30 << random::below(9)], bytes].concat(),
        _ => bytes,
    };
    let pool = |count: u64| -> Vec<Vec<u8>> {
        (0..1 + random::below(count)).map(|_| long(bytes(12, 1 + random::below(256)))).collect()
    };
    let (forms, keys) = (pool(count), pool(count));
    let has_rows = random::below(4) > 0;
    let any = |pool: &[Vec<u8>]| pool[random::below(pool.len() as u64) as usize].clone();
    (0..count)
        .map(|_| {
            let row = has_rows.then(|| long(bytes(9, 5)));
            entry(&any(&forms), &any(&keys), row.as_deref())
        })
        .collect()
}

async fn writer(file_system: &FileSystem) -> SecondaryIndexWriter {
    let descriptor = descriptor();
    SecondaryIndexWriter::create(file_system, &descriptor, "i", "v int", true).await.unwrap()
}

/// Writes the component. Returns its checksums.
async fn write(file_system: &FileSystem, entries: &BTreeSet<Vec<u8>>) -> FileChecksums {
    let mut writer = writer(file_system).await;
    for entry in entries {
        writer.add(entry).unwrap();
        writer.make_room().await.unwrap();
    }
    finish(writer).await
}

async fn finish(writer: SecondaryIndexWriter) -> FileChecksums {
    let (component, file) = writer.finish(PARTITIONS).await.unwrap();
    assert_eq!(component.to_string(), "SecondaryIndex_i.db");
    FileChecksums { length: file.length, pages: file.pages.into() }
}

fn component() -> Component {
    Component::SecondaryIndex("i".into())
}

async fn open(
    file_system: &FileSystem,
    checksums: Option<FileChecksums>,
) -> crate::Result<SecondaryIndex> {
    let (cache, path) = (PageCache::new(16 << 20), descriptor().path(&component()));
    let file = CachedFile::open(file_system, &path, Part::Index, &cache, checksums).await?;
    SecondaryIndex::open(file, PARTITIONS).await
}

/// Returns all entries of a component.
async fn all(index: &SecondaryIndex) -> crate::Result<Vec<Vec<u8>>> {
    let (mut cursor, mut found) = (index.cursor(true).unwrap(), Vec::new());
    let mut is_there = cursor.seek(&[]).await?;
    while is_there {
        found.push(cursor.entry().to_vec());
        is_there = cursor.next().await?;
    }
    Ok(found)
}

/// Returns the entry itself, or bytes that differ a little from it.
fn near(entry: &[u8]) -> Vec<u8> {
    let mut near = entry.to_vec();
    match random::below(5) {
        0 => near.push(random::below(256) as u8),
        1 => near.truncate(random::below(entry.len() as u64 + 1) as usize),
        2 => {
            near.truncate(random::below(entry.len() as u64) as usize);
            near.push(path::BEHIND);
        }
        3 => near[random::below(entry.len() as u64) as usize] ^= 1 << random::below(8),
        _ => {}
    }
    near
}

#[test]
fn a_cursor_agrees_with_a_sorted_set() {
    block_on(async {
        for seed in seeds(300) {
            println!("seed {seed}");
            random::seed(seed);
            let file_system = FileSystem::simulated(seed);
            let most = [0, 1, 20, 3000][random::below(4) as usize];
            let entries = random_entries(most);
            let checksums = write(&file_system, &entries).await;
            let index = open(&file_system, Some(checksums)).await.unwrap();
            assert_eq!(index.signature(), "v int");
            assert_eq!(index.entry_count(), entries.len() as u64);
            assert!(all(&index).await.unwrap().iter().eq(&entries));
            let list: Vec<_> = entries.iter().collect();
            let mut cursor = index.cursor(seed % 2 == 0).unwrap();
            assert!(!cursor.next().await.unwrap());
            for _ in 0..200 {
                let at = random::below(entries.len().max(1) as u64) as usize;
                let target = list.get(at).map_or_else(Vec::new, |entry| near(entry));
                let mut expected = entries.range(target.clone()..);
                let mut is_there = cursor.seek(&target).await.unwrap();
                for _ in 0..random::below(1 << random::below(8)) {
                    let found = is_there.then(|| cursor.entry());
                    assert_eq!(found, expected.next().map(Vec::as_slice), "from {target:x?}");
                    if !is_there {
                        break;
                    }
                    is_there = cursor.next().await.unwrap();
                }
            }
        }
    });
}

#[test]
fn runs_are_merged_into_one() {
    block_on(async {
        for seed in seeds(100) {
            println!("seed {seed}");
            random::seed(seed);
            let file_system = FileSystem::simulated(seed);
            let mut runs = IndexRuns::create(&file_system, &descriptor(), "i").await.unwrap();
            let mut expected = BTreeSet::new();
            for _ in 0..random::below(9) {
                let entries = random_entries(random::below(400));
                for entry in &entries {
                    runs.add(entry).unwrap();
                    runs.make_room().await.unwrap();
                }
                runs.end_run();
                // The next run repeats some entries.
                for entry in entries.iter().step_by(7) {
                    runs.add(entry).unwrap();
                }
                runs.end_run();
                expected.extend(entries);
            }
            let mut writer = writer(&file_system).await;
            runs.merge_into(&mut writer).await.unwrap();
            let checksums = finish(writer).await;
            let index = open(&file_system, Some(checksums)).await.unwrap();
            assert!(all(&index).await.unwrap().iter().eq(&expected));
            assert_eq!(file_system.read_dir("/").await.unwrap().len(), 1, "the runs are removed");
        }
    });
}

/// Returns entries of rows like those of `bench/secondary_indexes.py`. `values` is the number of
/// different values. If it is 0, the values are random.
fn entries_of_bench(rows: u64, values: u64) -> BTreeSet<Vec<u8>> {
    (0..rows)
        .map(|row| {
            // The factor 4 spreads random values over all 64 bits.
            let value = if values == 0 { random::below(1 << 62) * 4 } else { row % values };
            entry(&bigint(value), &random_key(), Some(&[]))
        })
        .collect()
}

#[test]
fn an_entry_takes_fewer_bytes_than_in_cassandra() {
    block_on(async {
        // Cassandra 5.0.9 needs 31.3 bytes for a row with a random value, and 29.6 for a row with
        // one of 100 values.
        for (values, most) in [(0, 26), (100, 18)] {
            let file_system = FileSystem::simulated(1);
            let entries = entries_of_bench(100_000, values);
            let length = write(&file_system, &entries).await.length;
            let each = length as f64 / entries.len() as f64;
            println!("{values} values: {each:.2} bytes an entry");
            assert!(each < f64::from(most), "{each} bytes an entry of {values} values");
        }
    });
}

#[test]
fn an_entry_is_passed_without_an_allocation() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        for values in [0, 100] {
            let entries = entries_of_bench(20_000, values);
            let checksums = write(&file_system, &entries).await;
            let index = open(&file_system, Some(checksums)).await.unwrap();
            let mut cursor = index.cursor(false).unwrap();
            let mut allocations = 0;
            count_allocations();
            // During the first pass, pages are read and the buffers grow.
            for _ in 0..2 {
                let before = thread_allocations();
                let (mut passed, mut is_there) = (0, cursor.seek(&[]).await.unwrap());
                while is_there {
                    passed += 1;
                    is_there = cursor.next().await.unwrap();
                }
                assert_eq!(passed, entries.len());
                allocations = thread_allocations() - before;
            }
            assert_eq!(allocations, 0, "of a pass");
            for _ in 0..2 {
                let before = thread_allocations();
                for entry in entries.iter().step_by(3) {
                    assert!(cursor.seek(entry).await.unwrap());
                    assert_eq!(cursor.entry(), entry);
                }
                allocations = thread_allocations() - before;
            }
            assert_eq!(allocations, 0, "of seeks");
            file_system.remove_file(descriptor().path(&component())).await.unwrap();
        }
    });
}

#[test]
fn malformed_entries_are_refused() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let mut writer = writer(&file_system).await;
        let good = entry(b"value", b"key", Some(&[1, 2]));
        writer.add(&good).unwrap();
        assert!(writer.add(&good).is_err());
        assert!(writer.add(&entry(b"earlier", b"key", None)).is_err());
        let mut other_token = entry(b"w", b"key", Some(&[]));
        // The value has four bytes; the token lies behind the separator.
        other_token[4 + 8] ^= 1;
        assert!(writer.add(&other_token).is_err());
        let whole = entry(b"x", b"key", Some(&[1, 2]));
        for length in 0..whole.len() {
            // An entry that ends after the path of the partition is valid.
            let is_entry = whole[..length] == entry(b"x", b"key", None);
            assert_eq!(writer.add(&whole[..length]).is_ok(), is_entry, "{length}");
        }
        writer.add(&whole).unwrap();
    });
}

#[test]
fn written_bytes_are_those_of_the_format_pages_example() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let row = |value: u32, key: u32| {
            let form = [&[0x40][..], &(value ^ 1 << 31).to_be_bytes(), &[0x38]].concat();
            entry(&form, &key.to_be_bytes(), Some(&[]))
        };
        write(&file_system, &[row(7, 1), row(7, 2), row(9, 3)].into()).await;
        let mut block = vec![0, 0, 0, 0x17, 0, 0];
        block.extend([0xE0, 6, 4, 1, 0x40, 0x80, 0, 0, 7, 0x38, 0, 0, 0, 1]);
        block.extend([9, 2]);
        block.extend([4, 9, 0x38, 0, 0, 0, 3]);
        block.resize(PAGE_SIZE, 0);
        let mut description = vec![0, 0, 0, 5];
        description.extend(b"v int");
        let numbers = [PARTITIONS, 3, 1, 0, PAGE_SIZE as u64];
        numbers.iter().for_each(|number| description.extend(number.to_be_bytes()));
        description.extend([0, 0, 0, 2, 0x65, 0x73, 0x70, 0x78]);
        assert_eq!(read(&file_system).await, [block, description].concat());
    });
}

async fn replace(file_system: &FileSystem, bytes: Vec<u8>) {
    let path = descriptor().path(&component());
    file_system.remove_file(&path).await.unwrap();
    file_system.create_new(&path).await.unwrap().append(bytes).await.unwrap();
}

async fn read(file_system: &FileSystem) -> Vec<u8> {
    file_system.read(descriptor().path(&component())).await.unwrap().to_vec()
}

fn checksums_of(bytes: &[u8]) -> FileChecksums {
    let mut checksums = PageChecksums::default();
    checksums.add(bytes);
    FileChecksums { length: bytes.len() as u64, pages: checksums.finish().into() }
}

#[test]
fn damage_is_found_before_it_is_used() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let checksums = write(&file_system, &random_entries(3000)).await;
        assert!(open(&file_system, None).await.is_err());
        let whole = read(&file_system).await;
        // The last page has the description. To read all entries, the cursor does not need all
        // pages of the trie, so damage there may remain unnoticed.
        let pages = whole[whole.len() - 32..].first_chunk().map(|pages| u64::from_be_bytes(*pages));
        let trie = pages.unwrap() as usize..(whole.len() - 1) / PAGE_SIZE;
        for at in (0..whole.len()).step_by(1997).chain(whole.len() - 20..whole.len()) {
            let mut harmed = whole.clone();
            harmed[at] ^= 4;
            replace(&file_system, harmed).await;
            let is_found = match open(&file_system, Some(checksums.clone())).await {
                Err(_) => true,
                Ok(index) => all(&index).await.is_err(),
            };
            assert!(is_found || trie.contains(&(at / PAGE_SIZE)), "byte {at}");
        }
    });
}

#[test]
fn a_hostile_file_is_an_error_and_no_panic() {
    block_on(async {
        let mut found = [0, 0];
        for seed in seeds(600) {
            println!("seed {seed}");
            random::seed(seed);
            let file_system = FileSystem::simulated(seed);
            let entries = random_entries([20, 800][seed as usize % 2]);
            write(&file_system, &entries).await;
            let mut bytes = read(&file_system).await;
            for _ in 0..1 + random::below(3) {
                // Headers, the trie and the description are a small part of the file, so two of
                // three changes are made near the start or the end.
                let at = match random::below(3) {
                    0 => random::below(bytes.len() as u64),
                    1 => random::below(40.min(bytes.len() as u64)),
                    _ => bytes.len() as u64 - 1 - random::below(200.min(bytes.len() as u64)),
                };
                bytes[at as usize] ^= 1 << random::below(8);
            }
            let checksums = checksums_of(&bytes);
            replace(&file_system, bytes).await;
            let checked = |error: &SSTableError| {
                let is_meant = matches!(
                    error,
                    SSTableError::Corrupt { .. } | SSTableError::Unsupported { .. }
                );
                assert!(is_meant, "{error}");
            };
            let index = match open(&file_system, Some(checksums)).await {
                Ok(index) => index,
                Err(error) => {
                    checked(&error);
                    found[0] += 1;
                    continue;
                }
            };
            match all(&index).await {
                Ok(found) => assert!(found.is_sorted()),
                Err(error) => {
                    checked(&error);
                    found[1] += 1;
                }
            }
            let mut cursor = index.cursor(false).unwrap();
            for entry in entries.iter().step_by(5) {
                let target = near(entry);
                match cursor.seek(&target).await {
                    Ok(true) => assert!(cursor.entry() >= &*target),
                    Ok(false) => {}
                    Err(error) => checked(&error),
                }
            }
        }
        let [of_description, of_blocks] = found;
        println!("{of_description} files were refused, {of_blocks} had damaged blocks");
        assert!(of_description >= at_least(100) && of_blocks >= at_least(100));
    });
}

#[test]
fn files_of_another_version_or_another_table_are_refused() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        write(&file_system, &random_entries(20)).await;
        let whole = read(&file_system).await;
        let mut version_1 = whole.clone();
        let version = whole.len() - 5;
        version_1[version] = 1;
        let checksums = checksums_of(&version_1);
        replace(&file_system, version_1).await;
        let opened = open(&file_system, Some(checksums)).await;
        assert!(matches!(opened, Err(SSTableError::Unsupported { .. })));
        replace(&file_system, whole.clone()).await;
        let (cache, path) = (PageCache::new(1 << 20), descriptor().path(&component()));
        let checksums = Some(checksums_of(&whole));
        let file = CachedFile::open(&file_system, &path, Part::Index, &cache, checksums);
        let opened = SecondaryIndex::open(file.await.unwrap(), PARTITIONS + 1).await;
        assert!(matches!(opened, Err(SSTableError::Corrupt { .. })));
    });
}
