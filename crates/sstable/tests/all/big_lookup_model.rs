//! Compares look-ups in a random Index.db with a sorted map. Summary.db has any density, or is
//! missing.

use crate::big_support;

use std::{collections::BTreeMap, path::Path};

use big_support::*;
use bytes::Bytes;
use espalier_mutation::{DecoratedKey, KeyBound, Token};
use espalier_sstable::{
    FileName,
    index::big::{
        BigIndex, BigIndexWriteError, MemoryFile,
        partition_index::{IndexEntry, PartitionIndexWriter},
        summary::SummaryBuilder,
    },
};
use proptest::{
    collection::{btree_map, vec},
    prelude::*,
};

const DATA_LENGTH: u64 = 1 << 40;

/// Maps each key to the length of its promoted index.
type Model = BTreeMap<(Token, Vec<u8>), usize>;

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => vec(any::<u8>(), 1..12),
        2 => (3_000_usize..9_000, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]),
        1 => Just(vec![7; 65_535]),
    ]
}

fn model() -> impl Strategy<Value = Model> {
    let promoted = prop_oneof![8 => Just(0_usize), 1 => 1_usize..50, 1 => 5_000_usize..300_000];
    btree_map(key(), promoted, 1..150).prop_map(|keys| {
        keys.into_iter().map(|(key, promoted)| ((Token::of(&key), key), promoted)).collect()
    })
}

/// The way in which Summary.db is made.
#[derive(Clone, Debug)]
enum Sampling {
    Every(u32),
    /// Samples the entry with number `n` if flag `n % 100` is set. ScyllaDB may sample any entries.
    Irregular(Vec<bool>),
    None,
}

fn sampling() -> impl Strategy<Value = Sampling> {
    prop_oneof![
        3 => (1_u32..40).prop_map(Sampling::Every),
        3 => vec(any::<bool>(), 100).prop_map(Sampling::Irregular),
        1 => Just(Sampling::None),
    ]
}

struct Written {
    index: Bytes,
    summary: Option<Bytes>,
    positions: Vec<u64>,
}

fn write(model: &Model, sampling: &Sampling) -> Written {
    let mut index = Vec::new();
    let mut writer = PartitionIndexWriter::new();
    let mut builder = match sampling {
        Sampling::Every(interval) => Some(SummaryBuilder::new(*interval)),
        _ => None,
    };
    let mut positions = Vec::new();
    for (number, ((_, key), promoted)) in model.iter().enumerate() {
        let promoted = vec![0xEE; *promoted];
        let promoted = (!promoted.is_empty()).then_some(promoted.as_slice());
        let position = writer.append(&mut index, key, data_position(number), promoted).unwrap();
        positions.push(position);
        if let Some(builder) = &mut builder {
            builder.add(key, position);
        }
    }
    assert_eq!(writer.position(), index.len() as u64);
    assert_eq!(writer.key_count(), model.len() as u64);
    let summary = match (builder, sampling) {
        (Some(builder), _) => Some(builder.finish()),
        (None, Sampling::Irregular(chosen)) => irregular_summary(model, &positions, chosen),
        _ => None,
    };
    Written { index: index.into(), summary: summary.map(Bytes::from), positions }
}

/// Returns the position of partition `number` in Data.db.
fn data_position(number: usize) -> u64 {
    number as u64 * 77_000
}

/// Writes a summary by the text of the format. Returns `None` if no entry was chosen.
fn irregular_summary(model: &Model, positions: &[u64], chosen: &[bool]) -> Option<Vec<u8>> {
    let chosen: Vec<_> = model
        .keys()
        .zip(positions)
        .enumerate()
        .filter(|(number, _)| chosen[number % 100])
        .map(|(_, sample)| sample)
        .collect();
    if chosen.is_empty() {
        return None;
    }
    let length = chosen.iter().map(|((_, key), _)| 4 + key.len() + 8).sum::<usize>();
    let mut out = Vec::new();
    out.extend(128_u32.to_be_bytes());
    out.extend((chosen.len() as u32).to_be_bytes());
    out.extend((length as u64).to_be_bytes());
    out.extend(64_u32.to_be_bytes());
    out.extend(999_u32.to_be_bytes());
    let mut place = 4 * chosen.len();
    for ((_, key), _) in &chosen {
        out.extend((place as u32).to_le_bytes());
        place += key.len() + 8;
    }
    for ((_, key), position) in &chosen {
        out.extend(key);
        out.extend(position.to_le_bytes());
    }
    for (_, key) in [model.keys().next().unwrap(), model.keys().next_back().unwrap()] {
        out.extend((key.len() as u32).to_be_bytes());
        out.extend(key);
    }
    Some(out)
}

