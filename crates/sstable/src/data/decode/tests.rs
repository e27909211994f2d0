//! Property tests: all readers of a row or marker read the same from the same bytes, and none
//! panics.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnData, ComplexColumn, DeletionTime,
    Liveness, NO_DELETION_TIME, RangeTombstoneMarker, Row, Unfiltered,
    encoding::stats::{EncodingStats, TIMESTAMP_EPOCH_US},
    schema::{ColumnId, TableBuilder, TableId},
};
use espalier_runtime::random::Generator;
use espalier_types::CqlType;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::{
    data::{
        column_map::{ColumnSelection, FileColumn, FileLayout},
        encode::{RowEncoder, write_marker},
        input::{DataInput, Decoded, Malformed},
        layout::{EXTENSION, HAS_COMPLEX_DELETION},
    },
    error::FileName,
    statistics::SerializationHeader,
    versions::{Family, VERSIONS},
};

struct Random(Generator);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    fn timestamp(&mut self) -> i64 {
        let bits = 4 * self.below(12);
        TIMESTAMP_EPOCH_US + self.below(1 << bits) as i64
    }

    fn deletion(&mut self) -> DeletionTime {
        DeletionTime::new(self.timestamp(), 1_500_000_000 + self.below(1 << 20) as u32)
    }

    fn text(&mut self) -> Bytes {
        let length = [0, 1, 9, 200][self.below(4) as usize];
        (0..length).map(|_| self.below(256) as u8).collect()
    }

    fn liveness(&mut self) -> Liveness {
        match self.below(4) {
            0 => Liveness::NONE,
            1 => Liveness {
                ttl: 1 + self.below(5) as u32,
                local_expiration: 1_500_000_000 + self.below(1 << 20) as u32,
                ..Liveness::live(self.timestamp())
            },
            _ => Liveness::live(self.timestamp()),
        }
    }

    fn cell(&mut self, row: &Liveness, value: Bytes) -> Cell {
        let second = 1_500_000_000 + self.below(1 << 20) as u32;
        match self.below(8) {
            0 => Cell::tombstone(self.timestamp(), second),
            1 => Cell::expiring(self.timestamp(), 1 + self.below(1000) as u32, second, value),
            2 => Cell::live(self.timestamp(), value),
            _ if row.is_none() => Cell::live(self.timestamp(), value),
            3..=4 if row.is_expiring() => {
                Cell::expiring(row.timestamp, row.ttl, row.local_expiration, value)
            }
            _ => Cell::live(row.timestamp, value),
        }
    }
}

/// The kinds of columns in a header.
#[derive(Clone, Copy, Debug)]
enum Columns {
    Simple,
    Complex,
    /// 70 columns, so that a subset is stored as a list.
    Many,
}

fn layout(columns: Columns) -> FileLayout {
    let mut builder = TableBuilder::new("k", "t", TableId(Uuid::nil()))
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Text, false)
        .clustering("d", CqlType::Bigint, true);
    for name in ["a", "b", "e"] {
        builder = builder.regular(name, CqlType::Text).regular(&format!("{name}2"), CqlType::Int);
    }
    match columns {
        Columns::Simple => {}
        Columns::Complex => {
            let (key, value) = (Arc::new(CqlType::Int), Arc::new(CqlType::Text));
            let map = CqlType::Map { key, value, frozen: false };
            builder = builder.regular("m", map.clone()).regular("n", map);
        }
        Columns::Many => {
            for number in 0..64 {
                builder = builder.regular(&format!("v{number}"), CqlType::Text);
            }
        }
    }
    let table = Arc::new(builder.build());
    let header = SerializationHeader::for_table(&table, |_| true, &EncodingStats::default());
    let name = FileName::new(Path::new("/da-1-bti-Data.db"));
    FileLayout::new(&name, &header, table, &VERSIONS[0]).unwrap()
}

