//! Random writes of every kind against a plain model, through flushes and restarts at random
//! moments. They are read forward, in reverse, by slices, with limits and in pages.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ClusteringSlice, ClusteringSlices, ColumnData,
    ComplexColumn, DecoratedKey, DeletionTime, Direction, KeyBound, KeyRange, Liveness, Mutation,
    PartitionUpdate, RangeTombstone, Row,
    reconcile::cell_wins,
    schema::{ColumnDefinition, ColumnId, ColumnKind, TableMetadata},
};
use espalier_runtime::{file::FileSystem, random::Generator};
use espalier_storage::{
    ColumnSelection, Database, PartitionRows, ReadCommand, ReadLimits, ReadTarget,
};
use espalier_types::CqlType;

use crate::support::{
    values::{partition_key, value},
    *,
};

/// All writes, which each read evaluates anew.
pub(crate) struct Model {
    pub(crate) writes: Vec<PartitionUpdate>,
    /// Time of the reads, in seconds since 1970.
    pub(crate) now_s: u32,
}

impl Default for Model {
    fn default() -> Self {
        Self { writes: Vec::new(), now_s: NOW }
    }
}

impl Model {
    fn of<'a>(
        &'a self,
        key: &'a DecoratedKey,
    ) -> impl Iterator<Item = &'a PartitionUpdate> + Clone {
        self.writes.iter().filter(move |update| update.key == *key)
    }

    /// Returns the strongest deletion over a row; `None` for the static row, which range deletions
    /// do not reach.
    fn deletion(
        &self,
        table: &TableMetadata,
        key: &DecoratedKey,
        clustering: Option<&Clustering>,
    ) -> i64 {
        let mut strongest = i64::MIN;
        for update in self.of(key) {
            strongest = strongest.max(update.deletion.marked_for_delete_at);
            let Some(clustering) = clustering else { continue };
            for range in &update.range_tombstones {
                let slice = ClusteringSlice { start: range.start.clone(), end: range.end.clone() };
                if slice.contains(table.comparator(), clustering.position()) {
                    strongest = strongest.max(range.deletion.marked_for_delete_at);
                }
            }
            for row in update.rows.iter().filter(|row| row.clustering == *clustering) {
                strongest = strongest.max(row.deletion.marked_for_delete_at);
            }
        }
        strongest
    }

    /// Returns the visible content of rows, all with the same clustering.
    fn reconcile<'a>(
        &self,
        table: &TableMetadata,
        rows: impl Iterator<Item = &'a Row>,
        deletion: i64,
        clustering: Clustering,
    ) -> Option<Row> {
        let mut liveness = Liveness::NONE;
        let mut cells: BTreeMap<(ColumnId, Option<Bytes>), Cell> = BTreeMap::new();
        let mut complex: BTreeMap<ColumnId, i64> = BTreeMap::new();
        for row in rows {
            if row.liveness.supersedes(&liveness) {
                liveness = row.liveness;
            }
            let mut add = |id: ColumnId, path: Option<Bytes>, cell: &Cell| {
                let place = cells.entry((id, path)).or_insert_with(|| cell.clone());
                if !cell_wins(place, cell) {
                    *place = cell.clone();
                }
            };
            for (id, data) in &row.columns {
                match data {
                    ColumnData::Simple(cell) => add(*id, None, cell),
                    ColumnData::Complex(column) => {
                        let at = complex.entry(*id).or_insert(i64::MIN);
                        *at = (*at).max(column.deletion.marked_for_delete_at);
                        column
                            .cells
                            .iter()
                            .for_each(|(path, cell)| add(*id, Some(path.clone()), cell));
                    }
                }
            }
        }
        let mut result = Row::empty(clustering);
        if liveness.is_live(self.now_s) && liveness.timestamp > deletion {
            result.liveness = liveness;
        }
        for ((id, path), cell) in cells {
            let deletion = deletion.max(complex.get(&id).copied().unwrap_or(i64::MIN));
            if cell.timestamp <= deletion || !cell.is_live(self.now_s) {
                continue;
            }
            match path {
                None => result.columns.push((id, ColumnData::Simple(cell))),
                Some(path) => {
                    let empty = || ColumnData::Complex(ComplexColumn::default());
                    if let ColumnData::Complex(column) = result.column_or_insert(id, empty) {
                        column.cells.push((path, cell));
                        column.cells.sort_by(|(a, _), (b, _)| table.compare_paths(id, a, b));
                    }
                }
            }
        }
        (!result.is_empty()).then_some(result)
    }

    fn partition(&self, table: &TableMetadata, key: &DecoratedKey) -> (Option<Row>, Vec<Row>) {
        let statics = self.of(key).filter_map(|update| update.static_row.as_ref());
        let deletion = self.deletion(table, key, None);
        let deletion =
            statics.clone().fold(deletion, |d, row| d.max(row.deletion.marked_for_delete_at));
        let static_row = self.reconcile(table, statics, deletion, Clustering::empty());
        let mut clusterings: Vec<Clustering> = self
            .of(key)
            .flat_map(|update| &update.rows)
            .map(|row| row.clustering.clone())
            .collect();
        clusterings.sort_by(|a, b| table.comparator().compare(a.position(), b.position()));
        clusterings.dedup();
        let rows = clusterings.into_iter().filter_map(|clustering| {
            let rows = self.of(key).flat_map(|update| &update.rows);
            let rows = rows.filter(|row| row.clustering == clustering);
            let deletion = self.deletion(table, key, Some(&clustering));
            self.reconcile(table, rows, deletion, clustering.clone())
        });
        (static_row, rows.collect())
    }

    pub(crate) fn read(&self, command: &ReadCommand) -> Vec<PartitionRows> {
        let mut keys: Vec<DecoratedKey> =
            self.writes.iter().map(|write| write.key.clone()).collect();
        keys.sort();
        keys.dedup();
        let mut partitions = Vec::new();
        for key in keys {
            let wanted = match &command.target {
                ReadTarget::Partition(wanted) => *wanted == key,
                ReadTarget::Range(range) => range.contains(&key),
            };
            if !wanted {
                continue;
            }
            let (static_row, mut rows) = self.partition(&command.table, &key);
            let comparator = command.table.comparator();
            rows.retain(|row| command.slices.contains(comparator, row.clustering.position()));
            if command.direction == Direction::Reverse {
                rows.reverse();
            }
            rows.truncate(command.limits.rows_per_partition);
            if rows.is_empty() && (static_row.is_none() || !command.slices.is_all()) {
                continue;
            }
            let mut partition = PartitionRows { key, static_row, rows };
            if let ColumnSelection::Only(_) = command.columns {
                let all = partition.rows.iter_mut().chain(&mut partition.static_row);
                all.for_each(|row| row.columns.retain(|(id, _)| command.columns.contains(*id)));
            }
            partitions.push(partition);
        }
        partitions
    }
}

