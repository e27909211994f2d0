//! From the inputs of a compaction to its outputs, partition by partition.
//!
//! Most rows are in one file, or one of several hides all others, and nothing of them may go: they are copied as they lie. Where all
//! of a row was written at once, which is most of them again, not even its cells are looked at one by one
//! ([`SSTableWriter::copy_even`]). Where a partition has something else, the rest of it goes through the merge that reads use, and
//! the purge. What comes out is the same.

use std::{cmp::Ordering, collections::BTreeMap, rc::Rc, sync::Arc};

use espalier_mutation::{
    Direction, KeyRange,
    reconcile::{MergedPartition, merge_headers},
    schema::TableMetadata,
};
use espalier_sstable::{Ahead, EvenEnd, PlainRow, SSTableWriter, Scan};
use smallvec::SmallVec;

use super::{
    merge::MergedScans,
    output::Outputs,
    overlap::Outside,
    pace::Pace,
    progress::Running,
    purged::{PurgedPartition, purge_header},
};
use crate::{StorageError, purge::PurgeLimits, table::SSTable};

/// Rows between two looks at the clock and at whether to stop.
const ROWS_BETWEEN_LOOKS: u32 = 16;
/// The same of those that are copied without any decision, which are short work and none longer than what is in memory of it.
const EVEN_ROWS_BETWEEN_LOOKS: u32 = 64;

/// Why the merge ended before its time.
pub(super) enum Ended {
    Stopped,
    Failed(StorageError),
}

impl<E: Into<StorageError>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Scans by their place among those that stand at a partition.
type Standing = SmallVec<[usize; 8]>;

/// The rows at one place.
struct Least {
    standing: Standing,
    /// The scan whose row hides those of all others.
    winner: Option<usize>,
}

/// How much of a partition was copied.
enum Copied {
    All,
    /// The rest is to be merged; perhaps nothing was written yet.
    Some {
        has_begun: bool,
    },
}

/// What there was when a partition began, in bytes of Data.db.
#[derive(Clone, Copy, Default)]
struct Began {
    /// That all scans had read.
    read: u64,
    /// That those at the partition had.
    of_standing: u64,
    written: u64,
}

