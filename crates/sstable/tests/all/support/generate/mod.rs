//! This module generates random tables and partitions from a seed, in every shape that an SSTable
//! can hold.

mod values;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnData, ComplexColumn, DecoratedKey,
    DeletionTime, Liveness, PartitionHeader, RangeTombstone, RangeTombstoneList, Row, Unfiltered,
    build_composite,
    reconcile::apply_deletion,
    schema::{ColumnDefinition, TableBuilder, TableId, TableMetadata},
};
use espalier_sstable::versions::VersionFeatures;
use espalier_types::{CqlType, UserType};

use super::slicing::Random;

/// A partition to be written.
#[derive(Clone, Debug)]
pub struct Partition {
    pub header: PartitionHeader,
    pub unfiltereds: Vec<Unfiltered>,
}

/// The kinds of data to generate.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub partitions: usize,
    /// Maximum number of rows in a partition.
    pub rows: usize,
    /// True if the generator leaves out shadowed data, as a memtable does.
    pub is_reconciled: bool,
    /// True if values of types such as int may be empty, and timestamps and times may be extreme.
    pub is_odd: bool,
}

const SIMPLE_TYPES: [CqlType; 20] = [
    CqlType::Ascii,
    CqlType::Bigint,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Date,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Duration,
    CqlType::Float,
    CqlType::Inet,
    CqlType::Int,
    CqlType::Smallint,
    CqlType::Text,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::Timeuuid,
    CqlType::Tinyint,
    CqlType::Uuid,
    CqlType::Varint,
    CqlType::Text,
];

pub struct Generator {
    random: Random,
    shape: Shape,
    /// The latest second of a deletion or an expiry.
    latest: u32,
}

