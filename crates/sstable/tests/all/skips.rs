//! Checks that a stream after `skip_to` returns exactly the fragments after the bound, and the
//! deletion in force there. The test covers every version, reads by keys, scans, slices and both
//! directions. It also checks that the stream does not read the part that it skips, and that it
//! yields among slices that have no rows.

use crate::support;

use std::{cmp::Ordering, future::poll_fn, path::Path, pin::pin, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ClusteringComparator, ClusteringSlice,
    ClusteringSlices, DecoratedKey, DeletionTime, Direction, KeyRange, Liveness, PartitionHeader,
    PositionRef, RangeTombstone, RangeTombstoneList, RangeTombstoneMarker, Row, Unfiltered,
    UnfilteredStream,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{file::FileSystem, preempt::force_every_yield};
use espalier_sstable::{
    ColumnSelection, PageCache, PartitionStream, SSTableError, SSTableReader,
    versions::VersionFeatures,
};
use espalier_types::CqlType;
use support::{
    block_on,
    generate::{Generator, Partition, Shape},
    slicing::{Random, random_slices, slice},
    writing::{descriptor_of, options, random_chunks, write, written_versions},
};

/// Checks a stream that skips. `all` has the fragments of the stream without skips, in its
/// direction.
struct Follower<'a> {
    comparator: &'a ClusteringComparator,
    direction: Direction,
    all: &'a [Unfiltered],
    /// Index of the next fragment.
    at: usize,
    /// The deletion in force after the markers returned so far.
    reported: DeletionTime,
    last: Option<Unfiltered>,
    /// The furthest bound of a skip, if the stream has not yet reached it.
    to: Option<ClusteringBound>,
}

impl Follower<'_> {
    fn order(&self, left: PositionRef<'_>, right: PositionRef<'_>) -> Ordering {
        let order = self.comparator.compare(left, right);
        if self.direction == Direction::Forward { order } else { order.reverse() }
    }

    /// Returns the deletions on the near and the far side of a marker.
    fn sides(&self, marker: &RangeTombstoneMarker) -> (DeletionTime, DeletionTime) {
        match self.direction {
            Direction::Forward => (marker.before, marker.after),
            Direction::Reverse => (marker.after, marker.before),
        }
    }

    fn open_before(&self, end: usize) -> DeletionTime {
        let last = self.all[..end].iter().rev().find_map(|fragment| match fragment {
            Unfiltered::Marker(marker) => Some(self.sides(marker).1),
            Unfiltered::Row(_) => None,
        });
        last.unwrap_or(DeletionTime::LIVE)
    }

    fn skip_to(&mut self, to: &ClusteringBound) {
        let is_further = self
            .to
            .as_ref()
            .is_none_or(|earlier| self.order(earlier.position(), to.position()).is_lt());
        if is_further {
            self.to = Some(to.clone());
        }
    }

    /// Checks the stream's next fragment. Returns `false` at its end.
    fn check(&mut self, given: Option<Unfiltered>) -> bool {
        if let Some(to) = self.to.clone() {
            let rest = self.all[self.at..].iter();
            let behind = rest
                .take_while(|fragment| self.order(fragment.position(), to.position()).is_le())
                .count();
            if behind > 0
                && let Some(Unfiltered::Marker(marker)) = &given
                && self.order(marker.position.position(), to.position()).is_le()
            {
                let (near, far) = self.sides(marker);
                assert_eq!(near, self.reported, "{marker:?}");
                assert_ne!(near, far, "a marker without a change: {marker:?}");
                let kind = BoundKind::for_marker(
                    marker.position.kind.weight(),
                    !marker.before.is_live(),
                    !marker.after.is_live(),
                );
                assert_eq!(marker.position.kind, kind);
                if let Some(last) = &self.last {
                    let order = self.order(last.position(), marker.position.position());
                    assert!(order.is_lt(), "{marker:?} behind {last:?}");
                }
                (self.reported, self.last) = (far, given);
                return true;
            }
            self.at += behind;
            self.to = None;
            assert_eq!(self.reported, self.open_before(self.at), "the deletion in force at {to:?}");
        }
        assert_eq!(given.as_ref(), self.all.get(self.at), "at fragment {}", self.at);
        let Some(given) = given else { return false };
        self.at += 1;
        if let Unfiltered::Marker(marker) = &given {
            self.reported = self.sides(marker).1;
        }
        self.last = Some(given);
        true
    }
}