fn random_row(random: &mut Random, layout: &FileLayout) -> Row {
    let first = (random.below(5) > 0).then(|| random.text());
    let second = Bytes::copy_from_slice(&random.below(1000).to_be_bytes());
    let mut row = Row::empty(Clustering { values: Box::new([first, Some(second)]) });
    row.liveness = random.liveness();
    if random.below(4) == 0 {
        row.deletion = random.deletion();
    } else if random.below(8) == 0 {
        row.shadowable_deletion = random.deletion();
    }
    let odds = 1 + random.below(4);
    for column in layout.table.regular_columns() {
        if odds > 1 && random.below(odds) == 0 {
            continue;
        }
        let is_text = column.column_type == CqlType::Text;
        let value = |random: &mut Random| {
            if is_text { random.text() } else { Bytes::copy_from_slice(&[7; 4]) }
        };
        let data = if column.is_complex() {
            let mut complex = ComplexColumn { deletion: DeletionTime::LIVE, cells: Vec::new() };
            if random.below(2) == 0 {
                complex.deletion = random.deletion();
            }
            for path in 0..random.below(4) as u32 {
                let value = random.text();
                let cell = random.cell(&row.liveness, value);
                complex.cells.push((Bytes::copy_from_slice(&path.to_be_bytes()), cell));
            }
            if complex.deletion.is_live() && complex.cells.is_empty() {
                continue;
            }
            ColumnData::Complex(complex)
        } else {
            let value = value(random);
            ColumnData::Simple(random.cell(&row.liveness, value))
        };
        row.columns.push((column.id, data));
    }
    row.columns.sort_by_key(|(id, _)| *id);
    row
}

fn random_marker(random: &mut Random) -> RangeTombstoneMarker {
    let kind = BoundKind::from_number([0, 1, 2, 5, 6, 7][random.below(6) as usize]).unwrap();
    let values = (0..random.below(3)).map(|_| Some(Bytes::from_static(b"12345678"))).collect();
    let (mut before, mut after) = (random.deletion(), random.deletion());
    if !kind.is_boundary() {
        if kind.is_start() { before = DeletionTime::LIVE } else { after = DeletionTime::LIVE }
    }
    RangeTombstoneMarker { position: ClusteringBound { kind, values }, before, after }
}

/// The offset at which the item begins.
const START: usize = 3;

/// Reads the item at [`START`]. Returns the item and the offset after it, or `None` at the end of
/// the partition.
fn decode(bytes: &Bytes, layout: &FileLayout) -> Decoded<Option<(Unfiltered, usize)>> {
    let Some(head) = read_head(&mut DataInput::new(bytes, START), layout)? else { return Ok(None) };
    let unfiltered = match head.head.kind {
        HeadKind::Row => {
            let decoder = RowDecoder::new(Arc::new(layout.clone()), &ColumnSelection::All);
            Unfiltered::Row(decoder.read_row(bytes, &head)?)
        }
        HeadKind::Marker(kind) => Unfiltered::Marker(read_marker(bytes, &head, kind, layout)?),
    };
    Ok(Some((unfiltered, head.head.end)))
}

/// Returns the cells of a raw row as columns.
fn cells_of(view: &RowRef, bytes: &Bytes, layout: &FileLayout) -> Vec<(ColumnId, ColumnData)> {
    let cell = |span: &CellSpan| {
        let value = bytes.slice(span.value.0..span.value.1);
        let &CellSpan { timestamp, ttl, local_deletion_time, .. } = span;
        let cell = Cell { timestamp, ttl, local_deletion_time, value };
        (target_of(span, layout).unwrap(), ColumnData::Simple(cell))
    };
    let mut cells: Vec<_> = view.cells.iter().map(cell).collect();
    cells.sort_by_key(|(id, _)| *id);
    cells
}