impl Generator {
    pub fn new(seed: u64, shape: Shape) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..4 {
            random.below(2);
        }
        Self { random, shape, latest: 2_147_500_000 }
    }

    /// Restricts the generator to data that the version can hold.
    pub fn fitting(self, features: &VersionFeatures) -> Self {
        // The time is a full minute, because histograms round up to full minutes.
        let latest = features.local_deletion_times.maximum() / 60 * 60;
        Self { latest: self.latest.min(latest), ..self }
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.random.below(count) == 0
    }

    fn key_type(&mut self) -> CqlType {
        loop {
            let chosen = SIMPLE_TYPES[self.random.below(SIMPLE_TYPES.len())].clone();
            if chosen != CqlType::Duration {
                return chosen;
            }
        }
    }

    fn value_type(&mut self) -> CqlType {
        let element = |this: &mut Self| Arc::new(this.key_type());
        let frozen = self.one_in(3);
        match self.random.below(12) {
            0 => CqlType::List { element: element(self), frozen },
            1 => CqlType::Set { element: element(self), frozen },
            2 => CqlType::Map { key: element(self), value: element(self), frozen },
            3 => CqlType::Tuple(vec![self.key_type(), self.key_type()].into()),
            4 => {
                let fields = vec![("a".into(), self.key_type()), ("b".into(), self.key_type())];
                let definition = UserType { keyspace: "ks".into(), name: "u".into(), fields };
                CqlType::UserDefined { definition: Arc::new(definition), frozen }
            }
            5 => CqlType::Vector { element: Arc::new(CqlType::Float), dimension: 3 },
            _ => SIMPLE_TYPES[self.random.below(SIMPLE_TYPES.len())].clone(),
        }
    }

    pub fn table(&mut self) -> Arc<TableMetadata> {
        let mut builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(7)));
        for index in 0..1 + self.random.below(2) {
            let column_type = self.key_type();
            builder = builder.partition_key(&format!("k{index}"), column_type);
        }
        let clusterings = [0, 1, 1, 2, 3, 5][self.random.below(6)];
        for index in 0..clusterings {
            let column_type = self.key_type();
            let reversed = self.one_in(3);
            builder = builder.clustering(&format!("c{index}"), column_type, reversed);
        }
        if self.one_in(8) {
            if clusterings > 0 && self.one_in(2) {
                builder = builder.static_column("s", CqlType::Counter);
            }
            for name in ["a", "b"] {
                builder = builder.regular(name, CqlType::Counter);
            }
            return Arc::new(builder.build());
        }
        if clusterings > 0 {
            for index in 0..[0, 0, 1, 3][self.random.below(4)] {
                let column_type = self.value_type();
                builder = builder.static_column(&format!("s{index}"), column_type);
            }
        }
        for index in 0..[0, 1, 2, 5, 5, 70][self.random.below(6)] {
            let column_type = self.value_type();
            // The columns are not in the order of their names, so that ids and names sort
            // differently.
            builder = builder.regular(&format!("v{}", (index * 37) % 101), column_type);
        }
        Arc::new(builder.build())
    }

    fn timestamp(&mut self) -> i64 {
        match self.random.below(if self.shape.is_odd { 12 } else { 9 }) {
            9 => i64::MIN + 1 + self.random.below(5) as i64,
            10 => i64::MAX - self.random.below(5) as i64,
            11 => -(self.random.below(1 << 30) as i64),
            _ => 1_750_000_000_000_000 + self.random.below(1000) as i64,
        }
    }

    /// Generates a time that is later than every TTL. Times are less than 2^31 apart, because
    /// Cassandra takes larger differences for overflows.
    fn time(&mut self) -> u32 {
        match self.random.below(10) {
            0 if self.shape.is_odd => 100_000 + self.random.below(1 << 30) as u32,
            1 if self.shape.is_odd => self.latest,
            _ => 1_750_000_000 + self.random.below(100_000) as u32,
        }
    }

    fn deletion(&mut self) -> DeletionTime {
        DeletionTime::new(self.timestamp(), self.time())
    }

    fn storable_deletion(&mut self) -> DeletionTime {
        loop {
            let deletion = self.deletion();
            if deletion.marked_for_delete_at >= 0 {
                return deletion;
            }
        }
    }

    fn cell(&mut self, column_type: &CqlType, liveness: &Liveness) -> Cell {
        let timestamp = if self.one_in(2) && !liveness.is_none() {
            liveness.timestamp
        } else {
            self.timestamp()
        };
        if self.one_in(6) {
            return Cell::tombstone(timestamp, self.time());
        }
        let value: Bytes = self.value(column_type).into();
        if column_type.is_counter() {
            return Cell::live(timestamp, value);
        }
        match self.random.below(5) {
            0 if liveness.is_expiring() => {
                Cell::expiring(timestamp, liveness.ttl, liveness.local_expiration, value)
            }
            1 => {
                Cell::expiring(timestamp, 1 + self.random.below(100_000) as u32, self.time(), value)
            }
            _ => Cell::live(timestamp, value),
        }
    }

    fn complex(
        &mut self,
        column: &ColumnDefinition,
        liveness: &Liveness,
        table: &TableMetadata,
    ) -> ComplexColumn {
        let deletion = if self.one_in(2) { self.deletion() } else { DeletionTime::LIVE };
        let mut cells = Vec::new();
        for _ in 0..self.random.below(5) {
            let (path, value_type) = match &column.column_type {
                CqlType::List { element, .. } => {
                    (self.plain_value(&CqlType::Timeuuid), (**element).clone())
                }
                CqlType::Set { element, .. } => (self.plain_value(element), CqlType::Empty),
                CqlType::Map { key, value, .. } => (self.plain_value(key), (**value).clone()),
                CqlType::UserDefined { definition, .. } => {
                    let field = self.random.below(definition.fields.len());
                    ((field as u16).to_be_bytes().to_vec(), definition.fields[field].1.clone())
                }
                other => panic!("{other:?} is not multi-cell"),
            };
            cells.push((Bytes::from(path), self.cell(&value_type, liveness)));
        }
        cells.sort_by(|(a, _), (b, _)| table.compare_paths(column.id, a, b));
        cells.dedup_by(|(a, _), (b, _)| table.compare_paths(column.id, a, b).is_eq());
        if self.shape.is_reconciled {
            cells.retain(|(_, cell)| !deletion.deletes(cell.timestamp));
        }
        ComplexColumn { deletion, cells }
    }

    fn fill(&mut self, row: &mut Row, columns: &[ColumnDefinition], table: &TableMetadata) {
        let density = 1 + self.random.below(4);
        for column in columns {
            if self.random.below(4) >= density {
                continue;
            }
            let liveness = row.liveness;
            let data = if column.is_complex() {
                let complex = self.complex(column, &liveness, table);
                if complex.deletion.is_live() && complex.cells.is_empty() {
                    continue;
                }
                ColumnData::Complex(complex)
            } else {
                ColumnData::Simple(self.cell(&column.column_type, &liveness))
            };
            row.columns.push((column.id, data));
        }
        row.columns.sort_by_key(|(id, _)| *id);
    }

    fn row(&mut self, clustering: Clustering, table: &TableMetadata) -> Row {
        let mut row = Row::empty(clustering);
        if !table.is_counter() && !self.one_in(4) {
            row.liveness = Liveness::live(self.timestamp());
            if self.one_in(4) {
                row.liveness.ttl = 1 + self.random.below(100_000) as u32;
                row.liveness.local_expiration = self.time();
            }
        }
        if self.one_in(8) {
            row.deletion = self.deletion();
        }
        self.fill(&mut row, table.regular_columns(), table);
        if row.is_empty() {
            row.deletion = self.deletion();
        }
        row
    }

    fn clustering(&mut self, table: &TableMetadata) -> Clustering {
        let types: Vec<_> =
            table.clustering_columns().iter().map(|c| c.column_type.clone()).collect();
        Clustering::new(types.iter().map(|t| Bytes::from(self.value(t))).collect::<Vec<_>>())
    }

    fn bound(&mut self, table: &TableMetadata, kinds: [BoundKind; 2]) -> ClusteringBound {
        let mut values = self.clustering(table).values.into_vec();
        values.truncate(1 + self.random.below(values.len()));
        ClusteringBound { kind: kinds[self.random.below(2)], values: values.into() }
    }

    fn ranges(&mut self, table: &TableMetadata) -> RangeTombstoneList {
        let mut list = RangeTombstoneList::default();
        if table.clustering_columns().is_empty() || self.one_in(2) {
            return list;
        }
        for _ in 0..self.random.below(6) {
            let start = if self.one_in(8) {
                ClusteringBound::bottom()
            } else {
                self.bound(table, [BoundKind::InclusiveStart, BoundKind::ExclusiveStart])
            };
            let end = if self.one_in(8) {
                ClusteringBound::top()
            } else {
                self.bound(table, [BoundKind::InclusiveEnd, BoundKind::ExclusiveEnd])
            };
            let tombstone = RangeTombstone { start, end, deletion: self.deletion() };
            list.add(table.comparator(), &tombstone);
        }
        list
    }

    fn partition(&mut self, key: DecoratedKey, table: &TableMetadata) -> Partition {
        let deletion = if self.one_in(6) { self.storable_deletion() } else { DeletionTime::LIVE };
        let comparator = table.comparator();
        let ranges = self.ranges(table);
        let most = match table.clustering_columns().is_empty() {
            true => 1,
            false if self.one_in(3) => self.shape.rows,
            false => self.shape.rows.min(6),
        };
        let mut rows: Vec<Row> = (0..self.random.below(most + 1))
            .map(|_| {
                let clustering = self.clustering(table);
                self.row(clustering, table)
            })
            .collect();
        rows.sort_by(|a, b| comparator.compare(a.clustering.position(), b.clustering.position()));
        rows.dedup_by(|a, b| {
            comparator.compare(a.clustering.position(), b.clustering.position()).is_eq()
        });
        let mut static_row = (!table.static_columns().is_empty() && self.one_in(2)).then(|| {
            let mut row = Row::empty(Clustering::empty());
            self.fill(&mut row, table.static_columns(), table);
            row
        });
        if self.shape.is_reconciled {
            rows.retain_mut(|row| {
                let range = ranges.deletion_at(comparator, row.clustering.position());
                apply_deletion(row, deletion.max(range))
            });
            static_row = static_row.filter_map_mut(|row| apply_deletion(row, deletion));
        }
        let static_row = static_row.filter(|row| !row.is_empty());
        let mut unfiltereds: Vec<_> = rows.into_iter().map(Unfiltered::Row).collect();
        unfiltereds.extend(ranges.markers().map(Unfiltered::Marker));
        unfiltereds.sort_by(|a, b| comparator.compare(a.position(), b.position()));
        Partition { header: PartitionHeader { key, deletion, static_row }, unfiltereds }
    }

    /// Generates partitions in key order. No partition is empty.
    pub fn partitions(&mut self, table: &TableMetadata) -> Vec<Partition> {
        let types: Vec<_> =
            table.partition_key_columns().iter().map(|c| c.column_type.clone()).collect();
        let mut partitions = BTreeMap::new();
        for _ in 0..1 + self.random.below(self.shape.partitions) {
            let values: Vec<_> = types.iter().map(|t| self.plain_value(t)).collect();
            let key = match values.as_slice() {
                [one] if one.is_empty() => continue,
                [one] => Bytes::from(one.clone()),
                several => build_composite(several),
            };
            let key = DecoratedKey::new(key);
            let partition = self.partition(key.clone(), table);
            let holds_something = !partition.header.deletion.is_live()
                || partition.header.static_row.is_some()
                || !partition.unfiltereds.is_empty();
            if holds_something {
                partitions.insert(key, partition);
            }
        }
        partitions.into_values().collect()
    }
}

trait FilterMapMut<T> {
    fn filter_map_mut(self, keep: impl FnOnce(&mut T) -> bool) -> Option<T>;
}

impl<T> FilterMapMut<T> for Option<T> {
    fn filter_map_mut(mut self, keep: impl FnOnce(&mut T) -> bool) -> Option<T> {
        if self.as_mut().is_some_and(keep) { self } else { None }
    }
}
