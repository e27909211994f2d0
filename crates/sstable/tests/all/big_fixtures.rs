//! Index.db and Summary.db of Cassandra and ScyllaDB: the tests read them, compare them with
//! Data.db, and write them again byte for byte (of summaries, only those of Cassandra).

use crate::big_support;

use big_support::*;
use bytes::Bytes;
use espalier_mutation::Token;
use espalier_sstable::{
    FileName, SSTableError,
    index::big::{
        partition_index::PartitionIndexWriter,
        promoted_index::PromotedIndexBuilder,
        summary::{Summary, SummaryBuilder},
    },
};

/// Returns the intended fault of a fixture, if it has one.
fn expected_fault(name: &str) -> Option<&'static str> {
    name.contains("/empty_index/").then_some("is corrupt at byte 0: an entry is cut short")
}

#[test]
fn entries_lead_to_their_keys() {
    let mut compared = 0;
    for fixture in fixtures() {
        let name = &fixture.name;
        let index = match (fixture.open(), expected_fault(name)) {
            (Ok(index), None) => index,
            (Err(error @ SSTableError::Corrupt { .. }), Some(fault)) => {
                assert!(error.to_string().contains(fault), "{name}: {error}");
                continue;
            }
            (opened, fault) => panic!("{name}: {:?} instead of {fault:?}", opened.err()),
        };
        let entries = entries(&index).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(entries.first().unwrap().key, *index.first_key(), "{name}");
        assert_eq!(entries.last().unwrap().key, *index.last_key(), "{name}");
        assert_eq!(entries[0].data_position, 0, "{name}");
        assert_eq!(entries.last().unwrap().next_position, fixture.index.len() as u64, "{name}");
        for entry in &entries {
            assert_eq!(entry.key.token, Token::of(&entry.key.key), "{name}");
            let Some(data) = &fixture.data else { continue };
            assert_eq!(key_at(data, entry.data_position), &*entry.key.key, "{name}");
            compared += 1;
        }
        // This checks a sample of the entries, because the largest files have 100,000.
        for entry in entries.iter().step_by(entries.len().div_ceil(300)) {
            let found = block_on(index.exact(index.file(), &entry.key)).unwrap();
            assert_eq!(found.as_ref(), Some(entry), "{name}");
        }
    }
    // The repository's own fixtures are few.
    let expected = if crate::support::fixtures_root().exists() { 300 } else { 5 };
    assert!(compared > expected, "{compared} entries");
}

#[test]
fn an_index_is_written_as_it_was() {
    let mut blocks = 0;
    for fixture in fixtures() {
        if expected_fault(&fixture.name).is_some() {
            continue;
        }
        let name = &fixture.name;
        let index = fixture.open().unwrap();
        let mut writer = PartitionIndexWriter::new();
        // Each item fills a block.
        let mut builder = PromotedIndexBuilder::new(fixture.form(), 1);
        let (mut file, mut promoted) = (Vec::new(), Vec::new());
        for entry in entries(&index).unwrap() {
            let format = fixture.format();
            let reader =
                index.promoted_index(index.file().clone(), &entry, &format, fixture.form());
            promoted.clear();
            if let Some(reader) = block_on(reader).unwrap() {
                for number in 0..reader.block_count() {
                    let block = block_on(reader.promoted_block(number)).unwrap();
                    let (types, end) = (&fixture.types, block.offset + block.length);
                    builder.begin(types, block.first.as_ref(), block.offset).unwrap();
                    builder.end(types, block.last.as_ref(), end, block.open_at_end).unwrap();
                    blocks += 1;
                }
                let deletion = reader.partition_deletion();
                builder.finish(&fixture.types, None, deletion, 0, &mut promoted).unwrap();
            }
            let key = &entry.key.key;
            let promoted = (!promoted.is_empty()).then_some(promoted.as_slice());
            let written = writer.append(&mut file, key, entry.data_position, promoted);
            assert_eq!(written.unwrap(), entry.position, "{name}");
        }
        assert!(fixture.index == file, "{name}");
    }
    assert!(blocks > 10);
}

#[test]
fn a_summary_is_written_as_it_was() {
    let (mut compared, mut dense) = (0, 0);
    for fixture in fixtures().iter().filter(|fixture| fixture.is_cassandras()) {
        let name = &fixture.name;
        let index = fixture.open().unwrap();
        assert!(index.summary_fault().is_none(), "{name}: {:?}", index.summary_fault());
        let interval = index.summary().min_index_interval();
        let mut builder = SummaryBuilder::new(interval);
        for entry in entries(&index).unwrap() {
            builder.add(&entry.key.key, entry.position);
        }
        assert!(fixture.summary.as_ref().unwrap() == &Bytes::from(builder.finish()), "{name}");
        compared += 1;
        dense += usize::from(interval == 8);

        let rebuilt = Summary::rebuild(fixture.file(), fixture.data_length, interval);
        let (rebuilt, summary) = (block_on(rebuilt).unwrap(), index.summary());
        assert_eq!(rebuilt.len(), summary.len(), "{name}");
        for sample in 0..rebuilt.len() {
            assert_eq!(rebuilt.key(sample), summary.key(sample), "{name}");
            assert_eq!(rebuilt.position(sample), summary.position(sample), "{name}");
        }
    }
    assert!(compared >= 2);
    println!("{compared} summaries, {dense} with a small interval");
}

