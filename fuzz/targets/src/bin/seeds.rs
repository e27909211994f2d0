//! Writes seeds for all targets: `seeds REPOSITORY RESULTS`. Seeds from ScyllaDB's files go into a
//! folder of their own.
#![allow(clippy::disallowed_methods, reason = "a tool for developers, without an event loop")]

use std::{
    fs,
    io::Result,
    path::{Path, PathBuf},
};

use espalier_fuzz_targets::seeds::{self, Seed};
use espalier_sstable::{Component, Descriptor, FileName, compression::CompressionInfo};

/// Maximum bytes of a seed. Longer inputs make a fuzzer slow.
const MAX_LENGTH: usize = 32 << 10;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(repository), Some(results)) = (arguments.next(), arguments.next()) else {
        return Err(std::io::Error::other("usage: seeds REPOSITORY RESULTS"));
    };
    let fixtures = repository.join("../shared/fixtures");
    let mut own = seeds::of_sets();
    own.extend(seeds::of_protocol());
    own.extend(seeds::of_log_in());
    own.extend(espalier_fuzz_targets::connection::seeds::seeds());
    own.extend(seeds::of_commit_log());
    own.extend(seeds::of_integers());
    own.extend(seeds::of_scylla());
    let messages = repository.join("testdata/internode/sent_by_cassandra.txt");
    own.extend(seeds::of_messages(&fs::read_to_string(messages).unwrap_or_default()));
    let mut scylla = Vec::new();
    for_each_file(&repository.join("testdata"), &mut |path| own.extend(of_file(path)));
    if !fixtures.is_dir() {
        println!("SKIPPED all but testdata: no fixtures in {}", fixtures.display());
    }
    for_each_file(&fixtures, &mut |path| {
        if path.starts_with(fixtures.join("scylla")) {
            scylla.extend(of_file(path))
        } else {
            own.extend(of_file(path))
        }
    });
    for (folder, seeds) in [("seeds", own), ("scylla-seeds", scylla)] {
        let mut written = 0;
        for (target, bytes) in seeds.iter().filter(|(_, bytes)| bytes.len() <= MAX_LENGTH) {
            let folder = results.join(folder).join(target);
            fs::create_dir_all(&folder)?;
            // The name is made from the content, so that no seed occurs twice.
            let name = format!("{:08x}{:08x}", crc32fast::hash(bytes), bytes.len());
            fs::write(folder.join(name), bytes)?;
            written += 1;
        }
        println!("{folder}: {written} seeds");
    }
    Ok(())
}

fn for_each_file(folder: &Path, take: &mut impl FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() { for_each_file(&path, take) } else { take(&path) }
    }
}

fn of_file(path: &Path) -> Vec<Seed> {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    if let Ok((descriptor, component)) = Descriptor::parse(path) {
        let bytes = fs::read(path).unwrap_or_default();
        let mut seeds = seeds::of_component(&descriptor, &component, &bytes);
        if component == Component::CompressionInfo {
            seeds.extend(chunks(&descriptor, &bytes));
        }
        return seeds;
    }
    match (path.parent().and_then(name), name(path)) {
        (Some(folder), Some(name)) => {
            seeds::of_text(&folder, &name, &fs::read_to_string(path).unwrap_or_default())
        }
        _ => Vec::new(),
    }
}

fn chunks(descriptor: &Descriptor, table: &[u8]) -> Vec<Seed> {
    let file = FileName::new("CompressionInfo.db".as_ref());
    let Ok(features) = descriptor.features() else { return Vec::new() };
    let Ok((info, start)) = CompressionInfo::read(&file, table, features) else {
        return Vec::new();
    };
    let rest = table.get(start as usize..).unwrap_or_default();
    let offsets = rest.as_chunks::<8>().0.iter().map(|offset| u64::from_be_bytes(*offset));
    let offsets: Vec<_> = offsets.collect();
    let data = fs::read(descriptor.path(&Component::Data)).unwrap_or_default();
    let classes = ["LZ4", "Snappy", "Deflate", "Zstd", "Noop"];
    let class = classes.iter().position(|class| info.compressor.starts_with(class));
    seeds::chunks(class.unwrap_or_default() as u8, &offsets, info.chunk_length, &data)
}
