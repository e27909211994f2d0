//! Tests broken index files: errors and wrong answers are allowed, but no panics, endless loops or
//! growing memory.

use crate::big_support;
use crate::support::dice;

use std::{path::Path, sync::Arc};

use big_support::*;
use bytes::Bytes;
use dice::Dice;
use espalier_mutation::{DecoratedKey, KeyBound, Token};
use espalier_sstable::{
    FileName, SSTableError,
    index::big::{
        BigIndex,
        partition_index::{IndexEntry, PromotedLocation},
        promoted_index::{PositionFormat, PromotedIndexReader},
        summary::Summary,
    },
    versions::DeletionTimeForm,
};

fn break_file(dice: &mut Dice, file: &[u8]) -> Vec<u8> {
    let mut broken = file.to_vec();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(broken.len());
        broken[at] = match dice.below(3) {
            0 => broken[at] ^ 1 << dice.below(8),
            1 => 0xFF,
            _ => dice.below(256) as u8,
        };
    }
    broken
}

/// Makes every kind of look-up. Returns the number of answers.
fn ask(fixture: &BigFixture, index: &[u8], summary: Option<&[u8]>, keys: &[DecoratedKey]) -> usize {
    let counting = CountingFile::new(file("Index.db", &Bytes::copy_from_slice(index)));
    let name = FileName::new(Path::new("Summary.db"));
    let summary = summary.map(Bytes::copy_from_slice);
    let summary = summary.as_ref().map(|summary| (&name, summary));
    let opened = BigIndex::open(counting.clone(), summary, fixture.data_length, 2);
    let mut answers = 0;
    let mut found = Vec::new();
    match block_on(opened) {
        Ok(opened) => {
            for key in keys {
                let bounds = [
                    KeyBound::AfterKey(key.clone()),
                    KeyBound::BeforeToken(key.token),
                    KeyBound::AfterToken(Token(key.token.0.wrapping_mul(3))),
                ];
                answers += usize::from(block_on(opened.exact(opened.file(), key)).is_ok());
                for bound in bounds {
                    answers += usize::from(block_on(opened.ceiling(opened.file(), &bound)).is_ok());
                }
            }
            found = entries(&opened).unwrap_or_default();
            answers += usize::from(!found.is_empty());
        }
        Err(SSTableError::Corrupt { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let format = fixture.format();
    let whole = PromotedLocation { start: 0, length: index.len() as u64 };
    let beyond = PromotedLocation { start: u64::MAX - 1, length: 9 };
    let locations = found.iter().filter_map(|entry: &IndexEntry| entry.promoted);
    for location in locations.chain([whole, beyond]) {
        answers += ask_blocks(fixture, &counting, location, &format);
    }
    answers
}

fn ask_blocks(
    fixture: &BigFixture,
    counting: &CountingFile,
    location: PromotedLocation,
    format: &Arc<PositionFormat>,
) -> usize {
    let form = fixture.form();
    let reader = PromotedIndexReader::open(counting.clone(), location, format.clone(), form);
    let Ok(reader) = block_on(reader) else { return 0 };
    let mut answers = 0;
    assert!(reader.block_count() * 9 <= counting.inner_length());
    for number in 0..reader.block_count().min(30) {
        answers += usize::from(block_on(reader.block(number)).is_ok());
        let Ok(block) = block_on(reader.promoted_block(number)) else { continue };
        for position in [&block.first, &block.last] {
            answers += usize::from(block_on(reader.floor_block(position.position())).is_ok());
            answers += usize::from(block_on(reader.end_block(position.position())).is_ok());
        }
    }
    answers + usize::from(block_on(reader.last_block()).is_ok())
}

impl CountingFile {
    fn inner_length(&self) -> u64 {
        espalier_sstable::index::big::IndexFile::length(self)
    }
}

fn keys(fixture: &BigFixture) -> Vec<DecoratedKey> {
    let entries = entries(&fixture.open().unwrap()).unwrap();
    entries.into_iter().map(|entry| entry.key).take(4).collect()
}

#[test]
fn cut_at_any_length() {
    for fixture in own_fixtures() {
        let keys = keys(&fixture);
        for length in 0..fixture.index.len() {
            let index = &fixture.index[..length];
            let opened = BigIndex::open(
                file("Index.db", &Bytes::copy_from_slice(index)),
                None,
                fixture.data_length,
                2,
            );
            // Only a cut between two entries goes unnoticed.
            let is_between = fixture_ends(&fixture).contains(&(length as u64));
            assert_eq!(block_on(opened).is_ok(), is_between, "{} of {length}", fixture.name);
            ask(&fixture, index, fixture.summary.as_deref(), &keys);
        }
    }
}

fn fixture_ends(fixture: &BigFixture) -> Vec<u64> {
    let entries = entries(&fixture.open().unwrap()).unwrap();
    entries.iter().map(|entry| entry.next_position).collect()
}

#[test]
fn random_changes() {
    let mut dice = Dice(0x0123_4567_89AB_CDEF);
    let mut answers = 0;
    for fixture in own_fixtures() {
        let keys = keys(&fixture);
        let summary = fixture.summary.clone().unwrap();
        for round in 0..1500 {
            let index = break_file(&mut dice, &fixture.index);
            let broken = break_file(&mut dice, &summary);
            let summary = match round % 3 {
                0 => None,
                1 => Some(&summary[..]),
                _ => Some(&broken[..]),
            };
            answers += ask(&fixture, &index, summary, &keys);
        }
    }
    assert!(answers > 1000, "nearly all were refused at once: nothing was tested");
}

#[test]
fn random_index_and_summary_bytes_do_not_panic() {
    let mut dice = Dice(0xFEDC_BA98_7654_3210);
    let name = FileName::new(Path::new("Summary.db"));
    for fixture in own_fixtures() {
        let keys = keys(&fixture);
        for length in 0..300 {
            let noise: Vec<u8> = (0..length).map(|_| dice.below(256) as u8).collect();
            for bytes in [noise, vec![0; length], vec![0xFF; length], vec![1; length]] {
                ask(&fixture, &bytes, Some(&bytes), &keys);
                assert!(block_on(Summary::read(&name, &Bytes::from(bytes))).is_err());
            }
        }
    }
}

/// Lengths that no file holds are rejected before memory of that size is allocated.
#[test]
fn forged_lengths() {
    let name = FileName::new(Path::new("Summary.db"));
    let mut summary = Vec::new();
    summary.extend(128_u32.to_be_bytes());
    summary.extend(u32::MAX.to_be_bytes());
    summary.extend((1_u64 << 62).to_be_bytes());
    summary.extend([0; 200]);
    let error =
        block_on(Summary::read(&name, &Bytes::from(summary.clone()))).unwrap_err().to_string();
    assert!(error.contains("cannot be in 192 bytes"), "{error}");
    summary[8..16].copy_from_slice(&100_u64.to_be_bytes());
    summary.truncate(24 + 100 + 4 + 4);
    let error = block_on(Summary::read(&name, &Bytes::from(summary))).unwrap_err().to_string();
    assert!(error.contains("4294967295 samples cannot be in 100 bytes"), "{error}");

    // A key of 65,535 bytes, and a promoted index of 2^63 bytes, in files of less than 40 bytes.
    let open = |bytes: &'static [u8]| {
        let opened = BigIndex::open(file("Index.db", &Bytes::from_static(bytes)), None, 1000, 128);
        block_on(opened).unwrap_err().to_string()
    };
    let error = open(b"\xFF\xFFkey that ends too early.......");
    assert_eq!(error, "Index.db is corrupt at byte 0: an entry is cut short");
    let error = open(b"\x00\x01a\x05\xFF\x80\x00\x00\x00\x00\x00\x00\x00.......");
    assert!(error.ends_with("extends past the end of the file"), "{error}");
    let error = open(b"\x00\x01a\xC0\x04\x00\x00");
    assert!(error.ends_with("leads past the end of Data.db"), "{error}");
    let error = open(b"\x00\x01a\x05\x00\x00\x01b\x05\x00");
    assert!(error.contains("at byte 5: an entry leads before"), "{error}");
    let error = open(b"\x00\x01a\x05\x00\x00\x01a\x06\x00");
    assert!(error.contains("at byte 5: a key does not come after"), "{error}");
    assert!(open(b"").contains("there is no entry"));

    // 2^60 blocks in 40 bytes.
    let mut promoted = vec![5, 0x80, 0xFF, 0x10];
    promoted.extend([0; 36]);
    let location = PromotedLocation { start: 0, length: promoted.len() as u64 };
    let format = own_fixtures()[0].format();
    let reader = PromotedIndexReader::open(
        file("Index.db", &promoted.into()),
        location,
        format,
        DeletionTimeForm::Unsigned,
    );
    let error = block_on(reader).unwrap_err().to_string();
    assert!(error.contains("the number of blocks does not fit"), "{error}");
}
