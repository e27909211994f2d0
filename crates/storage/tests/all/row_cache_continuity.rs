//! A second model of the row cache, of its continuity alone: which places of a partition it may claim to know, and which it must.
//!
//! The model knows nothing of tries, entries and flags. To it a partition is a line of places, the rows and the gaps between them, and
//! the cache's knowledge is a set of places, as the cache explains it. After every step of a random history:
//!
//! - what is claimed is what was claimed before and what was asked for since, no more (rules 2 and 6);
//! - while there is room, what was claimed before is claimed still, and what was read is claimed (rules 4 to 6);
//! - what was evicted is lost, and nothing is gained by it (rule 8); what was forgotten is all lost (rule 10);
//! - a read of places that are claimed asks no file, and a read of others does (rule 2);
//! - in each range that is claimed, the cache holds the rows that the files have there, and a read of it, up and down, gives what
//!   was written, as a model says that knows only the writes (rules 2 and 11).

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    ClusteringBound, ClusteringSlice, ClusteringSlices, ColumnData, DecoratedKey, Direction,
    Mutation, PartitionUpdate,
    schema::{Schema, TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{JoinHandle, file::FileSystem, spawn_local};
use espalier_storage::{
    CacheExplanation, Database, KnownRange, ReadCommand, ReadTarget, StorageError,
};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::{
    model::{Model, Writer, forget_liveness},
    row_cache::settings,
    support::*,
};

/// The least clustering value that a [`Writer`] writes.
const LEAST_ROW: i32 = -2;

/// A set of places of a partition: bit 2 n + 1 is row n, in clustering order, bit 2 n the gap before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Places(u128);

impl Places {
    const NONE: Self = Self(0);

    fn between(first: u32, end: u32) -> Self {
        let below = |bit: u32| 1u128.checked_shl(bit).map_or(u128::MAX, |above| above - 1);
        Self(below(end.max(first)) & !below(first))
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// Which of the places of a table's partitions a bound or a slice has.
#[derive(Clone, Copy)]
struct Line {
    rows: u32,
    is_reversed: bool,
}

impl Line {
    /// The number of a row, by its value, an `int` or a `varint`.
    fn row(self, value: &[u8]) -> u32 {
        let sign = if value[0] < 0x80 { 0 } else { -1 };
        let value = value.iter().fold(sign, |value, byte| value << 8 | i32::from(*byte));
        let at = u32::try_from(value - LEAST_ROW).unwrap();
        assert!(at < self.rows);
        if self.is_reversed { self.rows - 1 - at } else { at }
    }

    /// The first place behind a bound.
    fn behind(self, bound: &ClusteringBound) -> u32 {
        let is_before = bound.kind.weight() < 0;
        match bound.values.first() {
            Some(value) => 2 * self.row(value.as_ref().unwrap()) + if is_before { 1 } else { 2 },
            None if is_before => 0,
            None => 2 * self.rows + 1,
        }
    }

    fn slice(self, start: &ClusteringBound, end: &ClusteringBound) -> Places {
        Places::between(self.behind(start), self.behind(end))
    }

    fn slices(self, slices: &ClusteringSlices) -> Places {
        let each = slices.slices.iter().map(|slice| self.slice(&slice.start, &slice.end));
        each.fold(Places::NONE, Places::with)
    }

    fn all(self) -> Places {
        Places::between(0, 2 * self.rows + 1)
    }

    /// Those of a walk that ends with a row.
    fn up_to(self, row: u32, direction: Direction) -> Places {
        match direction {
            Direction::Forward => Places::between(0, 2 * row + 2),
            Direction::Reverse => Places::between(2 * row + 1, 2 * self.rows + 1),
        }
    }
}

#[derive(Clone, Copy)]
struct Shape {
    table: fn() -> TableMetadata,
    line: Line,
    partitions: u64,
    cache_bytes: usize,
    /// Nothing is evicted but when the model wants it.
    has_room: bool,
}

/// What the model knows.
struct Continuity {
    shape: Shape,
    database: Database,
    table: Arc<TableMetadata>,
    writer: Writer,
    all: Model,
    /// What files hold.
    files: Model,
    /// What they do not hold yet.
    memory: Vec<PartitionUpdate>,
    /// Of each partition of which anything was claimed after the last step.
    claims: BTreeMap<u64, Places>,
    flushing: Option<JoinHandle<Result<(), StorageError>>>,
    has_files: bool,
    /// The seed and the step, for messages.
    context: String,
}

/// What a step may have taught the cache, and what it must have, for each partition that it touched.
#[derive(Default)]
struct Learned {
    may: BTreeMap<u64, Places>,
    must: BTreeMap<u64, Places>,
}

impl Learned {
    fn add(places: &mut BTreeMap<u64, Places>, partition: u64, more: Places) {
        let known = places.entry(partition).or_default();
        *known = known.with(more);
    }
}

fn partition(at: u64) -> DecoratedKey {
    key(format!("p{at}"))
}

/// Whether it has nothing that would let a read pass over what files hold.
fn only_adds(update: &PartitionUpdate) -> bool {
    let mut rows = update.rows.iter().chain(&update.static_row);
    update.deletion.is_live()
        && update.range_tombstones.is_empty()
        && rows.all(|row| row.deletion.is_live())
}

/// The greatest timestamp of all that is written.
fn latest(update: &PartitionUpdate) -> i64 {
    let ranges = update.range_tombstones.iter().map(|range| range.deletion);
    let mut latest = ranges.fold(update.deletion.marked_for_delete_at, |latest, deletion| {
        latest.max(deletion.marked_for_delete_at)
    });
    for row in update.rows.iter().chain(&update.static_row) {
        latest = latest.max(row.liveness.timestamp).max(row.deletion.marked_for_delete_at);
        for (_, data) in &row.columns {
            latest = match data {
                ColumnData::Simple(cell) => latest.max(cell.timestamp),
                ColumnData::Complex(column) => {
                    let cells = column.cells.iter().map(|(_, cell)| cell.timestamp);
                    latest
                        .max(column.deletion.marked_for_delete_at)
                        .max(cells.max().unwrap_or(latest))
                }
            };
        }
    }
    latest
}

impl Continuity {
    async fn claimed(&self, at: u64) -> (Option<Places>, Vec<KnownRange>) {
        let explained = self.database.explain_cached(&self.table, partition(at)).await.unwrap();
        let CacheExplanation::Known(known) = explained else {
            assert_eq!(explained, CacheExplanation::Unknown);
            return (None, Vec::new());
        };
        assert_eq!(known.untold_ranges, 0);
        let rows: u64 = known.ranges.iter().map(|range| range.rows).sum();
        assert_eq!(rows, known.rows, "rows outside of ranges: {}", self.context);
        let line = self.shape.line;
        let mut all = Places::NONE;
        for range in &known.ranges {
            let places = line.slice(&range.start, &range.end);
            assert_ne!(places, Places::NONE, "{range:?} {}", self.context);
            assert_eq!(all.0 & places.0, 0, "ranges overlap: {:?} {}", known.ranges, self.context);
            all = all.with(places);
        }
        (Some(all), known.ranges)
    }

    /// Compares what is claimed with what was, and with what the step taught.
    async fn check_claims(&mut self, learned: &Learned, is_evicted: bool, is_forgotten: bool) {
        let context = self.context.clone();
        for at in 0..self.shape.partitions {
            let before = self.claims.get(&at).copied();
            let (claimed, _) = self.claimed(at).await;
            let may = learned.may.get(&at).copied();
            let may_all = match is_forgotten {
                true => may.unwrap_or_default(),
                false => before.unwrap_or_default().with(may.unwrap_or_default()),
            };
            assert!(
                may_all.has(claimed.unwrap_or_default()),
                "p{at} has no right to {claimed:x?} after {before:x?} and {may:x?}: {context}"
            );
            let is_found = claimed.is_some();
            let was_seen = (before.is_some() && !is_forgotten) || may.is_some();
            assert!(!is_found || was_seen, "p{at} came by itself: {context}");
            if self.shape.has_room && !is_evicted && !is_forgotten {
                let must = learned.must.get(&at).copied();
                let must_all = before.unwrap_or_default().with(must.unwrap_or_default());
                assert!(
                    claimed.unwrap_or_default().has(must_all),
                    "p{at} should know {must:x?} and {before:x?}, and knows {claimed:x?}: {context}"
                );
                assert!(is_found || (before.is_none() && must.is_none()), "p{at}: {context}");
            }
            match claimed {
                Some(claimed) => self.claims.insert(at, claimed),
                None => self.claims.remove(&at),
            };
        }
    }

    /// Reads what is claimed, and compares it with the writes, and the rows with those in files.
    async fn check_contents(&mut self, at: u64) {
        let (_, ranges) = self.claimed(at).await;
        for range in ranges {
            let slice = ClusteringSlice { start: range.start.clone(), end: range.end.clone() };
            let mut command = command(&self.table, ReadTarget::Partition(partition(at)));
            command.now_s = self.writer.now_s;
            command.slices = Arc::new(ClusteringSlices { slices: vec![slice.clone()] });
            for direction in [Direction::Forward, Direction::Reverse] {
                command.direction = direction;
                let before = self.database.row_cache_metrics().reads_with_misses;
                let is_flushing = self.flushing.is_some();
                self.compare(&command).await;
                let after = self.database.row_cache_metrics().reads_with_misses;
                assert!(before == after || is_flushing, "{range:?} {}", self.context);
            }
            if self.flushing.is_some() {
                continue;
            }
            let visible: usize = self.files.read(&command).iter().map(|p| p.rows.len()).sum();
            let comparator = self.table.comparator();
            let mut written: Vec<_> = self
                .files
                .writes
                .iter()
                .filter(|update| update.key == partition(at))
                .flat_map(|update| &update.rows)
                .map(|row| &row.clustering)
                .filter(|clustering| slice.contains(comparator, clustering.position()))
                .collect();
            written.sort_by(|a, b| comparator.compare(a.position(), b.position()));
            written.dedup();
            // Partitions of one row keep their deletion as a row's.
            let written = match self.table.clustering_columns() {
                [] => 1,
                _ => written.len(),
            };
            assert!(
                (visible as u64..=written as u64).contains(&range.rows),
                "{visible} rows are visible, {written} were written: {range:?} {}",
                self.context
            );
        }
    }

    async fn compare(&self, command: &ReadCommand) {
        let mut expected = self.all.read(command);
        let mut got = self.database.read(command.clone()).await.unwrap().partitions;
        forget_liveness(&mut expected);
        forget_liveness(&mut got);
        assert_eq!(got, expected, "{} {command:?}", self.context);
    }

    /// What a read asks for, and what must be known after it, by the rows that it gave.
    fn expected_of(&self, at: u64, command: &ReadCommand) -> (Places, Option<Places>) {
        let line = self.shape.line;
        let slices = line.slices(&command.slices);
        let mut memory = self.memory.iter().filter(|update| update.key == partition(at));
        // A single row is looked for in memory first.
        let is_one_row = slices.0.count_ones() == 1;
        let is_asked = match is_one_row {
            true => memory.next().is_none(),
            false => memory.all(only_adds),
        };
        if !is_asked || !self.has_files || self.flushing.is_some() || self.is_deleted(at) {
            return (slices, None);
        }
        let limit = command.limits.rows_per_partition;
        let read = self.all.read(command);
        let rows = read.first().map_or(&[][..], |partition| &partition.rows);
        let must = match rows.last() {
            Some(last) if rows.len() == limit && !last.clustering.values.is_empty() => {
                let last = line.row(last.clustering.values[0].as_ref().unwrap());
                Places(slices.0 & line.up_to(last, command.direction).0)
            }
            _ => slices,
        };
        (slices, Some(must))
    }

    /// Whether files hold nothing newer than the deletion of the partition: then its rows are not looked at.
    fn is_deleted(&self, at: u64) -> bool {
        let key = partition(at);
        let of_partition = || self.files.writes.iter().filter(|update| update.key == key);
        let deleted = of_partition().map(|update| update.deletion.marked_for_delete_at).max();
        let latest = of_partition().map(latest).max();
        deleted.is_some_and(|deleted| deleted > i64::MIN && Some(deleted) >= latest)
    }

    async fn read(&mut self, learned: &mut Learned) {
        let at = self.writer.below(self.shape.partitions);
        let (table, spread) = (self.table.clone(), u64::from(self.shape.line.rows));
        let mut command = self.writer.command(&table, 1, spread);
        if let ReadTarget::Partition(_) = command.target {
            command.target = ReadTarget::Partition(partition(at));
            command.bypass_cache = self.writer.below(8) == 0;
        } else {
            command.bypass_cache = false;
        }
        let is_scan = matches!(command.target, ReadTarget::Range(_));
        let goes_around = is_scan || command.bypass_cache;
        let before = self.database.row_cache_metrics().reads_with_misses;
        let is_flushing = self.flushing.is_some();
        self.compare(&command).await;
        let is_miss = self.database.row_cache_metrics().reads_with_misses != before;
        if goes_around {
            assert!(!is_miss, "{} {command:?}", self.context);
            return;
        }
        let (may, must) = self.expected_of(at, &command);
        let known = self.claims.get(&at).copied();
        if let Some(must) = must {
            let is_known = |places| known.is_some_and(|known: Places| known.has(places));
            assert!(
                is_miss || is_known(must),
                "a hit of what is not known: {} {command:?}",
                self.context
            );
            Learned::add(&mut learned.must, at, must);
        }
        if known.is_some_and(|known| known.has(may)) && !is_flushing {
            assert!(!is_miss, "a miss of what is known: {} {command:?}", self.context);
        }
        Learned::add(&mut learned.may, at, may);
    }

    /// Several at once, that fill the same gaps.
    async fn read_together(&mut self, learned: &mut Learned) {
        let (table, spread) = (self.table.clone(), u64::from(self.shape.line.rows));
        let mut readers = Vec::new();
        for _ in 0..4 {
            let at = self.writer.below(self.shape.partitions);
            let mut command = self.writer.command(&table, 1, spread);
            command.target = ReadTarget::Partition(partition(at));
            let (may, must) = self.expected_of(at, &command);
            Learned::add(&mut learned.may, at, may);
            if let Some(must) = must {
                Learned::add(&mut learned.must, at, must);
            }
            let mut expected = self.all.read(&command);
            forget_liveness(&mut expected);
            let (database, context) = (self.database.clone(), self.context.clone());
            readers.push(spawn_local(async move {
                let mut got = database.read(command.clone()).await.unwrap().partitions;
                forget_liveness(&mut got);
                assert_eq!(got, expected, "{context} {command:?}");
            }));
        }
        for reader in readers {
            reader.await;
        }
    }

    /// A row that is at hand in one file.
    fn look_at_hand(&mut self, learned: &mut Learned) {
        let at = self.writer.below(self.shape.partitions);
        let row = self.writer.below(u64::from(self.shape.line.rows.max(1))) as i32 + LEAST_ROW;
        let columns = self.table.clustering_columns().len();
        let clustering: Vec<_> = (0..columns).map(|_| Some(int(row))).collect();
        let places = match columns {
            0 => self.shape.line.all(),
            _ => {
                let row = self.shape.line.row(&int(row));
                Places::between(2 * row + 1, 2 * row + 2)
            }
        };
        let key = partition(at);
        self.database.try_read_row(&self.table, key.borrowed(), &clustering, true, |_| ());
        Learned::add(&mut learned.may, at, places);
    }

    async fn write(&mut self) {
        // Writes meanwhile may or may not be part of a flush.
        self.end_flush().await;
        let (table, spread) = (self.table.clone(), u64::from(self.shape.line.rows));
        let update = self.writer.update(&table, self.shape.partitions, spread);
        if update.is_empty() {
            return;
        }
        self.all.writes.push(update.clone());
        self.memory.push(update.clone());
        self.database.apply(Mutation { updates: vec![update] }).await.unwrap();
    }

    fn begin_flush(&mut self) {
        let database = self.database.clone();
        self.flushing = Some(spawn_local(async move { database.flush("ks", None).await }));
    }

    async fn end_flush(&mut self) {
        let Some(flush) = self.flushing.take() else { return };
        flush.await.unwrap();
        self.has_files |= !self.memory.is_empty();
        self.files.writes.append(&mut self.memory);
    }

    async fn forget(&mut self) {
        match self.writer.below(3) {
            0 => self.database.forget_cached_rows().await,
            1 => {
                let name = self.table.name.clone();
                let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
                    let table = schema.table("ks", &name).unwrap();
                    Ok(Some(with_tables(schema, vec![table.rebuild().build()])))
                };
                assert!(self.database.change_schema(change).await.unwrap().unwrap());
                self.table = table(&self.database, &name);
            }
            _ => {
                self.database.truncate(self.table.id).await.unwrap();
                self.has_files = false;
                self.memory.clear();
                self.all.writes.clear();
                self.files.writes.clear();
            }
        }
    }

    async fn step(&mut self) {
        let mut learned = Learned::default();
        let (mut is_evicted, mut is_forgotten) = (false, false);
        match self.writer.below(48) {
            0..3 => {
                self.end_flush().await;
                self.begin_flush();
            }
            3 => self.end_flush().await,
            4 if self.writer.below(4) == 0 => {
                self.end_flush().await;
                self.database.compact("ks", None, false).await.unwrap();
            }
            5 if self.writer.below(6) == 0 => {
                self.end_flush().await;
                self.forget().await;
                is_forgotten = true;
            }
            6 | 7 => {
                // The hand takes whatever is oldest.
                let used = self.database.row_cache_metrics().used_bytes as usize;
                let least = used * self.writer.below(100) as usize / 100;
                self.database.set_row_cache_limit(least);
                self.database.set_row_cache_limit(self.shape.cache_bytes);
                is_evicted = true;
            }
            8 | 9 => self.look_at_hand(&mut learned),
            10 | 11 => self.read_together(&mut learned).await,
            12..28 => self.read(&mut learned).await,
            _ => self.write().await,
        }
        self.check_claims(&learned, is_evicted, is_forgotten).await;
        if self.writer.below(8) == 0 {
            let at = self.writer.below(self.shape.partitions);
            self.check_contents(at).await;
        }
    }
}

/// How much of what the model looks at there was, so that a run that saw nothing fails.
#[derive(Debug, Default)]
struct Seen {
    claims: u64,
    reads_with_misses: u64,
    reads_without_misses: u64,
    row_merges: u64,
    row_evictions: u64,
}

fn check(seed: u64, shape: Shape, steps: u64, seen: &mut Seen) {
    let file_system = FileSystem::simulated(seed);
    let mut writer = Writer::new(seed);
    // Compactions go by the clock; for them nothing has expired yet.
    writer.now_s = NOW + 1_000_000_000;
    let model = || Model { now_s: NOW + 1_000_000_000, ..Model::default() };
    run(async {
        espalier_runtime::preempt::force_yields(Some(seed));
        let database = open(&file_system, settings(shape.cache_bytes)).await.unwrap();
        let mut definition = (shape.table)();
        definition.options.gc_grace_seconds = i32::MAX as u32;
        let name = definition.name.clone();
        create(&database, vec![definition]).await;
        let mut continuity = Continuity {
            shape,
            table: table(&database, &name),
            database,
            writer,
            all: model(),
            files: model(),
            memory: Vec::new(),
            claims: BTreeMap::new(),
            flushing: None,
            has_files: false,
            context: String::new(),
        };
        for step in 0..steps {
            continuity.context = format!("seed {seed} step {step}");
            continuity.step().await;
            seen.claims += continuity.claims.len() as u64;
        }
        continuity.end_flush().await;
        for at in 0..shape.partitions {
            continuity.check_contents(at).await;
        }
        let metrics = continuity.database.row_cache_metrics();
        seen.reads_with_misses += metrics.reads_with_misses;
        seen.reads_without_misses += metrics.reads_without_misses;
        seen.row_merges += metrics.row_merges;
        seen.row_evictions += metrics.row_evictions;
        espalier_runtime::preempt::force_yields(None);
    });
}

/// Rows in descending order, of a type of which a value has several byte forms: rows keep theirs beside their path.
fn reversed_table() -> TableMetadata {
    TableBuilder::new("ks", "reversed", TableId(Uuid::from_u128(0xaa)))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Varint, true)
        .regular("v", CqlType::Blob)
        .build()
}

const fn shape(
    table: fn() -> TableMetadata,
    rows: u32,
    is_reversed: bool,
    partitions: u64,
) -> Shape {
    let line = Line { rows, is_reversed };
    Shape { table, line, partitions, cache_bytes: 1 << 20, has_room: true }
}

const WIDE: Shape = shape(wide_table, 12, false, 3);
const LONG: Shape = shape(wide_table, 60, false, 1);
const REVERSED: Shape = shape(reversed_table, 10, true, 2);
/// Partitions that are one row: all or nothing of them is known.
const NARROW: Shape = shape(narrow_table, 0, false, 20);

const fn without_room(shape: Shape, cache_bytes: usize) -> Shape {
    Shape { cache_bytes, has_room: false, ..shape }
}

fn check_seeds(first: u64, seeds: u64, shape: Shape, steps: u64) {
    let mut seen = Seen::default();
    (first..first + seeds).for_each(|seed| check(seed, shape, steps, &mut seen));
    let Seen { claims, reads_with_misses, reads_without_misses, row_merges, row_evictions } = seen;
    assert!(claims > seeds * steps / 4, "{seen:?}");
    assert!(reads_with_misses > 0 && reads_without_misses > 0, "{seen:?}");
    assert!(row_merges > 0 && row_evictions > 0, "{seen:?}");
}

#[test]
fn wide_partitions_are_claimed_as_far_as_they_are_known() {
    check_seeds(0, 20, WIDE, 400);
    check_seeds(50, 10, without_room(WIDE, 3 << 10), 400);
}

#[test]
fn long_partitions_are_claimed_as_far_as_they_are_known() {
    check_seeds(100, 8, LONG, 400);
    check_seeds(150, 4, without_room(LONG, 4 << 10), 400);
}

#[test]
fn reversed_partitions_are_claimed_as_far_as_they_are_known() {
    check_seeds(200, 10, REVERSED, 400);
    check_seeds(250, 5, without_room(REVERSED, 2 << 10), 400);
}

#[test]
fn partitions_of_one_row_are_claimed_or_not() {
    check_seeds(300, 5, NARROW, 400);
    check_seeds(350, 5, without_room(NARROW, 1 << 10), 400);
}

/// The long run: `ESPALIER_STEPS=1000000 cargo test --release -p espalier-storage --test all row_cache_continuity::a_million -- --ignored`.
#[test]
#[ignore = "takes as long as it is told to"]
fn a_million_steps() {
    let number = |name: &str, default| {
        let told = std::env::var(name).ok().and_then(|number| number.parse().ok());
        told.unwrap_or(default)
    };
    let (steps, first) = (number("ESPALIER_STEPS", 1_000_000), number("ESPALIER_SEED", 0));
    let shapes = [
        WIDE,
        without_room(WIDE, 3 << 10),
        LONG,
        without_room(LONG, 4 << 10),
        REVERSED,
        without_room(REVERSED, 2 << 10),
        NARROW,
        without_room(NARROW, 1 << 10),
    ];
    let mut seen = Seen::default();
    for round in 0..steps / 1000 {
        let shape = shapes[round as usize % shapes.len()];
        let seed = espalier_runtime::random::Generator::from_seed(first + round).below(u64::MAX);
        println!("round {round} seed {seed}");
        check(seed, shape, 1000, &mut seen);
    }
    println!("{seen:?}");
}
