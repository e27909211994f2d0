//! The model of continuity, and the steps of a history.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    ClusteringSlice, ClusteringSlices, ColumnData, DecoratedKey, Direction, KeyRange, Mutation,
    PartitionUpdate, schema::TableMetadata,
};
use espalier_runtime::{JoinHandle, spawn_local};
use espalier_storage::{
    CacheExplanation, ExplainedRange, Node, ReadCommand, ReadLimits, ReadTarget, RowLookup,
    StorageError,
};

use super::{
    Shape,
    places::{Line, MIN_ROW, Places},
};
use crate::{
    model::{Model, Writer, forget_liveness},
    support::*,
};

/// The state of the model.
pub(super) struct Continuity {
    pub(super) shape: Shape,
    pub(super) database: Node,
    pub(super) table: Arc<TableMetadata>,
    pub(super) writer: Writer,
    pub(super) all: Model,
    /// Writes in files.
    pub(super) files: Model,
    /// Writes that are not in files yet.
    pub(super) memory: Vec<PartitionUpdate>,
    /// Continuous places of each partition that had any after the last step.
    pub(super) claims: BTreeMap<u64, Places>,
    pub(super) flushing: Option<JoinHandle<Result<(), StorageError>>>,
    pub(super) has_files: bool,
    pub(super) scans: u64,
    /// The seed and the step, for messages.
    pub(super) context: String,
}

/// For each partition that a step touched: the places that the step may have made continuous, and
/// the places that must be continuous after it.
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

/// Returns true if an update has no deletion that would let a read skip the files.
fn only_adds(update: &PartitionUpdate) -> bool {
    let mut rows = update.rows.iter().chain(&update.static_row);
    update.deletion.is_live()
        && update.range_tombstones.is_empty()
        && rows.all(|row| row.deletion.is_live())
}