/// Returns a bound at or near a fragment of the partition, mostly ahead.
fn random_place(
    all: &[Unfiltered],
    at: usize,
    comparator: &ClusteringComparator,
    random: &mut Random,
) -> ClusteringBound {
    let width = [2, 10, 60, 400, 2000][random.below(5)];
    let index = match random.below(8) {
        0 => random.below(all.len()),
        _ => at + random.below(width),
    };
    let Some(near) = all.get(index) else {
        return if random.below(2) == 0 {
            ClusteringBound::top()
        } else {
            ClusteringBound::bottom()
        };
    };
    let mut values = near.position().values.to_vec();
    if random.below(6) == 0 && !comparator.types.is_empty() {
        values.truncate(random.below(values.len()) + 1);
    }
    let kinds = [
        BoundKind::InclusiveStart,
        BoundKind::ExclusiveStart,
        BoundKind::InclusiveEnd,
        BoundKind::ExclusiveEndInclusiveStart,
    ];
    ClusteringBound { kind: kinds[random.below(4)], values: values.into() }
}

async fn follow<S: UnfilteredStream<Error = SSTableError>>(
    stream: &mut S,
    comparator: &ClusteringComparator,
    direction: Direction,
    all: &[Unfiltered],
    random: &mut Random,
) -> espalier_sstable::Result<()> {
    let mut follower = Follower {
        comparator,
        direction,
        all,
        at: 0,
        reported: DeletionTime::LIVE,
        last: None,
        to: None,
    };
    let often = [2, 5, 30][random.below(3)];
    loop {
        while !all.is_empty() && random.below(often) == 0 {
            let place = random_place(all, follower.at, comparator, random);
            stream.skip_to(&place).await?;
            follower.skip_to(&place);
        }
        if !follower.check(stream.next().await?) {
            assert!(stream.next().await?.is_none());
            return Ok(());
        }
    }
}

async fn write_and_open(
    features: &VersionFeatures,
    table: &Arc<TableMetadata>,
    partitions: &[Partition],
    random: &mut Random,
    column_index_size: u32,
    cache: &PageCache,
) -> espalier_sstable::Result<SSTableReader> {
    let file_system = FileSystem::simulated(random.0);
    let directory = Path::new("/data/ks/t");
    file_system.create_dir_all(directory).await?;
    let descriptor = descriptor_of(features, directory, 1);
    let chunks = random_chunks(random);
    let options = options(descriptor.clone(), table, partitions, chunks, column_index_size);
    write(&file_system, options, partitions).await?;
    SSTableReader::open(&file_system, descriptor, Some(table.clone()), cache).await
}

