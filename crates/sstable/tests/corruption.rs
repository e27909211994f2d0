//! Broken files: cut off anywhere, any bit flipped. Never a panic; an error names the file; where a checksum covers the
//! bytes there is always an error; and where verification finds nothing, all content is what it was.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "fixtures are read before anything runs")]

mod support;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use espalier_mutation::{
    ClusteringSlice, ClusteringSlices, DecoratedKey, Direction, KeyRange, UnfilteredStream,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ColumnSelection, Component, Descriptor, PageCache, SSTableError, SSTableReader, dump::Dump,
    verify::verify,
};
use support::{block_on, own_cases, rows, slicing::Random};

const DIRECTORY: &str = "/data/ks/t";

/// An SSTable in memory.
struct Files {
    descriptor: Descriptor,
    components: BTreeMap<Component, Vec<u8>>,
}

fn load(descriptor: &Descriptor) -> Files {
    let names = [
        Component::CompressionInfo,
        Component::Crc,
        Component::Data,
        Component::Digest,
        Component::Filter,
        Component::Partitions,
        Component::Rows,
        Component::Statistics,
        Component::Toc,
    ];
    let components = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), std::fs::read(descriptor.path(&name)).ok()?)))
        .collect();
    let descriptor = Descriptor { directory: DIRECTORY.into(), ..descriptor.clone() };
    Files { descriptor, components }
}

async fn store(files: &Files, broken: Option<(&Component, &[u8])>) -> FileSystem {
    let file_system = FileSystem::simulated(1);
    file_system.create_dir_all(Path::new(DIRECTORY)).await.unwrap();
    for (component, content) in &files.components {
        let content = match broken {
            Some((name, content)) if name == component => content,
            _ => content,
        };
        let file = file_system.create(files.descriptor.path(component)).await.unwrap();
        if !content.is_empty() {
            file.append(content.to_vec()).await.unwrap();
        }
    }
    file_system
}

/// All content by all ways: a scan; each key; each row by its clustering, and from it to the end, in both directions.
async fn read_all(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    keys: Option<&[DecoratedKey]>,
) -> Result<(Vec<String>, Vec<String>, Vec<DecoratedKey>), SSTableError> {
    let cache = PageCache::new(1 << 20);
    let reader = SSTableReader::open(file_system, descriptor.clone(), None, &cache).await?;
    let table = reader.table();
    let all = ColumnSelection::All;
    let everything = Arc::new(ClusteringSlices::all());
    let (mut scanned, mut found_keys) = (Vec::new(), Vec::new());
    let mut scan = reader.scan(KeyRange::full(), everything.clone(), &all).await?;
    let mut positions = BTreeMap::new();
    while let Some(mut partition) = scan.next_partition().await? {
        let key = partition.header().key.clone();
        scanned.extend(Dump { table: &table, full_values: false }.header(partition.header()));
        let mut of_partition = Vec::new();
        while let Some(unfiltered) = partition.next().await? {
            scanned.push(Dump { table: &table, full_values: false }.unfiltered(&unfiltered));
            of_partition.push(unfiltered.position().to_bound(true));
        }
        positions.insert(key.clone(), of_partition);
        found_keys.push(key);
        assert!(scanned.len() < 1_000_000, "a scan without end");
    }
    let mut looked_up = Vec::new();
    for key in keys.unwrap_or(&found_keys) {
        let mut slices = vec![everything.clone()];
        // A sample: the first, the last, and some between.
        let bounds = positions.get(key).map(Vec::as_slice).unwrap_or_default();
        for at in (0..bounds.len()).step_by(bounds.len() / 8 + 1).chain(bounds.len().checked_sub(1))
        {
            let one = ClusteringSlice::prefix(bounds[at].values.clone());
            let rest = ClusteringSlice { end: ClusteringSlice::all().end, ..one.clone() };
            for slice in [one, rest] {
                slices.push(Arc::new(ClusteringSlices::normalise(vec![slice], table.comparator())));
            }
        }
        for slices in slices {
            for direction in [Direction::Forward, Direction::Reverse] {
                let stream = reader.read_partition(key, slices.clone(), direction, &all).await?;
                match stream {
                    None => looked_up.push(format!("{key:?} is absent")),
                    Some(mut stream) => {
                        let dump = Dump { table: &table, full_values: false };
                        looked_up.extend(dump.header(stream.header()));
                        looked_up.extend(rows(&table, &mut stream).await?);
                    }
                }
            }
        }
    }
    Ok((scanned, looked_up, found_keys))
}

/// Whether every byte of a component is behind a checksum that reading compares.
fn is_checked(component: &Component) -> bool {
    matches!(component, Component::Data | Component::Statistics)
}

fn assert_names_a_file(error: &SSTableError) {
    let text = error.to_string();
    assert!(text.contains("da-") && text.contains("-bti-"), "{text}");
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
            // A compaction of Cassandra ends with a chunk of nothing, which only verification reads.
            let in_empty_chunk = *component == Component::Data && what.contains("compacted");
            assert!(
                !is_checked(component) || in_empty_chunk,
                "{component} {what}: read as if nothing was wrong"
            );
            // Indexes have no checksums: a key may be missed. What is scanned does not depend on them.
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

/// Reading a file of many partitions many times takes long.
fn tries(original: &Original) -> usize {
    (3000 / original.looked_up.len().max(1)).clamp(3, 60)
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
fn missing() {
    each(|name, files, _, _| {
        for component in files.components.keys() {
            let file_system = block_on(async {
                let file_system = store(files, None).await;
                file_system.remove_file(files.descriptor.path(component)).await.unwrap();
                file_system
            });
            let read = block_on(read_all(&file_system, &files.descriptor, None));
            let report = block_on(verify(&file_system, &files.descriptor)).unwrap();
            assert!(!report.is_ok(), "{name}: {component} is missing");
            match read {
                Err(error) => assert_names_a_file(&error),
                // The digest is for verification only.
                Ok(_) => assert_eq!(component, &Component::Digest, "{name}"),
            }
        }
    });
}
