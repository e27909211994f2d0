//! Compares the promoted index of random rows and markers with a plain list of blocks.

use crate::big_support;

use std::sync::Arc;

use big_support::*;
use bytes::Bytes;
use espalier_mutation::{BoundKind, ClusteringComparator, DeletionTime};
use espalier_sstable::{
    index::big::{
        BigIndexWriteError, MemoryFile,
        partition_index::PromotedLocation,
        promoted_index::{
            Block, BlockPosition, PositionFormat, PositionKind, PromotedIndexBuilder,
            PromotedIndexReader,
        },
    },
    versions::DeletionTimeForm,
};
use espalier_types::CqlType;
use proptest::{collection::vec, prelude::*};

fn types() -> Vec<(CqlType, bool)> {
    vec![(CqlType::Int, false), (CqlType::Text, true)]
}

fn comparator() -> ClusteringComparator {
    ClusteringComparator { types: types().into() }
}

fn position() -> impl Strategy<Value = BlockPosition> {
    let text = prop_oneof![
        6 => "[a-c]{0,3}",
        1 => (4_000_usize..9_000).prop_map(|length| "x".repeat(length)),
    ];
    let kind = prop_oneof![
        5 => Just(PositionKind::Row),
        1 => (0_u8..8).prop_filter_map("no bound", |number| {
            BoundKind::from_number(number).map(PositionKind::Bound)
        }),
    ];
    (kind, 0_i32..20, text, 1_usize..=2).prop_map(|(kind, number, text, count)| {
        let mut values = vec![Some(Bytes::from(number.to_be_bytes().to_vec())), Some(text.into())];
        if kind != PositionKind::Row {
            values.truncate(count);
        }
        BlockPosition { kind, values: values.into() }
    })
}

/// A row or marker: its position, its length, and the deletion that is open after it.
type Unfiltered = (BlockPosition, u64, DeletionTime);

fn unfiltereds() -> impl Strategy<Value = Vec<Unfiltered>> {
    let deletion = (any::<i64>(), 0_u32..0x7FFF_FFFE)
        .prop_map(|(timestamp, seconds)| DeletionTime::new(timestamp, seconds));
    let deletion = prop_oneof![3 => Just(DeletionTime::LIVE), 1 => deletion];
    let length = prop_oneof![4 => 1_u64..600, 1 => 1_u64..300_000];
    vec((position(), length, deletion), 1..80).prop_map(|mut unfiltereds| {
        let comparator = comparator();
        let compare =
            |a: &Unfiltered, b: &Unfiltered| comparator.compare(a.0.position(), b.0.position());
        unfiltereds.sort_by(compare);
        unfiltereds.dedup_by(|a, b| compare(a, b).is_eq());
        if let Some(last) = unfiltereds.last_mut() {
            last.2 = DeletionTime::LIVE;
        }
        unfiltereds
    })
}

/// First and last position, and the block.
type Expected = (BlockPosition, BlockPosition, Block);

/// Computes the expected blocks.
fn cut(
    unfiltereds: &[Unfiltered],
    header_length: u64,
    size: u64,
    form: DeletionTimeForm,
) -> Vec<Expected> {
    let mut blocks: Vec<Expected> = Vec::new();
    let (mut open, mut offset) = (DeletionTime::LIVE, header_length);
    let mut is_new = true;
    for (position, length, after) in unfiltereds {
        if is_new {
            let number = blocks.len() as u64;
            let block =
                Block { number, start: offset, end: 0, open_deletion: open, is_last: false };
            blocks.push((position.clone(), position.clone(), block));
        }
        offset += length;
        open = *after;
        let (_, last, block) = blocks.last_mut().unwrap();
        *last = position.clone();
        block.end = offset;
        let can_end =
            form == DeletionTimeForm::Legacy || open.is_live() || open.marked_for_delete_at >= 0;
        is_new = block.end - block.start >= size && can_end;
    }
    let (_, _, last) = blocks.last_mut().unwrap();
    last.is_last = true;
    if !is_new {
        last.end += 1;
    }
    blocks
}