fn open(written: &Written) -> BigIndex<MemoryFile> {
    let name = FileName::new(Path::new("Summary.db"));
    let summary = written.summary.as_ref().map(|summary| (&name, summary));
    block_on(BigIndex::open(file("Index.db", &written.index), summary, DATA_LENGTH, 16)).unwrap()
}

fn check_entry(entry: &IndexEntry, number: usize, model: &Model, written: &Written) {
    let ((token, key), promoted) = model.iter().nth(number).unwrap();
    assert_eq!((entry.key.token, &*entry.key.key), (*token, key.as_slice()));
    assert_eq!(entry.data_position, data_position(number));
    assert_eq!(entry.position, written.positions[number]);
    let next = written.positions.get(number + 1).copied();
    assert_eq!(entry.next_position, next.unwrap_or(written.index.len() as u64));
    assert_eq!(entry.promoted.map_or(0, |promoted| promoted.length), *promoted as u64);
    if let Some(location) = entry.promoted {
        assert_eq!(location.start + location.length, entry.next_position);
    }
}

proptest! {
    #![proptest_config(espalier_testing::properties(150))]
    #[test]
    fn look_ups_agree_with_a_map(
        model in model(),
        sampling in sampling(),
        others in vec(key(), 10),
    ) {
        let written = write(&model, &sampling);
        let index = open(&written);
        prop_assert_eq!(index.summary_fault().is_none(), written.summary.is_some());
        let ends = [index.first_key(), index.last_key()].map(|key| key.key.to_vec());
        let keys = [model.keys().next(), model.keys().next_back()].map(|key| key.unwrap().1.clone());
        prop_assert_eq!(ends, keys);

        let all = entries(&index).unwrap();
        prop_assert_eq!(all.len(), model.len());
        for (number, entry) in all.iter().enumerate() {
            check_entry(entry, number, &model, &written);
        }

        let present = model.keys().map(|(_, key)| key).step_by(model.len().div_ceil(20));
        for key in present.chain(&others) {
            let key = DecoratedKey::new(Bytes::copy_from_slice(key));
            let place = (key.token, key.key.to_vec());
            let number = model.range(..&place).count();
            let found = block_on(index.exact(index.file(), &key)).unwrap();
            prop_assert_eq!(found.is_some(), model.contains_key(&place));
            if let Some(entry) = &found {
                check_entry(entry, number, &model, &written);
            }
            let neighbour = Token(key.token.0.wrapping_add(1));
            let bounds = [
                KeyBound::Unbounded,
                KeyBound::BeforeToken(key.token),
                KeyBound::AfterToken(key.token),
                KeyBound::BeforeToken(neighbour),
                KeyBound::BeforeKey(key.clone()),
                KeyBound::AfterKey(key),
            ];
            for bound in bounds {
                let expected = all.iter().position(|entry| bound.is_before(&entry.key));
                let found = block_on(index.ceiling(index.file(), &bound)).unwrap();
                prop_assert_eq!(&found, &expected.map(|number| all[number].clone()), "{:?}", bound);
            }
        }
    }
}

#[test]
fn too_long_and_unordered_index_entries_are_refused() {
    let mut file = Vec::new();
    let mut writer = PartitionIndexWriter::new();
    let error = writer.append(&mut file, &[0; 65_536], 0, None).unwrap_err();
    assert_eq!(error, BigIndexWriteError::KeyTooLong { length: 65_536 });
    writer.append(&mut file, b"a", 100, None).unwrap();
    let error = writer.append(&mut file, b"b", 100, None).unwrap_err();
    assert_eq!(error, BigIndexWriteError::OutOfOrder { position: 100, previous: 100 });
    assert_eq!(file.len(), 2 + 1 + 1 + 1);
}