pub(crate) struct Writer {
    pub(crate) random: Generator,
    now: i64,
    /// Time of the wall clock, in seconds since 1970.
    pub(crate) now_s: u32,
    /// TTL of expiring cells, in seconds. Where purges depend on the clock, no history may
    /// take that long.
    pub(crate) ttl_s: u32,
    /// All later writes have greater timestamps.
    pub(crate) floor: i64,
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Generator::from_seed(seed), now: 0, now_s: NOW, ttl_s: 10, floor: 0 }
    }

    /// Makes all later writes newer than all earlier ones, so that a write after a purged tombstone
    /// is not deleted by it.
    pub(crate) fn raise_floor(&mut self) {
        self.floor = self.now / 4 + 1;
        self.now += 8;
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    pub(crate) fn timestamp(&mut self) -> i64 {
        self.now += 1;
        // Mostly ahead, sometimes at or before earlier writes.
        (self.now / 4 - self.below(4) as i64).max(self.floor + 1)
    }

    fn cell(&mut self, table: &TableMetadata, column_type: &CqlType, timestamp: i64) -> Cell {
        let length = self.below(40) as usize;
        let letters = vec![b'a' + self.below(3) as u8; length];
        let value: Bytes = match column_type {
            CqlType::Blob | CqlType::Text | CqlType::Ascii => letters.into(),
            // The elements of a set are paths.
            CqlType::Set { frozen: false, .. } => Bytes::new(),
            // The amount to add.
            CqlType::Counter => return Cell::live(timestamp, value(column_type, length as i64)),
            _ => value(column_type, length as i64 % 5),
        };
        let default_ttl = table.options.default_time_to_live;
        match self.below(8) {
            0 => Cell::tombstone(timestamp, self.now_s - 5),
            1 => Cell::expiring(timestamp, self.ttl_s, self.now_s - 1, value),
            2 => Cell::expiring(timestamp, self.ttl_s, self.now_s - 1 + self.ttl_s, value),
            _ if default_ttl > 0 => {
                Cell::expiring(timestamp, default_ttl, self.now_s + default_ttl, value)
            }
            _ => Cell::live(timestamp, value),
        }
    }

    /// Makes some cells of a collection or UDT, in order.
    fn complex_cells(
        &mut self,
        table: &TableMetadata,
        column: &ColumnDefinition,
        timestamp: i64,
    ) -> Vec<(Bytes, Cell)> {
        let mut cells = Vec::new();
        let first = self.below(4) as i64 - 2;
        for number in first..first + self.below(3) as i64 {
            let (path, cell_type) = match &column.column_type {
                CqlType::Map { key, value: of, .. } => (value(key, number), &**of),
                CqlType::List { element, .. } => (value(&CqlType::Timeuuid, number), &**element),
                CqlType::UserDefined { definition, .. } => {
                    let field = number.rem_euclid(definition.fields.len() as i64);
                    let path = value(&CqlType::Smallint, field);
                    (path, &definition.fields[field as usize].1)
                }
                CqlType::Set { element, .. } => (value(element, number), &column.column_type),
                other => panic!("{other:?} has no cells"),
            };
            cells.push((path, self.cell(table, cell_type, timestamp)));
        }
        cells.sort_by(|(a, _), (b, _)| table.compare_paths(column.id, a, b));
        cells.dedup_by(|(a, _), (b, _)| a == b);
        cells
    }

    fn row(&mut self, table: &TableMetadata, kind: ColumnKind, clustering: Clustering) -> Row {
        let timestamp = self.timestamp();
        let mut row = Row::empty(clustering);
        if kind == ColumnKind::Regular && !table.is_counter() {
            match self.below(6) {
                0 => {}
                1 => {
                    let ttl = self.ttl_s;
                    let local_expiration = self.now_s - 1 + ttl * (1 - self.below(2) as u32);
                    row.liveness = Liveness { timestamp, ttl, local_expiration };
                }
                _ => row.liveness = Liveness::live(timestamp),
            }
            if self.below(12) == 0 {
                row.deletion = DeletionTime::new(timestamp, self.now_s - 3);
            }
        }
        let mut columns: Vec<_> = table.columns().iter().filter(|c| c.kind == kind).collect();
        columns.sort_by_key(|column| column.id);
        for column in columns {
            if self.below(3) == 0 {
                continue;
            }
            let data = if column.is_complex() {
                let mut complex = ComplexColumn::default();
                if self.below(4) == 0 {
                    complex.deletion = DeletionTime::new(timestamp - 1, self.now_s - 3);
                }
                complex.cells = self.complex_cells(table, column, timestamp);
                if complex.cells.is_empty() && complex.deletion.is_live() {
                    continue;
                }
                ColumnData::Complex(complex)
            } else {
                ColumnData::Simple(self.cell(table, &column.column_type, timestamp))
            };
            row.columns.push((column.id, data));
        }
        row
    }

    pub(crate) fn clustering(&mut self, table: &TableMetadata, spread: u64) -> Clustering {
        let columns = table.clustering_columns();
        Clustering::new(columns.iter().enumerate().map(|(index, column)| {
            // Few values in the first column, so that prefixes have several rows.
            let spread = if index + 1 == columns.len() { spread } else { 3 };
            value(&column.column_type, self.below(spread) as i64 - 2)
        }))
    }

    fn bound(&mut self, table: &TableMetadata, start: bool, spread: u64) -> ClusteringBound {
        let clustering = self.clustering(table, spread);
        let length = self.below(clustering.values.len() as u64 + 1) as usize;
        let kind = match (start, length == 0 || self.below(2) == 0) {
            (true, true) => BoundKind::InclusiveStart,
            (true, false) => BoundKind::ExclusiveStart,
            (false, true) => BoundKind::InclusiveEnd,
            (false, false) => BoundKind::ExclusiveEnd,
        };
        ClusteringBound { kind, values: clustering.values[..length].into() }
    }

    pub(crate) fn update(
        &mut self,
        table: &TableMetadata,
        partitions: u64,
        spread: u64,
    ) -> PartitionUpdate {
        let key = partition_key(table, self.below(partitions));
        let mut update = PartitionUpdate::new(table.id, key);
        if self.below(20) == 0 {
            update.deletion = DeletionTime::new(self.timestamp(), self.now_s - 2);
        }
        if table.has_static_columns() && self.below(4) == 0 {
            let row = self.row(table, ColumnKind::Static, Clustering::empty());
            update.static_row = (!row.is_empty()).then_some(row);
        }
        for _ in 0..self.below(4) {
            let clustering = self.clustering(table, spread);
            let row = self.row(table, ColumnKind::Regular, clustering);
            if !row.is_empty() {
                update.rows.push(row);
            }
        }
        if !table.clustering_columns().is_empty() && self.below(3) == 0 {
            for _ in 0..1 + self.below(2) {
                update.range_tombstones.push(RangeTombstone {
                    start: self.bound(table, true, spread),
                    end: self.bound(table, false, spread),
                    deletion: DeletionTime::new(self.timestamp(), self.now_s - 2),
                });
            }
        }
        update
    }

    pub(crate) fn command(
        &mut self,
        table: &Arc<TableMetadata>,
        partitions: u64,
        spread: u64,
    ) -> ReadCommand {
        let partition = partition_key(table, self.below(partitions));
        let target = match self.below(3) {
            0 => ReadTarget::Range(self.range(table, partitions)),
            _ => ReadTarget::Partition(partition),
        };
        let mut command = command(table, target);
        command.now_s = self.now_s;
        if !table.clustering_columns().is_empty() && self.below(4) == 0 {
            let row = ClusteringSlice::prefix(self.clustering(table, spread).values);
            command.slices = Arc::new(ClusteringSlices { slices: vec![row] });
        } else if !table.clustering_columns().is_empty() && self.below(2) == 0 {
            let slices = (0..1 + self.below(3)).map(|_| ClusteringSlice {
                start: self.bound(table, true, spread),
                end: self.bound(table, false, spread),
            });
            let slices = ClusteringSlices::normalise(slices.collect(), table.comparator());
            if !slices.slices.is_empty() {
                command.slices = Arc::new(slices);
            }
        }
        if self.below(2) == 0 {
            command.direction = Direction::Reverse;
        }
        if self.below(3) == 0 {
            command.limits.rows_per_partition = 1 + self.below(5) as usize;
        }
        if self.below(3) == 0 {
            let ids = table.columns().iter().map(|column| column.id);
            command.columns = ColumnSelection::Only(ids.step_by(2).collect());
        }
        command
    }

    /// Returns the full range, or a range between two tokens.
    fn range(&mut self, table: &TableMetadata, partitions: u64) -> KeyRange {
        if self.below(2) == 0 {
            return KeyRange::full();
        }
        let mut bound = || {
            let token = partition_key(table, self.below(partitions)).token;
            match self.below(3) {
                0 => KeyBound::Unbounded,
                1 => KeyBound::BeforeToken(token),
                _ => KeyBound::AfterToken(token),
            }
        };
        KeyRange { start: bound(), end: bound() }
    }
}