/// Checks that all readers agree about the item at [`START`], and returns it.
fn agreed(bytes: &Bytes, layout: &FileLayout) -> Decoded<Option<(Unfiltered, usize)>> {
    let decoded = decode(bytes, layout);
    match (&decoded, step(bytes, START, layout, |_| ())) {
        (Ok(None), step) => assert!(matches!(step, Ok(Step::End))),
        (Ok(Some((Unfiltered::Row(_), end))), step) => {
            assert!(matches!(step, Ok(Step::Row(its_end)) if its_end == *end));
        }
        (Ok(Some((Unfiltered::Marker(marker), end))), step) => {
            let Ok(Step::Marker(its_end, open, kind)) = step else { panic!("{marker:?}") };
            assert_eq!((its_end, open, kind), (*end, marker.after, marker.position.kind));
        }
        (Err(_), Ok(Step::Marker(..) | Step::End)) => panic!("{decoded:?}"),
        (Err(_), _) => {}
    }
    let (mut view, mut part) = (RowRef::new(), RowRef::new());
    let raw_end = view.read(bytes, START, layout);
    if let Some(raw_end) = raw_end {
        let Ok(Some((Unfiltered::Row(row), end))) = &decoded else { panic!("{decoded:?}") };
        assert_eq!((raw_end, view.liveness, view.deletion), (*end, row.liveness, row.deletion));
        let values = view.clustering.iter().map(|span| span.map(|(from, to)| &bytes[from..to]));
        assert!(values.eq(row.clustering.values.iter().map(Option::as_deref)));
        assert_eq!(cells_of(&view, bytes, layout), row.columns);
        assert_eq!(view.is_empty(), row.is_empty());
        assert_eq!(view.is_plain, view.cells.iter().all(|cell| cell.is_like(&view.liveness)));
    } else if let Ok(Some((Unfiltered::Row(_), _))) = &decoded {
        let is_simple = |column: &FileColumn| !column.is_complex && !column.is_counter;
        let is_refused = bytes[START] & (EXTENSION | HAS_COMPLEX_DELETION) != 0;
        assert!(is_refused || !layout.regulars.iter().all(is_simple));
    }
    for wanted in [0, 1, 4, layout.regulars.len() - 1] {
        let part_end = part.read_columns(bytes, START, layout, wanted);
        if let Some(raw_end) = raw_end {
            assert_eq!(part_end, Some(raw_end));
            let in_part = |cell: &&CellSpan| cell.column < wanted;
            let is_whole = part.cells.len() == view.cells.len();
            assert!(is_whole || part.cells.iter().eq(view.cells.iter().filter(in_part)));
        }
    }
    if may_have_uniform_rows(layout) {
        let mut uniform = UniformRow::default();
        if uniform.read(bytes, START, layout) == Some(UniformStep::Row) {
            assert_eq!(Some(uniform.rest.1), raw_end);
            assert!(view.is_plain && view.deletion.is_live() && !view.liveness.is_expiring());
            assert_eq!(uniform.timestamp, view.liveness.timestamp);
            assert_eq!(uniform.cells as usize, view.cells.len());
            let place = uniform.place(bytes, &layout.clustering);
            let values = view.clustering.iter().map(|span| span.map(|(from, to)| &bytes[from..to]));
            assert!(place.values().eq(values));
        }
    }
    decoded
}

/// Returns [`START`] bytes, the item that `write` appends and the end of the partition, with the
/// offset after the item.
fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> (Bytes, usize) {
    let mut bytes = vec![0xA5; START];
    write(&mut bytes);
    let end = bytes.len();
    bytes.push(1);
    (Bytes::from(bytes), end)
}

/// Returns the layout for a reader whose table has dropped a column, and has dropped another one
/// and added it again. In one of four cases, a column becomes a counter.
fn with_drops(mut layout: FileLayout, random: &mut Random) -> FileLayout {
    let count = layout.regulars.len() as u64;
    layout.regulars[random.below(count) as usize].target = None;
    layout.regulars[random.below(count) as usize].dropped_time_us = TIMESTAMP_EPOCH_US + (1 << 20);
    if random.below(4) == 0 {
        let column = &mut layout.regulars[random.below(count) as usize];
        column.is_counter = !column.is_complex;
    }
    layout
}

/// Checks that an item that ends too early is an error, and that all readers agree about an item
/// with changed bytes.
fn damage(bytes: &Bytes, end: usize, layout: &FileLayout, random: &mut Random) {
    // Tries all offsets of a short item, but only some of a long one.
    for cut in (START..end).step_by(1 + (end - START) / 200) {
        assert!(agreed(&bytes.slice(..cut), layout).is_err());
    }
    for _ in 0..40 {
        let mut changed = bytes.to_vec();
        for _ in 0..1 + random.below(2) {
            let at = START + random.below((end - START) as u64) as usize;
            changed[at] = match random.below(3) {
                0 => changed[at] ^ 1 << random.below(8),
                1 => [0, 0x7F, 0x80, 0xFF][random.below(4) as usize],
                _ => random.below(256) as u8,
            };
        }
        let _ = agreed(&Bytes::from(changed), layout);
    }
}

