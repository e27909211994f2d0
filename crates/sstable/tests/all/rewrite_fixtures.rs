//! Checks that Cassandra's files are reproduced byte for byte when they are read and written again:
//! plain Data.db, the index of either kind, Filter.db and Statistics.db.

#![allow(clippy::disallowed_methods, reason = "files are compared as they are")]

use crate::bti_support;
use crate::support;

use std::{path::Path, sync::Arc};

use espalier_mutation::{ClusteringSlices, KeyRange, UnfilteredStream};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, ColumnSelection, Component, Descriptor, PresentColumns, SSTableReader,
    SSTableWriter, WriterFacts, WriterOptions, WrittenSSTable,
};
use support::{block_on, cases_of_run, open};

async fn rewrite(
    reader: &SSTableReader,
    directory: &Path,
    column_index_size: u32,
) -> espalier_sstable::Result<WrittenSSTable> {
    let header = &reader.statistics().header;
    let stats = &reader.statistics().stats;
    let descriptor = Descriptor { directory: directory.into(), ..reader.descriptor().clone() };
    let mut options = WriterOptions::for_table(descriptor, reader.table())?;
    options.columns = PresentColumns::All;
    options.encoding_stats = header.encoding_stats();
    options.estimated_partitions = reader.partition_count();
    options.bloom_filter_fp_chance = reader.statistics().bloom_filter_fp_chance;
    options.chunks = ChunkFormat::Plain { chunk_length: 65_536 };
    options.column_index_size = column_index_size;
    if let Ok(summary) = std::fs::read(reader.descriptor().path(&Component::Summary)) {
        options.min_index_interval = u32::from_be_bytes(*summary.first_chunk().unwrap());
    }
    options.facts = WriterFacts {
        bloom_filter_fp_chance: 0.0,
        level: stats.level,
        repaired_at: stats.repaired_at,
        originating_host_id: stats.originating_host_id,
        commit_log_intervals: stats.commit_log_intervals.clone(),
    };
    let mut writer = SSTableWriter::create(&FileSystem::real(), options).await?;
    let slices = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), slices, &ColumnSelection::All).await?;
    while let Some(mut partition) = scan.next_partition().await? {
        writer.start_partition(partition.header().clone())?;
        while let Some(unfiltered) = partition.next().await? {
            writer.add(unfiltered).await?;
        }
        writer.end_partition().await?;
    }
    Ok(writer.finish().await?.unwrap())
}

/// Describes the first difference, if there is one.
fn difference(name: &str, what: &str, ours: &[u8], theirs: &[u8]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let near = |bytes: &[u8]| {
        let start = at.saturating_sub(16).min(bytes.len());
        format!("{:02x?}", &bytes[start..bytes.len().min(at + 32)])
    };
    Some(format!(
        "{name}: {what} differs at {at} of {} (theirs {})\n  ours {}\ntheirs {}",
        ours.len(),
        theirs.len(),
        near(ours),
        near(theirs)
    ))
}

#[test]
fn files_of_cassandra_are_reproduced() {
    let mut compared = 0;
    let mut differences = Vec::new();
    // The offline writer does not know the number of partitions in advance, and uses other
    // baselines.
    for case in cases_of_run().into_iter().filter(|case| !case.name.contains("/offline")) {
        for descriptor in &case.sstables {
            let name = format!("{} {descriptor}", case.name);
            let reader = block_on(open(descriptor)).unwrap_or_else(|e| panic!("{name}: {e}"));
            let read = |descriptor: &Descriptor, component: Component| {
                std::fs::read(descriptor.path(&component)).unwrap_or_default()
            };
            let index = [Component::Partitions, Component::Rows, Component::Index];
            let data = bti_support::plain_data(&descriptor.path(&Component::Data), "Data.db");
            // The file does not store the block size, so the test tries the sizes that were used.
            let mut is_same_index = false;
            for column_index_size in [1024, 16 * 1024, 64 * 1024] {
                let directory = tempfile::tempdir().unwrap();
                let written = block_on(rewrite(&reader, directory.path(), column_index_size))
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                let pair = |component: Component| {
                    (read(&written.descriptor, component.clone()), read(descriptor, component))
                };
                // The decompression of the test knows only LZ4.
                if let Some(data) = &data {
                    let (ours, _) = pair(Component::Data);
                    differences.extend(difference(&name, "Data.db", &ours, data));
                    compared += 1;
                }
                let is_same = index.iter().all(|component| {
                    let (ours, theirs) = pair(component.clone());
                    ours == theirs
                });
                is_same_index |= is_same;
                let (ours, theirs) = pair(Component::Summary);
                if is_same {
                    differences.extend(difference(&name, "Summary.db", &ours, &theirs));
                }
                let (ours, theirs) = pair(Component::Filter);
                // A compaction does not know the exact number of partitions in advance.
                if theirs.len() == ours.len() {
                    differences.extend(difference(&name, "Filter.db", &ours, &theirs));
                } else {
                    assert!(case.name.contains("compacted"), "{name}: {}", theirs.len());
                }
                differences.extend(statistics_difference(&name, &written, &reader));
            }
            if !is_same_index {
                differences.push(format!("{name}: no block size gives the same index"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    println!("Data.db reproduced {compared} times");
}

fn statistics_difference(
    name: &str,
    written: &WrittenSSTable,
    reader: &SSTableReader,
) -> Option<String> {
    let theirs = std::fs::read(reader.descriptor().path(&Component::Statistics)).unwrap();
    let mut ours = written.statistics.clone();
    // Compressors differ in their output for the same bytes.
    ours.stats.compression_ratio = reader.statistics().stats.compression_ratio;
    difference(name, "Statistics.db", &ours.to_bytes(reader.features()).unwrap(), &theirs)
}