async fn check_partitions(
    reader: &SSTableReader,
    table: &TableMetadata,
    partitions: &[Partition],
    random: &mut Random,
) -> espalier_sstable::Result<()> {
    let (comparator, columns) = (table.comparator(), ColumnSelection::All);
    for partition in partitions {
        for round in 0..12 {
            let slices = if partition.unfiltereds.is_empty() || round % 2 == 0 {
                ClusteringSlices::all()
            } else {
                random_slices(comparator, &partition.unfiltereds, random)
            };
            let slices = Arc::new(slices);
            for direction in [Direction::Forward, Direction::Reverse] {
                let all = slice(comparator, &partition.unfiltereds, &slices, direction);
                let key = &partition.header.key;
                let stream =
                    reader.read_partition(key, slices.clone(), direction, &columns).await?;
                let mut stream = stream.expect("a key is lost");
                follow(&mut stream, comparator, direction, &all, random).await?;
            }
        }
    }
    // A skip in one partition of a scan must not disturb the next ones.
    for round in 0..4 {
        let slices = if partitions[0].unfiltereds.is_empty() || round % 2 == 0 {
            ClusteringSlices::all()
        } else {
            random_slices(comparator, &partitions[0].unfiltereds, random)
        };
        let slices = Arc::new(slices);
        let mut scan = reader.scan(KeyRange::full(), slices.clone(), &columns).await?;
        for partition in partitions {
            let direction = Direction::Forward;
            let all = slice(comparator, &partition.unfiltereds, &slices, direction);
            let mut scanned = scan.next_partition().await?.expect("a partition is lost");
            assert_eq!(scanned.header().key, partition.header.key);
            follow(&mut scanned, comparator, direction, &all, random).await?;
        }
        assert!(scan.next_partition().await?.is_none());
    }
    Ok(())
}

