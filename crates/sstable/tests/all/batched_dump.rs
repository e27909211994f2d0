//! Checks that lines made directly from the bytes of Data.db equal the lines made from rows,
//! wherever the file is cut into batches. For a damaged file, the two outputs may end at different
//! lines, but one must begin with the other.

use crate::support;

use std::path::Path;
use std::sync::Arc;

use espalier_mutation::{ClusteringSlices, KeyRange, UnfilteredStream};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, ColumnSelection, Component, PageCache, SSTableError, SSTableReader, dump::Lines,
};
use proptest::prelude::*;
use support::{
    block_on,
    broken::{Files, change, generated, store},
    cases_of_run,
    generate::{Generator, Shape},
    offline_cases, open, scylla,
    slicing::Random,
    writing::{descriptor_of, options, random_chunks, write, written_versions},
};

type Printed = (Vec<u8>, Option<SSTableError>);

async fn by_rows(reader: &SSTableReader, raw: bool, out: &mut Vec<u8>) -> Result<(), SSTableError> {
    let mut lines = Lines::new(reader, raw, true);
    let everything = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), everything, &ColumnSelection::All).await?;
    loop {
        let Some(mut partition) = scan.next_partition().await? else { return Ok(()) };
        lines.write_header(partition.header(), Some(partition.start()), out);
        while let Some(unfiltered) = partition.next().await? {
            lines.write_unfiltered(&unfiltered, out);
        }
    }
}

async fn by_batches(
    reader: &SSTableReader,
    raw: bool,
    length: usize,
    out: &mut Vec<u8>,
) -> Result<(), SSTableError> {
    let mut row_batches = reader.row_batches(&KeyRange::full()).await?;
    while let Some(batch) = row_batches.next(length).await? {
        // No state is kept from one batch to the next.
        Lines::new(reader, raw, true).write_batch(&batch, out)?;
    }
    Ok(())
}

fn printed(print: impl AsyncFnOnce(&mut Vec<u8>) -> Result<(), SSTableError>) -> Printed {
    let mut out = Vec::new();
    let error = block_on(print(&mut out)).err();
    (out, error)
}

/// Compares both ways of printing, and returns the number of lines.
fn check(name: &str, reader: &SSTableReader, lengths: &[usize], is_damaged: bool) -> usize {
    let mut lines = 0;
    for raw in [false, true] {
        let (expected, expected_error) = printed(async |out| by_rows(reader, raw, out).await);
        lines = expected.iter().filter(|&&byte| byte == b'\n').count();
        for &length in lengths {
            let (found, error) = printed(async |out| by_batches(reader, raw, length, out).await);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            // A scan reads more bytes than the next row needs, so it meets a damaged chunk some
            // rows too early. A scan also takes a marker without values for the end of all rows,
            // and does not decode it.
            let is_further = is_damaged && error.is_some() && found.starts_with(&expected);
            let is_stricter = error.is_some() && expected.starts_with(&found);
            if found != expected && !is_further && !(is_stricter && is_damaged) {
                let (found, expected) = (text(&found), text(&expected));
                let differing = found.lines().zip(expected.lines()).find(|(a, b)| a != b);
                panic!(
                    "{name}, cut at {length}: {differing:?}, {} and {} bytes, {error:?}",
                    found.len(),
                    expected.len()
                );
            }
            let is_checksum = |error: &SSTableError| error.to_string().contains("has the checksum");
            if is_damaged && (found != expected || error.as_ref().is_some_and(is_checksum)) {
                assert!(error.is_some() || expected_error.is_none(), "{name}, cut at {length}");
                continue;
            }
            let reported = |error: &Option<SSTableError>| error.as_ref().map(ToString::to_string);
            let (reported, expected) = (reported(&error), reported(&expected_error));
            // A row with content beyond its stated length is cut off at that length.
            let ended =
                reported.as_ref().and_then(|reported| reported.strip_suffix("it ends too early"));
            match ended.zip(expected.as_ref()) {
                Some((place, expected)) => assert!(expected.starts_with(place), "{expected}"),
                None => assert_eq!(reported, expected, "{name}, cut at {length}"),
            }
        }
    }
    lines
}

const LENGTHS: [usize; 4] = [1, 100, 5000, 1 << 20];

