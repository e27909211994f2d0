//! Tests Partitions.db of Cassandra 5.0.9 and ScyllaDB: walks every node, finds every key, and
//! compares each file with the index that Espalier writes for the same keys.

use crate::bti_support;

use bti_support::*;
use espalier_sstable::index::bti::partition_index::{
    Candidate, IndexPosition, PartitionIndexReader, PartitionIndexWriter,
};
use espalier_sstable::index::bti::row_index::RowIndexReader;
use espalier_trie::page::MemoryPages;

/// Returns the candidates in order, with their stored prefixes.
fn entries(index: &PartitionIndexReader<MemoryPages<'_>>) -> Vec<(Vec<u8>, Candidate)> {
    let mut cursor = index.cursor(index.source());
    let mut entries = Vec::new();
    let mut next = block_on(cursor.first()).unwrap();
    while let Some(candidate) = next {
        entries.push((cursor.prefix().to_vec(), candidate));
        next = block_on(cursor.next()).unwrap();
    }
    entries
}

fn keys(fixture: &Fixture, entries: &[(Vec<u8>, Candidate)]) -> Option<Vec<Vec<u8>>> {
    let data = fixture.data.as_ref()?;
    let key = |(_, candidate): &(Vec<u8>, Candidate)| match candidate.position {
        IndexPosition::Data(position) => key_at(data, position).to_vec(),
        IndexPosition::RowIndex(position) => {
            let rows = MemoryPages(&fixture.rows);
            let reader = block_on(RowIndexReader::open(rows, position)).unwrap();
            let entry = reader.entry();
            assert_eq!(entry.key, key_at(data, entry.data_position));
            entry.key.clone()
        }
    };
    Some(entries.iter().map(key).collect())
}

#[test]
fn every_node_and_key_of_real_indexes() {
    let (mut with_data, mut without_data) = (0, 0);
    for fixture in fixtures() {
        let name = &fixture.name;
        let file = &fixture.partitions;
        let reader = PartitionIndexReader::open(MemoryPages(file), file.len() as u64);
        let index = block_on(reader).unwrap();
        let footer = index.footer().clone();
        let extents = check_nodes(file, footer.root, partition_payload_size);
        assert!(extents.last().unwrap().1 as u64 <= file.len() as u64 - 24, "{name}");

        let entries = entries(&index);
        assert_eq!(entries.len() as u64, footer.key_count, "{name}");
        assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name}");

        let Some(keys) = keys(&fixture, &entries) else {
            without_data += 1;
            continue;
        };
        with_data += 1;
        assert_eq!((keys.first(), keys.last()), (Some(&footer.first_key), Some(&footer.last_key)));
        let full: Vec<_> = keys.iter().map(|key| byte_comparable(token(key), key)).collect();
        assert!(full.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
        let only = if fixture.version == "da" { 0 } else { 1 };
        let lengths = unique_prefix_lengths(&full, only);
        for (index, (prefix, candidate)) in entries.iter().enumerate() {
            assert_eq!(*prefix, full[index][..lengths[index]], "{name} key {index}");
            assert_eq!(candidate.hash_byte, Some(hash_byte(&keys[index])), "{name} key {index}");
        }
        check_answers(&index, &keys, &full, &entries, name);
    }
    println!("{with_data} indexes with keys, {without_data} without");
}

/// Makes exact look-ups of up to 3,000 keys. For one in 50 of these keys, the test also makes
/// ceiling look-ups of the key, and of bounds and keys at its token and the neighbouring tokens.
fn check_answers(
    index: &PartitionIndexReader<MemoryPages<'_>>,
    keys: &[Vec<u8>],
    full: &[Vec<u8>],
    entries: &[(Vec<u8>, Candidate)],
    name: &str,
) {
    let step = keys.len() / 3000 + 1;
    let number_of = |candidate: Option<Candidate>| {
        candidate
            .map(|candidate| entries.iter().position(|(_, other)| *other == candidate).unwrap())
    };
    for number in (0..keys.len()).step_by(step) {
        let key = &keys[number];
        let exact = index.exact_candidate(index.source(), &full[number], hash_byte(key));
        assert_eq!(block_on(exact).unwrap(), Some(entries[number].1.position), "{name}");
        let other_hash = index.exact_candidate(index.source(), &full[number], hash_byte(key) ^ 1);
        assert_eq!(block_on(other_hash).unwrap(), None, "{name}");
        if number % (step * 50) != 0 {
            continue;
        }
        let token = token(key);
        let mut bounds = vec![full[number].clone()];
        for token in [token.wrapping_sub(1), token, token.wrapping_add(1)] {
            bounds.extend([token_bound(token, 0x20), token_bound(token, 0x60)]);
            bounds.push(byte_comparable(token, key));
            bounds.push(byte_comparable(token, b""));
        }
        for bound in &bounds {
            let mut cursor = index.cursor(index.source());
            // As a caller must, the test moves one step further if the full key is on the wrong
            // side of the bound.
            let mut ceiling = number_of(block_on(cursor.seek_ceiling(bound)).unwrap());
            if ceiling.is_some_and(|ceiling| full[ceiling] < *bound) {
                ceiling = number_of(block_on(cursor.next()).unwrap());
            }
            let at_or_above = full.partition_point(|other| other < bound);
            assert_eq!(ceiling, (at_or_above < full.len()).then_some(at_or_above), "{name}");
        }
    }
}

#[test]
fn our_index_of_the_same_keys() {
    let (mut equal, mut ours_total, mut theirs_total) = (0, 0, 0);
    for fixture in fixtures() {
        let file = &fixture.partitions;
        let reader = PartitionIndexReader::open(MemoryPages(file), file.len() as u64);
        let index = block_on(reader).unwrap();
        let entries = entries(&index);
        let Some(keys) = keys(&fixture, &entries) else { continue };
        let mut ours = Vec::new();
        let mut writer = PartitionIndexWriter::new();
        for (key, (_, candidate)) in keys.iter().zip(&entries) {
            let full = byte_comparable(token(key), key);
            writer.add(&mut ours, &full, key, hash_byte(key), candidate.position).unwrap();
        }
        let written = writer.finish(&mut ours).unwrap();
        assert_eq!(written.file_size, ours.len() as u64);
        let reader = PartitionIndexReader::open(MemoryPages(&ours), ours.len() as u64);
        let our_index = block_on(reader).unwrap();
        assert_eq!(*our_index.footer(), written.footer);
        check_nodes(&ours, written.footer.root, partition_payload_size);
        if fixture.version == "da" {
            // The format leaves the packing to the writer. Readers do not need the same packing as
            // Cassandra's, but equality is the simplest way to show that ours is no worse.
            assert!(ours == *file, "{}: {} bytes, not the same", fixture.name, ours.len());
            equal += 1;
        } else {
            let limit = file.len() + file.len() / 100;
            assert!(ours.len() <= limit, "{}: {} > {}", fixture.name, ours.len(), file.len());
            assert_eq!(self::entries(&our_index).len(), entries.len());
        }
        ours_total += ours.len();
        theirs_total += file.len();
    }
    println!("{equal} of ours are equal to Cassandra's, {ours_total} bytes for {theirs_total}");
}