#[test]
fn random_partitions() {
    let versions = written_versions();
    for seed in espalier_testing::seeds(120) {
        let features = versions[seed as usize % versions.len()];
        let rows = [10, 100, 400, 900][seed as usize / 4 % 4];
        let shape =
            Shape { partitions: 3, rows, is_reconciled: seed % 3 != 0, is_odd: seed % 5 == 0 };
        let mut generator = Generator::new(seed, shape).fitting(features);
        let table = generator.table();
        let partitions = generator.partitions(&table);
        if partitions.is_empty() {
            continue;
        }
        let mut random = Random(seed);
        let checked = block_on(async {
            let size = [1024, 2048, 4096][random.below(3)];
            let cache = PageCache::new(1 << 22);
            let reader =
                write_and_open(features, &table, &partitions, &mut random, size, &cache).await?;
            check_partitions(&reader, &table, &partitions, &mut random).await
        });
        checked.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

fn value(at: u32) -> Box<[Option<Bytes>]> {
    Box::new([Some(Bytes::copy_from_slice(&at.to_be_bytes()))])
}

fn plain_table() -> Arc<TableMetadata> {
    let builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Blob);
    Arc::new(builder.build())
}

/// Builds a partition with rows of 100 bytes, and a range deletion in each thousand rows.
fn wide(table: &TableMetadata, key: u32, rows: u32) -> Partition {
    let id = table.regular_columns()[0].id;
    let mut list = RangeTombstoneList::default();
    let mut unfiltereds = Vec::new();
    for at in 0..rows {
        let mut row = Row::empty(Clustering { values: value(at) });
        row.liveness = Liveness::live(100);
        row.set_cell(id, Cell::live(100, vec![at as u8; 100].into()));
        unfiltereds.push(Unfiltered::Row(row));
        if at % 1000 == 500 {
            let bound = |kind, at| ClusteringBound { kind, values: value(at) };
            let tombstone = RangeTombstone {
                start: bound(BoundKind::InclusiveStart, at),
                end: bound(BoundKind::InclusiveEnd, at + 250),
                deletion: DeletionTime::new(10, at + 1),
            };
            list.add(table.comparator(), &tombstone);
        }
    }
    unfiltereds.extend(list.markers().map(Unfiltered::Marker));
    unfiltereds.sort_by(|a, b| table.comparator().compare(a.position(), b.position()));
    let key = DecoratedKey::new(Bytes::copy_from_slice(&key.to_be_bytes()));
    let header = PartitionHeader { key, deletion: DeletionTime::LIVE, static_row: None };
    Partition { header, unfiltereds }
}

/// Two of the partitions are large enough that a scan skips by the index too.
#[test]
fn wide_partitions() {
    for (seed, features) in (0..).zip(written_versions()) {
        let table = plain_table();
        let mut partitions: Vec<_> =
            [(1, 9000), (2, 1), (3, 40), (4, 5000)].map(|(k, rows)| wide(&table, k, rows)).into();
        partitions.sort_by(|a, b| a.header.key.cmp(&b.header.key));
        let mut random = Random(seed);
        let cache = PageCache::new(1 << 22);
        block_on(async {
            let reader =
                write_and_open(features, &table, &partitions, &mut random, 4096, &cache).await?;
            check_partitions(&reader, &table, &partitions, &mut random).await
        })
        .unwrap_or_else(|error| panic!("{features:?}: {error}"));
    }
}

async fn take(stream: &mut PartitionStream, count: usize) -> espalier_sstable::Result<Unfiltered> {
    for _ in 1..count {
        stream.next().await?;
    }
    Ok(stream.next().await?.expect("the stream ends too early"))
}

#[test]
fn a_skip_does_not_read_the_pages_between() {
    const ROWS: u32 = 20_000;
    for features in written_versions() {
        let table = plain_table();
        let partitions = vec![wide(&table, 1, ROWS)];
        for direction in [Direction::Forward, Direction::Reverse] {
            let cache = PageCache::new(1 << 24);
            let read = block_on(async {
                let mut random = Random(1);
                let reader =
                    write_and_open(features, &table, &partitions, &mut random, 4096, &cache)
                        .await?;
                let slices = Arc::new(ClusteringSlices::all());
                let key = &partitions[0].header.key;
                let columns = ColumnSelection::All;
                let stream = reader.read_partition(key, slices, direction, &columns).await?;
                let mut stream = stream.expect("a key is lost");
                take(&mut stream, 20).await?;
                // The bound lies inside a range deletion, near the end of the walk.
                let (at, kind) = match direction {
                    Direction::Forward => (ROWS - 400, BoundKind::InclusiveStart),
                    Direction::Reverse => (600, BoundKind::InclusiveEnd),
                };
                let before = cache.metrics().misses;
                stream.skip_to(&ClusteringBound { kind, values: value(at) }).await?;
                let Unfiltered::Marker(marker) = take(&mut stream, 1).await? else {
                    panic!("the deletion that is open there is missing");
                };
                assert!(marker.before.is_live() != marker.after.is_live());
                let row = take(&mut stream, 1).await?;
                assert_eq!(row.position().values, &*value(at));
                take(&mut stream, 20).await?;
                Ok::<_, SSTableError>(cache.metrics().misses - before)
            })
            .unwrap_or_else(|error| panic!("{features:?}: {error}"));
            // The rows take more than 500 pages of 4 KiB.
            assert!(read <= 20, "{read} pages were read, {direction:?}, {features:?}");
        }
    }
}

#[test]
fn a_stream_yields_among_slices_without_rows() {
    const SLICES: i32 = 6400;
    for features in written_versions() {
        let table = plain_table();
        // The only row is at 0.
        let partitions = vec![wide(&table, 1, 1)];
        for direction in [Direction::Forward, Direction::Reverse] {
            let (first, _) = direction.order(-SLICES, 1);
            let slices = (first..first + SLICES)
                .map(|at| ClusteringSlice::prefix(value(at as u32)))
                .collect();
            let slices = Arc::new(ClusteringSlices { slices });
            let polls = block_on(async {
                let (mut random, cache) = (Random(1), PageCache::new(1 << 22));
                let reader =
                    write_and_open(features, &table, &partitions, &mut random, 4096, &cache)
                        .await?;
                let (key, columns) = (&partitions[0].header.key, ColumnSelection::All);
                let stream = reader.read_partition(key, slices, direction, &columns).await?;
                let mut stream = stream.expect("a key is lost");
                let mut next = pin!(stream.next());
                let mut polls = 0;
                force_every_yield(true);
                let found = poll_fn(|context| {
                    polls += 1;
                    next.as_mut().poll(context)
                });
                let found = found.await;
                force_every_yield(false);
                assert_eq!(found?, None);
                Ok::<_, SSTableError>(polls)
            })
            .unwrap_or_else(|error| panic!("{features:?}: {error}"));
            assert!(polls > SLICES / 64, "{polls} polls, {direction:?}, {features:?}");
        }
    }
}
