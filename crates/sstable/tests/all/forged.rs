//! Tests wrong content with right checksums, as a forger or a faulty writer makes it. A read must
//! neither panic nor run endlessly; it may return any content.

use crate::support;

use espalier_sstable::{ChunkFormat, Component, verify::verify};
use support::{
    block_on,
    broken::{Files, change, generated, read_all, store},
    generate::Shape,
    slicing::Random,
};

fn sample(seed: u64) -> Files {
    let shape =
        Shape { partitions: 5, rows: 40, is_reconciled: true, is_odd: seed.is_multiple_of(3) };
    generated(seed, shape, ChunkFormat::PLAIN).without(&Component::Checksums)
}

/// Reads and verifies the files. Returns true if the read found a fault.
fn read(files: &Files) -> bool {
    block_on(async {
        let file_system = store(files, None).await;
        let _ = verify(&file_system, &files.descriptor).await;
        read_all(&file_system, &files.descriptor, None).await.is_err()
    })
}

/// Replaces CRC.db by the right one for the plain Data.db.
fn reseal_data(files: &mut Files) {
    let chunk_length = 4096usize;
    let mut table = (chunk_length as u32).to_be_bytes().to_vec();
    for chunk in files.components[&Component::Data].chunks(chunk_length) {
        table.extend(crc32fast::hash(chunk).to_be_bytes());
    }
    files.components.insert(Component::Crc, table);
}

/// Returns the start of each part of Statistics.db, and the position of its checksum.
fn parts(statistics: &[u8]) -> Vec<(usize, usize)> {
    let word = |at: usize| u32::from_be_bytes(statistics[at..at + 4].try_into().unwrap()) as usize;
    let starts: Vec<_> = (0..word(0)).map(|part| word(8 + 8 * part + 4)).collect();
    let ends = starts.iter().skip(1).copied().chain([statistics.len()]);
    starts.iter().copied().zip(ends.map(|end| end - 4)).collect()
}

/// Returns the seeds of a test that has `all` of them in a full run, from 1 on.
fn seeds(all: u64) -> impl Iterator<Item = u64> {
    espalier_testing::seeds(all).map(|seed| seed + 1)
}

#[test]
fn forged_rows_with_right_checksums_do_not_panic() {
    let mut noticed = 0;
    for seed in seeds(24) {
        let mut random = Random(seed);
        let original = sample(seed);
        for _ in 0..150 {
            let mut files = Files {
                descriptor: original.descriptor.clone(),
                components: original.components.clone(),
            };
            let data = files.components.get_mut(&Component::Data).unwrap();
            for _ in 0..1 + random.below(3) {
                *data = change(data, &mut random);
            }
            reseal_data(&mut files);
            noticed += usize::from(read(&files));
        }
    }
    assert!(
        noticed > espalier_testing::at_least(100) as usize,
        "only {noticed} noticed: the data was not changed"
    );
}

#[test]
fn forged_statistics_with_right_checksums_do_not_panic() {
    let mut noticed = 0;
    for seed in seeds(11) {
        let mut random = Random(seed);
        let original = sample(seed);
        let content = &original.components[&Component::Statistics];
        for _ in 0..150 {
            let mut changed = content.clone();
            // The length stays the same, because the table of parts has a checksum of its own.
            let parts = parts(content);
            let (start, end) = parts[random.below(parts.len())];
            for _ in 0..1 + random.below(3) {
                let at = start + random.below(end - start);
                changed[at] = match random.below(3) {
                    0 => changed[at] ^ 1 << random.below(8),
                    1 => [0, 0x7F, 0x80, 0xFF][random.below(4)],
                    _ => random.below(256) as u8,
                };
            }
            let checksum = crc32fast::hash(&changed[start..end]);
            changed[end..end + 4].copy_from_slice(&checksum.to_be_bytes());
            let mut files = Files {
                descriptor: original.descriptor.clone(),
                components: original.components.clone(),
            };
            files.components.insert(Component::Statistics, changed);
            noticed += usize::from(read(&files));
        }
    }
    assert!(
        noticed > espalier_testing::at_least(50) as usize,
        "only {noticed} noticed: the statistics were not changed"
    );
}

#[test]
fn other_files() {
    for seed in seeds(8) {
        let mut random = Random(seed);
        let original = sample(seed);
        for component in [Component::Partitions, Component::Rows, Component::Crc, Component::Filter]
        {
            for _ in 0..60 {
                let Some(content) = original.components.get(&component) else { continue };
                let content = change(content, &mut random);
                block_on(async {
                    let file_system = store(&original, Some((&component, &content))).await;
                    let _ = verify(&file_system, &original.descriptor).await;
                    let _ = read_all(&file_system, &original.descriptor, None).await;
                });
            }
        }
    }
}