/// Returns the greatest timestamp of an update.
fn latest(update: &PartitionUpdate, line: Line) -> i64 {
    let mut latest = update.deletion.marked_for_delete_at;
    for range in &update.range_tombstones {
        // Some ranges end before they start.
        if line.slice(&range.start, &range.end) != Places::NONE {
            latest = latest.max(range.deletion.marked_for_delete_at);
        }
    }
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
    async fn claimed(&self, at: u64) -> (Option<Places>, Vec<ExplainedRange>) {
        let explained = self.database.explain_cached(&self.table, partition(at)).await.unwrap();
        let CacheExplanation::Known(known) = explained else {
            assert_eq!(explained, CacheExplanation::Unknown);
            return (None, Vec::new());
        };
        assert_eq!(known.unreported_ranges, 0);
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

    /// Compares the continuous places with the earlier ones and with the additions that the step
    /// allows.
    async fn check_claims(&mut self, learned: &Learned, is_evicted: bool, is_forgotten: bool) {
        let context = self.context.clone();
        for at in 0..self.shape.partitions {
            let before = self.claims.get(&at).copied();
            let (claimed, _) = self.claimed(at).await;
            let may = learned.may.get(&at).copied();
            let may_all = if is_forgotten {
                may.unwrap_or_default()
            } else {
                before.unwrap_or_default().with(may.unwrap_or_default())
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

    /// Reads each continuous range of a partition, and compares the result with the writes, and the
    /// number of cached rows with the rows in files.
    pub(super) async fn check_contents(&mut self, at: u64) {
        let (_, ranges) = self.claimed(at).await;
        for range in ranges {
            let slice = ClusteringSlice { start: range.start.clone(), end: range.end.clone() };
            let mut command = command(&self.table, ReadTarget::Partition(partition(at)));
            command.now_s = self.writer.now_s;
            command.slices = Arc::new(ClusteringSlices { slices: vec![slice.clone()] });
            for direction in [Direction::Forward, Direction::Reverse] {
                command.direction = direction;
                let before = self.database.store().row_cache().metrics().reads_with_misses;
                let is_flushing = self.flushing.is_some();
                self.compare(&command).await;
                let after = self.database.store().row_cache().metrics().reads_with_misses;
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
            // Partitions of one row keep their deletion with the row.
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

    /// Returns the places that a read requests, and the places that must be continuous after it,
    /// given its rows.
    fn expected_of(&self, at: u64, command: &ReadCommand) -> (Places, Option<Places>) {
        let line = self.shape.line;
        let slices = line.slices(&command.slices);
        let mut memory = self.memory.iter().filter(|update| update.key == partition(at));
        // A single row is first looked up in memtables.
        let is_one_row = slices.0.count_ones() == 1;
        let is_asked = if is_one_row { memory.next().is_none() } else { memory.all(only_adds) };
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

    /// Returns true if files have nothing newer than the deletion of the partition. Reads then skip
    /// its rows.
    fn is_deleted(&self, at: u64) -> bool {
        let key = partition(at);
        let of_partition = || self.files.writes.iter().filter(|update| update.key == key);
        let deleted = of_partition().map(|update| update.deletion.marked_for_delete_at).max();
        let latest = of_partition().map(|update| latest(update, self.shape.line)).max();
        deleted.is_some_and(|deleted| deleted > i64::MIN && Some(deleted) >= latest)
    }

    async fn read(&mut self, learned: &mut Learned) {
        let at = self.writer.below(self.shape.partitions);
        let (table, spread) = (self.table.clone(), u64::from(self.shape.line.rows));
        let mut command = self.writer.command(&table, 1, spread);
        if let ReadTarget::Partition(_) = command.target {
            command.target = ReadTarget::Partition(partition(at));
        }
        command.bypass_cache = self.writer.below(8) == 0;
        let ReadCommand { slices, direction, limits, .. } = &command;
        self.context += &format!(" p{at} {direction:?} {limits:?} {:?}", slices.slices);
        if let ReadTarget::Range(range) = &command.target
            && !command.bypass_cache
        {
            let range = range.clone();
            if self.writer.below(2) == 0 {
                command.slices = Arc::new(ClusteringSlices::all());
                command.direction = Direction::Forward;
                command.limits = ReadLimits::NONE;
            }
            return self.scan(learned, &command, &range).await;
        }
        let before = self.database.store().row_cache().metrics().reads_with_misses;
        let is_flushing = self.flushing.is_some();
        self.compare(&command).await;
        let is_miss = self.database.store().row_cache().metrics().reads_with_misses != before;
        if command.bypass_cache {
            assert!(!is_miss, "{}", self.context);
            return;
        }
        let (may, must) = self.expected_of(at, &command);
        let known = self.claims.get(&at).copied();
        if let Some(must) = must {
            let is_known = |places| known.is_some_and(|known: Places| known.has(places));
            assert!(
                is_miss || is_known(must),
                "a hit at places that the cache did not claim: {} {command:?}",
                self.context
            );
            Learned::add(&mut learned.must, at, must);
        }
        if known.is_some_and(|known| known.has(may)) && !is_flushing {
            assert!(!is_miss, "a miss at claimed places: {} {command:?}", self.context);
        }
        Learned::add(&mut learned.may, at, may);
    }

    /// Reads a range. A scan of a small table adds the rows that it reads, and the list of
    /// partitions.
    async fn scan(&mut self, learned: &mut Learned, command: &ReadCommand, range: &KeyRange) {
        let line = self.shape.line;
        let slices = line.slices(&command.slices);
        let is_whole = slices == line.all()
            && command.direction == Direction::Forward
            && command.limits.rows_per_partition == usize::MAX;
        let is_quiet = self.has_files && self.flushing.is_none() && self.shape.has_room;
        let teaches = is_whole && is_quiet;
        let is_empty = match (range.start.token(), range.end.token()) {
            (Some(start), Some(end)) => start > end,
            _ => false,
        };
        self.compare(command).await;
        for at in (0..self.shape.partitions).filter(|_| !is_empty) {
            // Missing parts of a known partition are read and added, wherever the scan meets them.
            let is_within = range.contains(&partition(at));
            Learned::add(&mut learned.may, at, if is_within { slices } else { Places::NONE });
            let of_partition = |update: &&PartitionUpdate| update.key == partition(at);
            // A partition in no file keeps its continuous places.
            let is_met = !self.claims.contains_key(&at)
                || self.files.writes.iter().any(|update| of_partition(&update));
            let only_adds = self.memory.iter().filter(of_partition).all(only_adds);
            if is_within && teaches && is_met && only_adds && !self.is_deleted(at) {
                Learned::add(&mut learned.must, at, line.all());
            }
        }
        // The next scan reads a partition that is in no file if an earlier read requested a part of
        // it.
        let is_partial = self.claims.iter().any(|(at, claimed)| {
            let is_in_files = self.files.writes.iter().any(|update| update.key == partition(*at));
            !is_in_files && *claimed != line.all()
        });
        if teaches && !is_partial && self.memory.iter().all(only_adds) {
            self.scans += 1;
            let before = self.database.store().row_cache().metrics();
            self.compare(command).await;
            let after = self.database.store().row_cache().metrics();
            let of_files = self.files.read(command).len() as u64;
            assert_eq!(before.reads_with_misses, after.reads_with_misses, "{}", self.context);
            let hits = after.reads_without_misses - before.reads_without_misses;
            assert!(hits >= of_files, "{hits} of {of_files} were known: {}", self.context);
        }
    }

    /// Starts several reads at once, which fill the same gaps.
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

    /// Looks up a row without I/O. The cache may add the row if cached pages of one file have it.
    fn peek_cached(&mut self, learned: &mut Learned) {
        let at = self.writer.below(self.shape.partitions);
        let row = self.writer.below(u64::from(self.shape.line.rows.max(1))) as i32 + MIN_ROW;
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
        RowLookup::new(&self.table, key.borrowed(), &clustering)
            .poll(self.database.store(), |_| ());
        Learned::add(&mut learned.may, at, places);
    }

    async fn write(&mut self) {
        // A write during a flush may or may not be part of the flush.
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

    pub(super) async fn end_flush(&mut self) {
        let Some(flush) = self.flushing.take() else { return };
        flush.await.unwrap();
        // Empty updates make no file.
        self.has_files |= self.database.store().metrics().sstables > 0;
        self.files.writes.append(&mut self.memory);
    }

    async fn forget(&mut self) {
        match self.writer.below(3) {
            0 => self.database.forget_cached_rows().await,
            1 => {
                self.alter(false).await;
                self.alter(true).await;
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

    async fn alter(&mut self, is_cached: bool) {
        let name = self.table.name.clone();
        alter_caching(&self.database, &name, is_cached).await;
        self.table = table(&self.database, &name);
    }

    pub(super) async fn step(&mut self) {
        let mut learned = Learned::default();
        let (mut is_evicted, mut is_forgotten) = (false, false);
        match self.writer.below(48) {
            0..3 => {
                self.end_flush().await;
                self.begin_flush();
            }
            3 => self.end_flush().await,
            4 => match self.writer.below(8) {
                0 | 1 => {
                    self.end_flush().await;
                    self.database.compactions().compact("ks", None, false).await.unwrap();
                }
                // The cache is enabled already, so nothing is invalidated.
                2 => self.alter(true).await,
                _ => {}
            },
            5 if self.writer.below(6) == 0 => {
                self.end_flush().await;
                self.forget().await;
                is_forgotten = true;
            }
            6 | 7 => {
                // The clock hand evicts the oldest entries.
                let used = self.database.store().row_cache().metrics().used_bytes as usize;
                let least = used * self.writer.below(100) as usize / 100;
                self.database.store().row_cache().set_limit(least);
                self.database.store().row_cache().set_limit(self.shape.cache_bytes);
                is_evicted = true;
            }
            8 | 9 => self.peek_cached(&mut learned),
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