/// Clears the liveness. A returned row exists, but a reader cannot tell whether by its liveness or
/// by a cell. The same holds for a static row without selected columns beside other rows: reads of
/// one row do not look for it.
pub(crate) fn forget_liveness(partitions: &mut [PartitionRows]) {
    for partition in partitions.iter_mut().filter(|partition| !partition.rows.is_empty()) {
        partition.static_row.take_if(|row| row.columns.is_empty());
    }
    for row in partitions.iter_mut().flat_map(|partition| &mut partition.rows) {
        row.liveness = Liveness::NONE;
    }
}

/// Reads in pages and joins them. Most pages end by the tombstone limit, too.
pub(crate) async fn read_in_pages(
    database: &Database,
    mut command: ReadCommand,
    page: usize,
) -> Vec<PartitionRows> {
    let mut partitions: Vec<PartitionRows> = Vec::new();
    command.limits.rows = page;
    command.limits.tombstones = [10, 1, 3, usize::MAX][page % 4];
    loop {
        let result = database.read(command.clone()).await.unwrap();
        let rows: usize = result.partitions.iter().map(|p| p.rows.len().max(1)).sum();
        assert!(rows <= page, "{rows} rows in a page of {page}");
        for partition in result.partitions {
            match partitions.last_mut() {
                Some(last) if last.key == partition.key => {
                    assert_eq!(last.static_row, partition.static_row);
                    last.rows.extend(partition.rows);
                }
                _ => partitions.push(partition),
            }
        }
        match result.next {
            Some(next) => command.resume = Some(next),
            None => return partitions,
        }
    }
}