/// ScyllaDB samples by another rule; its summaries are used as they are.
#[test]
fn foreign_summaries_are_believed() {
    let (mut believed, mut missing) = (0, 0);
    for fixture in fixtures().iter().filter(|fixture| !fixture.is_cassandras()) {
        let Ok(index) = fixture.open() else { continue };
        match index.summary_fault() {
            None => believed += 1,
            Some(None) => missing += 1,
            Some(Some(fault)) => panic!("{}: {fault}", fixture.name),
        }
    }
    println!("{believed} summaries of ScyllaDB's fixtures, {missing} SSTables without one");
}

/// Each block starts where the previous block ends. The last block ends with the partition, and
/// includes or excludes the byte that ends the partition.
#[test]
fn blocks_cover_their_partition() {
    let (mut with, mut without) = (0, 0);
    for fixture in fixtures() {
        let Ok(index) = fixture.open() else { continue };
        let name = &fixture.name;
        let entries = entries(&index).unwrap();
        let ends = entries.iter().skip(1).map(|entry| entry.data_position);
        for (entry, end) in entries.iter().zip(ends.chain([fixture.data_length])) {
            let format = fixture.format();
            let reader = index.promoted_index(index.file().clone(), entry, &format, fixture.form());
            let Some(reader) = block_on(reader).unwrap() else { continue };
            let mut offset = reader.header_length();
            let mut filled = u64::MAX;
            for number in 0..reader.block_count() {
                let block = block_on(reader.block(number)).unwrap();
                assert_eq!((block.number, block.start), (number, offset), "{name}");
                offset = block.end;
                if !block.is_last {
                    filled = filled.min(block.end - block.start);
                }
            }
            let last = block_on(reader.last_block()).unwrap();
            if end == u64::MAX {
                continue;
            }
            let partition = end - entry.data_position;
            let ends = partition - 1..=partition;
            assert!(last.is_last && ends.contains(&last.end), "{name}: {last:?} of {partition}");
            if last.end == partition {
                with += 1
            } else {
                without += 1
            }
            // In Cassandra's files, the last block excludes this byte only if its last row filled
            // the block.
            if fixture.is_cassandras() && last.end < partition {
                let length = last.end - last.start;
                assert!(length >= filled.min(1024), "{name}: {length} of {filled}");
            }
        }
    }
    println!("{with} last blocks with the byte that ends the partition, {without} without");
    assert!(with > 0);
}

/// The block that a look-up finds for a position is the block that a walk over all blocks finds.
#[test]
fn positions_lead_to_their_blocks() {
    let mut found = 0;
    for fixture in fixtures() {
        let Ok(index) = fixture.open() else { continue };
        let name = &fixture.name;
        let format = fixture.format();
        let comparator = format.comparator();
        for entry in entries(&index).unwrap() {
            let reader =
                index.promoted_index(index.file().clone(), &entry, &format, fixture.form());
            let Some(reader) = block_on(reader).unwrap() else { continue };
            let blocks: Vec<_> = (0..reader.block_count())
                .map(|number| block_on(reader.promoted_block(number)).unwrap())
                .collect();
            let step = blocks.len().div_ceil(40);
            for block in blocks.iter().step_by(step) {
                for position in [&block.first, &block.last] {
                    let position = position.position();
                    let floor = blocks
                        .iter()
                        .position(|b| comparator.compare(b.last.position(), position).is_ge());
                    let end = blocks
                        .iter()
                        .rposition(|b| comparator.compare(b.first.position(), position).is_le());
                    let ours = block_on(reader.floor_block(position)).unwrap().unwrap();
                    assert_eq!(Some(ours.number as usize), floor, "{name}");
                    assert_eq!(ours.start, blocks[floor.unwrap()].offset);
                    let before = floor.unwrap().checked_sub(1);
                    let open = before.map(|before| blocks[before].open_at_end);
                    assert_eq!(ours.open_deletion, open.unwrap_or_default(), "{name}");
                    let ours = block_on(reader.end_block(position)).unwrap();
                    assert_eq!(Some(ours.number as usize), end, "{name}");
                    found += 1;
                }
            }
        }
    }
    assert!(found > 10);
}

#[test]
fn a_missing_summary_is_rebuilt() {
    for mut fixture in own_fixtures() {
        let with = fixture.open().unwrap();
        fixture.summary = None;
        let without = fixture.open().unwrap();
        assert!(matches!(without.summary_fault(), Some(None)));
        assert_eq!(with.first_key(), without.first_key());
        assert_eq!(with.last_key(), without.last_key());
        assert_eq!(entries(&with).unwrap(), entries(&without).unwrap());
    }
}

#[test]
fn an_error_in_a_summary_names_its_file() {
    let name = FileName::new(std::path::Path::new("oa-1-big-Summary.db"));
    let error = block_on(Summary::read(&name, &Bytes::from_static(&[0; 24]))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "oa-1-big-Summary.db is corrupt at byte 24: the first key needs 4 bytes, 0 are left"
    );
}
