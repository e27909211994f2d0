//! Tests broken files: with a flipped bit, cut off, extended or missing. They must never cause a
//! panic. An error must name a file, a fault in checksummed bytes must always be an error, and if
//! verification finds no fault, all content must be right.
#![allow(clippy::disallowed_methods, reason = "fixtures are read before anything runs")]

use crate::support;

use espalier_mutation::DecoratedKey;
use espalier_sstable::{Component, SSTableError, verify::verify};
use support::{
    block_on,
    broken::{Files, load, read_all, store},
    own_cases,
    slicing::Random,
};

/// Returns true if a read compares checksums of every byte of a component.
fn is_checked(component: &Component) -> bool {
    matches!(component, Component::Data | Component::Statistics)
}

fn assert_names_a_file(error: &SSTableError) {
    let text = error.to_string();
    assert!(["da-", "oa-", "nb-"].iter().any(|version| text.contains(version)), "{text}");
    assert!(text.contains("-bti-") || text.contains("-big-"), "{text}");
}

struct Original {
    scanned: Vec<String>,
    looked_up: Vec<String>,
    keys: Vec<DecoratedKey>,
}

async fn check_broken(
    files: &Files,
    original: &Original,
    component: &Component,
    content: &[u8],
    what: &str,
) {
    let file_system = store(files, Some((component, content))).await;
    let read = read_all(&file_system, &files.descriptor, Some(&original.keys)).await;
    let is_same = match &read {
        Ok((scanned, looked_up, _)) => {
            // Cassandra's compactions end with an empty chunk, which only verification reads.
            let in_empty_chunk = *component == Component::Data && what.contains("compacted");
            assert!(
                !is_checked(component) || in_empty_chunk,
                "{component} {what}: read as if nothing was wrong"
            );
            // Indexes have no checksums, so a look-up may miss a key. Scans do not depend on
            // indexes.
            assert!(scanned == &original.scanned, "{component} {what}: a scan gives other content");
            looked_up == &original.looked_up
        }
        Err(error) => {
            assert_names_a_file(error);
            false
        }
    };
    match verify(&file_system, &files.descriptor).await {
        Ok(report) => {
            let may_be_ok = is_same && !is_checked(component);
            assert!(may_be_ok || !report.is_ok(), "{component} {what}: not noticed");
        }
        Err(error) => assert_names_a_file(&error),
    }
}

fn each(mut break_it: impl FnMut(&str, &Files, &Original, &mut Random)) {
    for case in own_cases() {
        for descriptor in &case.sstables {
            let files = load(descriptor);
            let mut random = Random(11);
            let (scanned, looked_up, keys) = block_on(async {
                let file_system = store(&files, None).await;
                read_all(&file_system, &files.descriptor, None).await
            })
            .unwrap();
            let original = Original { scanned, looked_up, keys };
            break_it(&case.name, &files, &original, &mut random);
        }
    }
}

/// Returns the number of tries for a file: fewer for more content, because each try reads all of
/// it. `make test` makes a tenth of these tries.
fn tries(original: &Original) -> usize {
    let all = (3000 / original.looked_up.len().max(1)).clamp(3, 60);
    if espalier_testing::runs_all() { all } else { all.div_ceil(10) }
}

#[test]
fn flipped_bits() {
    each(|name, files, original, random| {
        for (component, content) in files.components.iter().filter(|(_, c)| !c.is_empty()) {
            for _ in 0..tries(original) {
                let (byte, bit) = (random.below(content.len()), random.below(8));
                let mut broken = content.clone();
                broken[byte] ^= 1 << bit;
                let what = format!("of {name}, bit {bit} of byte {byte}");
                block_on(check_broken(files, original, component, &broken, &what));
            }
        }
    });
}

/// Cassandra's files have no checksum over Summary.db. A reader rebuilds a wrong summary, and
/// verification reports it.
#[test]
fn verification_reports_a_wrong_summary() {
    let mut seen = 0;
    each(|name, files, _, _| {
        let Some(content) = files.components.get(&Component::Summary) else { return };
        seen += 1;
        let mut long = content.clone();
        long.push(0);
        for broken in [&[][..], &content[..content.len() - 1], &vec![0; content.len()], &long] {
            let file_system = block_on(store(files, Some((&Component::Summary, broken))));
            let report = block_on(verify(&file_system, &files.descriptor)).unwrap();
            assert!(!report.is_ok(), "{name}: {} bytes", broken.len());
        }
    });
    assert!(seen > 0);
}

#[test]
fn cut_off() {
    each(|name, files, original, random| {
        for (component, content) in files.components.iter().filter(|(_, c)| !c.is_empty()) {
            for number in 0..tries(original) {
                let length = match number {
                    0 => 0,
                    1 => content.len() - 1,
                    _ => random.below(content.len()),
                };
                let what = format!("of {name}, cut to {length} of {}", content.len());
                block_on(check_broken(files, original, component, &content[..length], &what));
            }
        }
    });
}

#[test]
fn extended_components_are_refused_or_read_the_same() {
    each(|name, files, original, random| {
        for (component, content) in &files.components {
            for length in [1, 4, 8, 4096] {
                let mut broken = content.clone();
                broken.extend((0..length).map(|_| random.below(256) as u8));
                let file_system = block_on(store(files, Some((component, &broken))));
                let keys = Some(original.keys.as_slice());
                let read = block_on(read_all(&file_system, &files.descriptor, keys));
                match read {
                    Err(error) => assert_names_a_file(&error),
                    Ok((scanned, looked_up, _)) => {
                        let what = format!("{name}: {component} with {length} bytes more");
                        // Cassandra's compactions end with an empty chunk, which only verification
                        // reads.
                        assert!(
                            !is_checked(component) || name.contains("compacted"),
                            "{what} is read"
                        );
                        assert!(
                            scanned == original.scanned && looked_up == original.looked_up,
                            "{what}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn missing_components_are_reported() {
    each(|name, files, _, _| {
        for component in files.components.keys() {
            let file_system = block_on(async {
                let file_system = store(files, None).await;
                file_system.remove_file(files.descriptor.path(component)).await.unwrap();
                file_system
            });
            let read = block_on(read_all(&file_system, &files.descriptor, None));
            let report = block_on(verify(&file_system, &files.descriptor)).unwrap();
            // The reader rebuilds the summary from the index.
            if *component == Component::Summary {
                read.unwrap();
                continue;
            }
            assert!(!report.is_ok(), "{name}: {component} is missing");
            match read {
                Err(error) => assert_names_a_file(&error),
                // Only verification reads the digest.
                Ok(_) => assert_eq!(component, &Component::Digest, "{name}"),
            }
        }
    });
}