proptest! {
    #![proptest_config(espalier_testing::properties(300))]

    #[test]
    fn visitors_agree_about_rows_and_their_damage(
        seed in any::<u64>(),
        columns in prop::sample::select(vec![Columns::Simple, Columns::Complex, Columns::Many]),
    ) {
        let mut random = Random(Generator::from_seed(seed));
        let layout = layout(columns);
        let row = random_row(&mut random, &layout);
        let mut encoder = RowEncoder::new(layout.clone(), Family::Cassandra);
        let clustering = || row.clustering.values.iter().map(Option::as_deref);
        let (bytes, end) =
            encoded(|out| encoder.write_row(clustering(), &row, 300, out).unwrap());
        let (read, read_end) = agreed(&bytes, &layout).unwrap().unwrap();
        prop_assert!(read == Unfiltered::Row(row.clone()));
        prop_assert_eq!(read_end, end);

        let is_live = row.deletion.is_live() && row.shadowable_deletion.is_live();
        let mut view = RowRef::new();
        let is_plain = view.read(&bytes, START, &layout).is_some() && view.is_plain;
        if may_have_uniform_rows(&layout) && is_live && is_plain
            && row.liveness.local_expiration == NO_DELETION_TIME && !row.liveness.is_none()
        {
            let mut uniform = UniformRow::default();
            prop_assert_eq!(uniform.read(&bytes, START, &layout), Some(UniformStep::Row));
            let mut copy = bytes[..START].to_vec();
            encoder.write_uniform(&uniform, &bytes, 300, &mut copy);
            prop_assert_eq!(&copy[..], &bytes[..end]);
        }

        let later = with_drops(layout.clone(), &mut random);
        let _ = agreed(&bytes, &later);
        damage(&bytes, end, &layout, &mut random);
        damage(&bytes, end, &later, &mut random);
    }

    #[test]
    fn visitors_agree_about_markers_and_their_damage(seed in any::<u64>()) {
        let mut random = Random(Generator::from_seed(seed));
        let layout = layout(Columns::Simple);
        let marker = random_marker(&mut random);
        let (types, mut scratch) = (&layout.table.comparator().types, Vec::new());
        let (bytes, end) = encoded(|out| {
            write_marker(&marker, types, &layout.baselines, 300, &mut scratch, out).unwrap();
        });
        let (read, read_end) = agreed(&bytes, &layout).unwrap().unwrap();
        prop_assert!(read == Unfiltered::Marker(marker));
        prop_assert_eq!(read_end, end);
        damage(&bytes, end, &layout, &mut random);
    }
}

#[test]
fn a_fault_has_a_reason() {
    let layout = layout(Columns::Simple);
    let faults: [(&[u8], &str); 9] = [
        (&[0x03], "other flags besides the end of the partition"),
        (&[0x06], "a marker with the flags of a row"),
        (&[0x08], "a row with a ttl and no timestamp"),
        (&[0x80, 0x04], "unknown extended flags"),
        (&[0x20, 0x30], "a clustering header has bits for values that are not there"),
        (&[0x20, 0x0A, 0xF0, 0xFF, 0xFF, 0xFF, 0xFF], "a row is longer than 2 GiB"),
        (&[0, 0x0A, 2, 0, 0x40], "a column is missing that the header does not have"),
        (&[0, 0x0A, 3, 0, 0x3E, 0x20], "unknown flags of a cell"),
        (&[0, 0x0A, 3, 0, 0x3F, 0x01], "a row's body has another length than announced"),
    ];
    for (item, reason) in faults {
        let (bytes, _) = encoded(|out| out.extend_from_slice(item));
        assert_eq!(decode(&bytes, &layout), Err(Malformed::Wrong(reason)));
    }
}