fn open(index: &[u8], form: DeletionTimeForm) -> PromotedIndexReader<MemoryFile> {
    // The index does not begin at the start of the file, so that blocks lie across pages in all
    // ways.
    let start = 4_000;
    let mut bytes = vec![0xEE; start as usize];
    bytes.extend(index);
    bytes.extend([0xEE; 5]);
    let location = PromotedLocation { start, length: index.len() as u64 };
    let format = Arc::new(PositionFormat::new(&types(), comparator()));
    let file = file("Index.db", &bytes.into());
    block_on(PromotedIndexReader::open(file, location, format, form)).unwrap()
}

proptest! {
    #![proptest_config(espalier_testing::properties(300))]
    #[test]
    fn blocks_come_back(
        unfiltereds in unfiltereds(),
        others in vec(position(), 20),
        size in prop_oneof![Just(1_u32), 100_u32..2_000, Just(65_536)],
        form in prop_oneof![Just(DeletionTimeForm::Legacy), Just(DeletionTimeForm::Unsigned)],
        header_length in 10_u64..3_000,
        deletion in prop_oneof![Just(DeletionTime::LIVE), Just(DeletionTime::new(5, 6))],
    ) {
        let types = types();
        let mut builder = PromotedIndexBuilder::new(form, size);
        let mut index = Vec::new();
        // The index is written twice, because no state of a partition may remain for the next.
        for _ in 0..2 {
            let mut offset = header_length;
            for (position, length, after) in &unfiltereds {
                builder.begin(&types, position.as_ref(), offset).unwrap();
                offset += length;
                builder.end(&types, position.as_ref(), offset, *after).unwrap();
            }
            let last = unfiltereds.last().map(|(position, ..)| position.as_ref());
            builder.finish(&types, last, deletion, offset, &mut index).unwrap();
        }
        let expected = cut(&unfiltereds, header_length, u64::from(size), form);
        if expected.len() < 2 {
            prop_assert!(index.is_empty());
            return Ok(());
        }

        let reader = open(&index, form);
        prop_assert_eq!(reader.partition_deletion(), deletion);
        prop_assert_eq!(reader.header_length(), header_length);
        prop_assert_eq!(reader.block_count(), expected.len() as u64);
        for (number, (first, last, block)) in expected.iter().enumerate() {
            prop_assert_eq!(block_on(reader.block(number as u64)).unwrap(), *block);
            let stored = block_on(reader.promoted_block(number as u64)).unwrap();
            prop_assert_eq!((&stored.first, &stored.last), (first, last));
            let open = expected.get(number + 1).map(|(.., next)| next.open_deletion);
            prop_assert_eq!(stored.open_at_end, open.unwrap_or_default());
        }
        prop_assert!(block_on(reader.block(expected.len() as u64)).is_err());

        let comparator = comparator();
        let own = expected.iter().flat_map(|(first, last, _)| [first, last]);
        for position in own.chain(&others) {
            let position = position.position();
            let floor = expected
                .iter()
                .find(|(_, last, _)| comparator.compare(last.position(), position).is_ge());
            let end = expected
                .iter()
                .rfind(|(first, ..)| comparator.compare(first.position(), position).is_le());
            let found = block_on(reader.floor_block(position)).unwrap();
            prop_assert_eq!(found, floor.map(|(.., block)| *block));
            let found = block_on(reader.end_block(position)).unwrap();
            prop_assert_eq!(found, end.unwrap_or(&expected[0]).2);
        }
    }
}

#[test]
fn a_block_that_overlaps_is_refused() {
    let types = types();
    let mut builder = PromotedIndexBuilder::new(DeletionTimeForm::Legacy, 10);
    let position = BlockPosition {
        kind: PositionKind::Row,
        values: Box::new([Some(Bytes::from_static(&[0, 0, 0, 1])), Some(Bytes::new())]),
    };
    builder.begin(&types, position.as_ref(), 30).unwrap();
    builder.end(&types, position.as_ref(), 50, DeletionTime::LIVE).unwrap();
    let error = builder.begin(&types, position.as_ref(), 49).unwrap_err();
    assert_eq!(error, BigIndexWriteError::OutOfOrder { position: 49, previous: 50 });
    let mut builder = PromotedIndexBuilder::new(DeletionTimeForm::Legacy, 10);
    let short = BlockPosition {
        kind: PositionKind::Row,
        values: Box::new([Some(Bytes::from_static(&[1])), None]),
    };
    let error = builder.begin(&types, short.as_ref(), 30).unwrap_err();
    assert!(matches!(error, BigIndexWriteError::Position(_)), "{error}");
}