pub(super) struct Merge<'a> {
    pub(super) running: &'a Running,
    pub(super) metadata: &'a Arc<TableMetadata>,
    limits: PurgeLimits,
    outside: Outside,
    /// How many partitions came from how many files.
    partitions: BTreeMap<i32, i64>,
    pub(super) pace: Pace,
    /// Bytes of Data.db that are read at once.
    pub(super) read_ahead_bytes: usize,
    pub(super) rows: u32,
    even_rows: u32,
    /// Where the partition began.
    began: Began,
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        running: &'a Running,
        metadata: &'a Arc<TableMetadata>,
        limits: PurgeLimits,
        outside: Outside,
        pace: Pace,
        read_ahead_bytes: usize,
    ) -> Self {
        Self {
            running,
            metadata,
            limits,
            outside,
            partitions: BTreeMap::new(),
            pace,
            read_ahead_bytes,
            rows: 0,
            even_rows: 0,
            began: Began::default(),
        }
    }

    /// How many partitions came from how many files.
    pub(super) fn into_partitions(self) -> BTreeMap<i32, i64> {
        self.partitions
    }

    pub(super) async fn copy(
        &mut self,
        inputs: &[Rc<SSTable>],
        range: &KeyRange,
        outputs: &mut Outputs,
    ) -> Result<(), Ended> {
        let mut scans = MergedScans::new(self.metadata, inputs, range, self.read_ahead_bytes);
        while scans.next_partition().await? {
            count_row(&mut self.rows, self.running, &mut self.pace).await?;
            self.outside.refresh();
            self.copy_partition(&mut scans, outputs).await?;
            self.running.completed_bytes.set(scans.position());
        }
        Ok(())
    }

    /// The partition that the scans stand at.
    pub(super) async fn copy_partition(
        &mut self,
        scans: &mut MergedScans,
        outputs: &mut Outputs,
    ) -> Result<(), Ended> {
        let Some(token) = scans.key().map(|key| key.token) else { return Ok(()) };
        let writer = outputs.writer_for(token).await?;
        let read = self.running.completed_bytes.get();
        self.began = Began { read, of_standing: 0, written: writer.data_length() };
        let copied = {
            let mut standing: SmallVec<[&mut Scan; 8]> = scans.standing().collect();
            self.began.of_standing = positions(&standing);
            let count = i32::try_from(standing.len()).unwrap_or(i32::MAX);
            *self.partitions.entry(count).or_default() += 1;
            self.copy_plain(&mut standing, writer).await?
        };
        if let Copied::Some { has_begun } = copied {
            self.merge(scans, writer, has_begun).await?;
        }
        writer.end_partition().await?;
        Ok(())
    }

    /// What is left of a partition, as a read sees it, without what may go.
    async fn merge(
        &mut self,
        scans: &mut MergedScans,
        writer: &mut SSTableWriter,
        has_begun: bool,
    ) -> Result<(), Ended> {
        let sources = scans.sources();
        let merged = MergedPartition::new(self.metadata.clone(), Direction::Forward, sources);
        let Some(merged) = merged.await? else { return Ok(()) };
        let mut partition = PurgedPartition::new(merged, self.limits, &mut self.outside);
        if !has_begun {
            writer.start_partition(partition.header().clone())?;
        }
        // What goes is told to nobody, however much it is: others have their turn meanwhile.
        while let Some(fragment) = self.pace.paced(partition.next(), self.running).await?? {
            writer.put(fragment)?;
            writer.make_room().await?;
            count_row(&mut self.rows, self.running, &mut self.pace).await?;
            // The scans are lent; of what is merged there is not much more than was read.
            let more = writer.data_length().saturating_sub(self.began.written);
            tell(self.running, self.began.read, more);
        }
        Ok(())
    }

    /// Notes how far the scans are within a partition.
    fn tell(&self, scans: &[&mut Scan]) {
        let more = positions(scans).saturating_sub(self.began.of_standing);
        tell(self.running, self.began.read, more);
    }

    /// Copies rows as long as nothing about them is to be decided that needs more than their timestamps.
    async fn copy_plain(
        &mut self,
        scans: &mut [&mut Scan],
        writer: &mut SSTableWriter,
    ) -> Result<Copied, Ended> {
        let headers = scans.iter().filter_map(|scan| scan.header());
        let Some(mut header) = merge_headers(self.metadata, headers) else {
            return Ok(Copied::Some { has_begun: false });
        };
        if !header.deletion.is_live() {
            return Ok(Copied::Some { has_begun: false });
        }
        purge_header(&mut header, self.limits, &mut self.outside);
        writer.start_partition(header)?;
        loop {
            match self.copy_even(scans, writer).await? {
                EvenEnd::Partition => return Ok(Copied::All),
                EvenEnd::Other | EvenEnd::Full => {}
            }
            if let Some(copied) = self.copy_row(scans, writer).await? {
                return Ok(copied);
            }
            self.tell(scans);
        }
    }

    /// Copies what needs no decision at all.
    async fn copy_even(
        &mut self,
        scans: &mut [&mut Scan],
        writer: &mut SSTableWriter,
    ) -> Result<EvenEnd, Ended> {
        loop {
            for scan in scans.iter_mut() {
                if scan.is_short() {
                    scan.draw_near().await;
                }
            }
            let most = EVEN_ROWS_BETWEEN_LOOKS.saturating_sub(self.even_rows).max(1);
            let end = writer.copy_even(scans, most, &mut self.even_rows)?;
            if end == EvenEnd::Full {
                writer.make_room().await?;
            }
            if self.even_rows >= EVEN_ROWS_BETWEEN_LOOKS {
                (self.rows, self.even_rows) = (0, 0);
                self.pace.look(self.running).await?;
                self.tell(scans);
            }
            let is_more_to_come = match end {
                EvenEnd::Partition => false,
                EvenEnd::Full => true,
                // Perhaps it was only because of that.
                EvenEnd::Other => scans.iter().any(|scan| scan.is_short()),
            };
            if !is_more_to_come {
                return Ok(end);
            }
        }
    }

    /// Copies the next row, whatever of it must be read for that. How much was copied, if that was the last one to be copied.
    async fn copy_row(
        &mut self,
        scans: &mut [&mut Scan],
        writer: &mut SSTableWriter,
    ) -> Result<Option<Copied>, Ended> {
        for scan in scans.iter_mut() {
            if scan.look().await? == Ahead::Other {
                return Ok(Some(Copied::Some { has_begun: true }));
            }
        }
        let Some(least) = self.least(scans) else { return Ok(Some(Copied::All)) };
        let winner = least.winner.and_then(|winner| scans.get(winner));
        match winner.and_then(|scan| scan.plain_row()) {
            Some(row) if !row.has_garbage(self.limits.now_s, self.limits.gc_before_s) => {
                writer.add_plain(&row).await?;
            }
            _ => return Ok(Some(Copied::Some { has_begun: true })),
        }
        for index in least.standing {
            if let Some(scan) = scans.get_mut(index) {
                scan.pass();
            }
        }
        count_row(&mut self.rows, self.running, &mut self.pace).await?;
        Ok(None)
    }

    /// The rows at the least place among those that were looked at; `None` if there are none.
    fn least(&self, scans: &[&mut Scan]) -> Option<Least> {
        let comparator = self.metadata.comparator();
        let mut least: Option<(PlainRow<'_>, Standing)> = None;
        for (index, scan) in scans.iter().enumerate() {
            let Some(row) = scan.plain_row() else { continue };
            let order = least.as_ref().map(|(least, _)| row.compare(least, comparator));
            match (order, &mut least) {
                (Some(Ordering::Greater), _) => {}
                (Some(Ordering::Equal), Some((_, standing))) => standing.push(index),
                _ => least = Some((row, Standing::from_slice(&[index]))),
            }
        }
        let (_, standing) = least?;
        let winner = match standing.as_slice() {
            [single] => Some(*single),
            several => {
                let row = |index: usize| scans.get(index).and_then(|scan| scan.plain_row());
                let hides = |winner: usize, other: usize| {
                    row(winner).zip(row(other)).is_some_and(|(winner, other)| winner.hides(&other))
                };
                let hides_all = |winner: usize| {
                    several.iter().all(|other| winner == *other || hides(winner, *other))
                };
                several.iter().copied().find(|winner| hides_all(*winner))
            }
        };
        Some(Least { standing, winner })
    }
}

fn positions(scans: &[&mut Scan]) -> u64 {
    scans.iter().map(|scan| scan.position()).sum()
}

/// Notes that so many bytes more were read, without going back.
fn tell(running: &Running, read: u64, more: u64) {
    let completed = read.saturating_add(more).min(running.total_bytes.get());
    running.completed_bytes.set(completed.max(running.completed_bytes.get()));
}

/// Counts a row, and looks around after some.
pub(super) async fn count_row(
    rows: &mut u32,
    running: &Running,
    pace: &mut Pace,
) -> Result<(), Ended> {
    *rows += 1;
    if *rows >= ROWS_BETWEEN_LOOKS {
        *rows = 0;
        pace.look(running).await?;
    }
    Ok(())
}
