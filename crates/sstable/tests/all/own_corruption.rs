//! Checks that a read of damaged files fails or returns all content. Espalier's own files have a
//! checksum for every page of every file that is read.

use crate::support;

use espalier_sstable::{ChunkFormat, Component, verify::verify, versions::VERSIONS};
use support::{
    block_on,
    broken::{change, generated, generated_as, read_all, store},
    generate::Shape,
    slicing::Random,
    writing::compressed,
};

fn check(seed: u64, chunks: ChunkFormat, tries: usize) {
    let shape =
        Shape { partitions: 6, rows: 60, is_reconciled: true, is_odd: seed.is_multiple_of(2) };
    let files = generated(seed, shape, chunks);
    assert!(files.components.contains_key(&Component::Checksums));
    let original = block_on(async {
        let file_system = store(&files, None).await;
        read_all(&file_system, &files.descriptor, None).await.unwrap()
    });
    let mut random = Random(seed + 1);
    let (mut errors, mut same) = (0, 0);
    for (component, content) in &files.components {
        for number in 0..tries {
            let broken = match number {
                0 => Vec::new(),
                1 => content[..content.len() / 2].to_vec(),
                2 => [content, &b"more"[..]].concat(),
                _ => change(content, &mut random),
            };
            let read = block_on(async {
                let file_system = store(&files, Some((component, &broken))).await;
                read_all(&file_system, &files.descriptor, Some(&original.2)).await
            });
            match read {
                Err(_) => errors += 1,
                Ok(read) => {
                    assert!(
                        read == original,
                        "seed {seed}: {component}, change {number}: other content"
                    );
                    same += 1;
                }
            }
        }
    }
    assert!(errors > same / 2, "{errors} errors, {same} changes without effect");
}

/// Returns the number of changes of each component.
fn changes() -> usize {
    if espalier_testing::runs_all() { 60 } else { 10 }
}

#[test]
fn plain() {
    espalier_testing::seeds(4).for_each(|seed| check(seed + 1, ChunkFormat::PLAIN, changes()));
}

#[test]
fn compressed_chunks() {
    check(7, compressed("LZ4Compressor", 4096, 0.0), changes());
    check(8, compressed("LZ4Compressor", 1024, 1.1), changes());
    check(9, compressed("ZstdCompressor", 4096, 0.0), changes());
    check(10, compressed("DeflateCompressor", 16_384, 0.0), changes());
    check(11, compressed("SnappyCompressor", 512, 2.0), changes());
}

/// In every version that can be written, verification finds any changed byte, also a byte that a
/// read does not use.
#[test]
fn verification_finds_every_change() {
    let shape = Shape { partitions: 4, rows: 8, is_reconciled: true, is_odd: false };
    for row in VERSIONS.iter().filter(|row| row.is_written) {
        let chunks = compressed("LZ4Compressor", 4096, 0.0);
        let files = generated_as(row.version, 3, shape, chunks);
        let mut random = Random(5);
        for (component, content) in files.components.iter().filter(|(_, c)| !c.is_empty()) {
            for _ in 0..espalier_testing::cases(150) {
                let mut broken = content.clone();
                let byte = random.below(content.len());
                broken[byte] ^= 1 + random.below(255) as u8;
                // White space around the lines of a text has no meaning.
                if *component == Component::Toc && broken.trim_ascii() == content.trim_ascii() {
                    continue;
                }
                let report = block_on(async {
                    let file_system = store(&files, Some((component, &broken))).await;
                    verify(&file_system, &files.descriptor).await
                });
                // A change that looks like an unsupported feature ends the verification with an
                // error.
                let is_missed = report.is_ok_and(|report| report.is_ok());
                assert!(!is_missed, "{}: byte {byte} of {component}", row.version);
            }
        }
    }
}