#[test]
fn fixtures_print_alike() {
    let mut lines = 0;
    for case in cases_of_run().into_iter().chain(offline_cases()) {
        for descriptor in &case.sstables {
            let reader = block_on(open(descriptor)).unwrap();
            let long = reader.data_length() > 1 << 20;
            // Unless all cases run, each file is cut at one length.
            let lengths = match (long, espalier_testing::runs_all()) {
                (false, true) => &LENGTHS,
                (false, false) => &LENGTHS[lines % LENGTHS.len()..][..1],
                (true, true) => &LENGTHS[2..],
                (true, false) => &LENGTHS[3..],
            };
            lines += check(&case.name, &reader, lengths, false);
        }
    }
    println!("{lines} lines compared");
}

fn check_generated(seed: u64, shape: Shape) {
    let versions = written_versions();
    let features = versions[seed as usize % versions.len()];
    let mut generator = Generator::new(seed, shape).fitting(features);
    let table = generator.table();
    let partitions = generator.partitions(&table);
    let mut random = Random(seed | 1);
    let file_system = FileSystem::simulated(seed);
    let directory = Path::new("/data/ks/t");
    let descriptor = descriptor_of(features, directory, 1);
    let chunks = random_chunks(&mut random);
    let reader = block_on(async {
        file_system.create_dir_all(directory).await.unwrap();
        let options = options(descriptor.clone(), &table, &partitions, chunks, 512);
        write(&file_system, options, &partitions).await.unwrap()?;
        let cache = PageCache::new(1 << 20);
        Some(SSTableReader::open(&file_system, descriptor, None, &cache).await.unwrap())
    });
    let Some(reader) = reader else { return };
    let own = reader.table();
    check(&format!("seed {seed}"), &reader, &LENGTHS, false);
    // The table has another order of columns than the file. Then a column is dropped after half of
    // its data was written.
    reader.set_table(table.clone()).unwrap();
    check(&format!("seed {seed}, its own table"), &reader, &LENGTHS[1..2], false);
    if let Some(column) = own.regular_columns().first() {
        let dropped = own.rebuild().drop_column(&column.name, 1_750_000_000_000_500).build();
        reader.set_table(Arc::new(dropped)).unwrap();
        check(&format!("seed {seed}, dropped"), &reader, &LENGTHS[1..2], false);
    }
}

/// The content is wrong, but in three of four rounds the checksums fit it. The lines and the error
/// are compared with those of a scan.
#[test]
fn damaged_rows_print_alike() {
    let mut failed = 0;
    for seed in espalier_testing::seeds(15).map(|seed| seed + 1) {
        let mut random = Random(seed);
        let shape = Shape { partitions: 4, rows: 20, is_reconciled: true, is_odd: false };
        let original = generated(seed, shape, ChunkFormat::PLAIN).without(&Component::Checksums);
        for round in 0..60 {
            let mut components = original.components.clone();
            let data = components.get_mut(&Component::Data).unwrap();
            *data = change(data, &mut random);
            // CRC.db begins with the length of its chunks.
            let mut table = 512u32.to_be_bytes().to_vec();
            data.chunks(512).for_each(|chunk| table.extend(crc32fast::hash(chunk).to_be_bytes()));
            // In a quarter of the rounds, a checksum is wrong too.
            if round % 4 == 0 && table.len() > 4 {
                let at = 4 + random.below(table.len() - 4);
                table[at] ^= 1;
            }
            components.insert(Component::Crc, table);
            let files = Files { descriptor: original.descriptor.clone(), components };
            let opened = block_on(async {
                let file_system = store(&files, None).await;
                let cache = PageCache::new(1 << 20);
                SSTableReader::open(&file_system, files.descriptor.clone(), None, &cache).await
            });
            let Ok(reader) = opened else { continue };
            check(&format!("seed {seed}, round {round}"), &reader, &LENGTHS[..3], true);
            let error = printed(async |out| by_batches(&reader, true, 100, out).await).1;
            failed += usize::from(error.is_some());
        }
    }
    assert!(failed > espalier_testing::at_least(100) as usize, "only {failed} were damaged");
}

proptest! {
    #![proptest_config(espalier_testing::properties(150))]

    #[test]
    fn generated_tables_print_alike(seed in any::<u64>(), is_odd in any::<bool>(), is_reconciled in any::<bool>()) {
        check_generated(seed, Shape { partitions: 6, rows: 20, is_reconciled, is_odd });
    }
}

#[test]
fn files_of_scylla_print_alike() {
    let mut read = 0;
    for (name, descriptor) in scylla::readable_sstables() {
        let Ok(reader) = block_on(open(&descriptor)) else { continue };
        check(&name, &reader, &LENGTHS[..2], false);
        read += 1;
    }
    println!("{read} SSTables compared");
}
