//! Generates random writes and reads from a seed.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ClusteringSlice, ClusteringSlices, ColumnData,
    ComplexColumn, DeletionTime, Direction, KeyBound, KeyRange, Liveness, PartitionUpdate,
    RangeTombstone, Row,
    schema::{ColumnDefinition, ColumnKind, TableMetadata},
};
use espalier_runtime::random::Generator;
use espalier_storage::{ColumnSelection, ReadCommand, ReadTarget};
use espalier_types::CqlType;

use crate::support::{
    values::{partition_key, value},
    *,
};

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
            let mut ids: Vec<_> = ids.step_by(2).collect();
            ids.sort_unstable();
            command.columns = ColumnSelection::Only(ids.into());
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