const VERSIONS: [&str; 5] = ["da", "oa", "nb", "me", "mt"];

fn check(seed: u64, definition: fn() -> TableMetadata, partitions: u64, spread: u64, steps: u64) {
    let file_system = FileSystem::simulated(seed);
    let mut model = Model::default();
    let mut writer = Writer::new(seed);
    let mut is_created = false;
    for _ in 0..3 {
        run(async {
            espalier_runtime::preempt::force_yields(Some(seed));
            let mut configuration = configuration();
            // Each life of the node writes another version of SSTables, and reads those of the
            // earlier lives.
            let version = VERSIONS[writer.random.below(VERSIONS.len() as u64) as usize];
            configuration.sstable_format = version.into();
            let database = open(&file_system, configuration).await.unwrap();
            if !is_created {
                create(&database, vec![keeping_tombstones(definition())]).await;
                is_created = true;
            }
            let table = table(&database, &definition().name);
            for step in 0..steps {
                match writer.below(12) {
                    0 => database.flush("ks", None).await.unwrap(),
                    1..6 => {
                        let command = writer.command(&table, partitions, spread);
                        let mut expected = model.read(&command);
                        forget_liveness(&mut expected);
                        let context = format!("seed {seed} step {step} {command:?}");
                        let mut got = database.read(command.clone()).await.unwrap();
                        forget_liveness(&mut got.partitions);
                        assert_eq!(got.partitions, expected, "{context}");
                        assert_eq!(got.next, None, "{context}");
                        let page = 1 + writer.below(4) as usize;
                        let mut got = read_in_pages(&database, command, page).await;
                        forget_liveness(&mut got);
                        assert_eq!(got, expected, "pages of {page}: {context}");
                    }
                    _ => {
                        let update = writer.update(&table, partitions, spread);
                        if !update.is_empty() {
                            model.writes.push(update.clone());
                            database.apply(Mutation { updates: vec![update] }).await.unwrap();
                        }
                    }
                }
            }
            if writer.below(2) == 0 {
                database.shutdown().await.unwrap();
            }
            espalier_runtime::preempt::force_yields(None);
        });
    }
}

#[test]
pub fn wide_partitions() {
    (0..40).for_each(|seed| check(seed, wide_table, 3, 6, 60));
}

#[test]
pub fn partitions_of_many_rows_are_read_in_several_looks() {
    (0..6).for_each(|seed| check(100 + seed, wide_table, 1, 300, 250));
}

#[test]
pub fn single_row_partitions() {
    (0..20).for_each(|seed| check(200 + seed, narrow_table, 12, 1, 60));
}

#[test]
pub fn clusterings_of_several_columns_in_both_orders() {
    (0..20).for_each(|seed| check(300 + seed, mixed_table, 2, 4, 60));
}

#[test]
fn limits_by_bytes_bound_a_page() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![keeping_tombstones(wide_table())]).await;
        let table = table(&database, "wide");
        for row in 0..50 {
            let value = "v".repeat(100);
            database.apply(insert(&table, "p", Some(row), 1, &[("v", &value)])).await.unwrap();
        }
        let mut command = command(&table, ReadTarget::Partition(key("p")));
        command.limits = ReadLimits { bytes: 1000, ..ReadLimits::NONE };
        let result = database.read(command).await.unwrap();
        let rows = result.partitions[0].rows.len();
        assert!((5..=10).contains(&rows), "{rows} rows of 100 bytes in 1000");
        assert!(result.next.is_some());
    });
}
