//! Copies the inputs of a compaction to its outputs, partition by partition.
//!
//! Most rows are in one file only, or the row of one file hides the rows of all others. Such a row
//! is copied raw, not decoded, if nothing of it can be purged. Most raw rows are uniform: all cells
//! carry the row's timestamp. Uniform rows are copied without looking at each cell
//! ([`SSTableWriter::copy_uniform`]). From the first row on that cannot be copied raw, the rest of
//! a partition goes through the merge that reads use, and through the purge. A partition with a
//! deletion, and each partition of a table with secondary indexes, is merged as a whole. The output
//! is the same either way.

use std::{cmp::Ordering, collections::BTreeMap, pin::pin, rc::Rc, sync::Arc};

use espalier_mutation::{
    Direction,
    purge::PurgeLimits,
    reconcile::{MergedPartition, merge_headers},
    schema::TableMetadata,
};
use espalier_sstable::{Ahead, RawRow, SSTable, SSTableWriter, Scan, UniformEnd};
use smallvec::SmallVec;

use super::{
    checkpoint::Checkpoint,
    ended::Ended,
    merge::MergedScans,
    output::{Output, Outputs},
    overlap::Outside,
    progress::Running,
    purged::{PurgedPartition, purge_header},
};

/// Maximum number of uniform rows that are copied in one step. Copying them is little work, and
/// bounded by the rows in memory.
const UNIFORM_ROWS_AT_ONCE: u32 = 64;

/// Indices of some of the scans at the current partition.
type Standing = SmallVec<[usize; 8]>;

/// The rows at the least position.
struct Least {
    standing: Standing,
    /// The scan with the row that hides the rows of all others.
    winner: Option<usize>,
}

/// The part of a partition that was copied raw.
enum Copied {
    All,
    /// The rest must be merged; `has_begun` says whether the partition was started in the output.
    Some {
        has_begun: bool,
    },
}

/// Progress at the start of a partition, in bytes of Data.db.
#[derive(Clone, Copy, Default)]
struct Began {
    /// Bytes that all scans had read.
    read: u64,
    /// Bytes that the scans at the partition had read.
    of_standing: u64,
    written: u64,
}

pub(crate) struct Merge<'a> {
    pub(crate) running: &'a Running,
    pub(crate) metadata: &'a Arc<TableMetadata>,
    limits: PurgeLimits,
    outside: Outside,
    /// Number of partitions; the index is the number of files that they were merged from.
    partitions: Vec<i64>,
    pub(crate) checkpoint: Checkpoint<'a>,
    /// Bytes of Data.db that are read at once from all inputs together.
    pub(crate) read_ahead_bytes: usize,
    /// Progress at the start of the current partition.
    began: Began,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(
        running: &'a Running,
        metadata: &'a Arc<TableMetadata>,
        limits: PurgeLimits,
        outside: Outside,
        checkpoint: Checkpoint<'a>,
        read_ahead_bytes: usize,
    ) -> Self {
        Self {
            running,
            metadata,
            limits,
            outside,
            partitions: Vec::new(),
            checkpoint,
            read_ahead_bytes,
            began: Began::default(),
        }
    }

    /// Returns the number of partitions by the number of files that they were merged from.
    pub(crate) fn into_partitions(self) -> BTreeMap<i32, i64> {
        (0..).zip(self.partitions).filter(|(_, partitions)| *partitions > 0).collect()
    }

    /// Counts a partition that is merged from this number of files.
    #[inline]
    fn count_partition(&mut self, files: usize) {
        if self.partitions.len() <= files {
            self.partitions.resize(files + 1, 0);
        }
        if let Some(partitions) = self.partitions.get_mut(files) {
            *partitions += 1;
        }
    }

    pub(crate) async fn copy(
        &mut self,
        inputs: &[Rc<SSTable>],
        outputs: &mut Outputs<'_>,
    ) -> Result<(), Ended> {
        let mut scans = MergedScans::new(self.metadata, inputs, self.read_ahead_bytes);
        while scans.next_partition().await? {
            self.checkpoint.pass().await?;
            self.outside.refresh();
            self.copy_partition(&mut scans, outputs).await?;
            self.running.completed_bytes.set(scans.position());
        }
        Ok(())
    }

    /// Copies the partition at which the scans stand.
    pub(crate) async fn copy_partition(
        &mut self,
        scans: &mut MergedScans,
        outputs: &mut Outputs<'_>,
    ) -> Result<(), Ended> {
        let Some(token) = scans.key().map(|key| key.token) else { return Ok(()) };
        let output = match outputs.current(token) {
            Some(output) => output,
            // Sealing the previous output may take long, because it may build a graph of vectors.
            // Boxed, so that this large future does not enlarge the future of each partition.
            None => self.checkpoint.around(Box::pin(outputs.begin_for(token)).as_mut()).await??,
        };
        let read = self.running.completed_bytes.get();
        self.began = Began { read, of_standing: 0, written: output.writer.data_length() };
        let copied = {
            let mut standing: SmallVec<[&mut Scan; 8]> = scans.standing().collect();
            self.began.of_standing = positions(&standing);
            self.count_partition(standing.len());
            // The entries of a row need its values, which raw rows do not show.
            if output.indexes.is_empty() {
                self.copy_raw(&mut standing, &mut output.writer).await?
            } else {
                Copied::Some { has_begun: false }
            }
        };
        if let Copied::Some { has_begun } = copied {
            self.merge(scans, output, has_begun).await?;
        }
        output.writer.end_partition().await?;
        Ok(())
    }

    /// Merges the rest of a partition, as a read does, and purges it.
    async fn merge(
        &mut self,
        scans: &mut MergedScans,
        output: &mut Output,
        has_begun: bool,
    ) -> Result<(), Ended> {
        let sources = scans.sources();
        let merged = MergedPartition::new(self.metadata.clone(), Direction::Forward, sources);
        let Some(merged) = merged.await? else { return Ok(()) };
        let mut partition = PurgedPartition::new(merged, self.limits, &mut self.outside);
        if !has_begun {
            let started = output.start_partition(partition.header().clone());
            self.checkpoint.around(pin!(started)).await??;
            // The static row of a partition without rows has entries, too.
            self.checkpoint.around(pin!(output.make_room())).await??;
        }
        loop {
            // The merge returns no purged fragments, however many there are; it yields meanwhile.
            let next = self.checkpoint.around(pin!(partition.next())).await??;
            let Some(fragment) = next else { return Ok(()) };
            if output.is_large(&fragment) {
                self.checkpoint.around(pin!(output.add_large(&fragment))).await??;
            }
            output.put(fragment)?;
            self.checkpoint.around(pin!(output.make_room())).await??;
            self.checkpoint.pass().await?;
            // The merge borrows the scans, so estimate the progress from the output: a merge writes
            // hardly more than it reads.
            let more = output.writer.data_length().saturating_sub(self.began.written);
            report(self.running, self.began.read, more);
        }
    }

    /// Records the progress of the scans within a partition.
    fn report(&self, scans: &[&mut Scan]) {
        let more = positions(scans).saturating_sub(self.began.of_standing);
        report(self.running, self.began.read, more);
    }

    /// Copies rows raw as long as their timestamps suffice for all decisions.
    async fn copy_raw(
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
        match scans.iter().find_map(|scan| scan.key_hash()) {
            Some(hash) => writer.start_hashed_partition(header, hash)?,
            None => writer.start_partition(header)?,
        }
        loop {
            match self.copy_uniform(scans, writer).await? {
                UniformEnd::Partition => return Ok(Copied::All),
                UniformEnd::Other | UniformEnd::Full => {}
            }
            if let Some(copied) = self.copy_row(scans, writer).await? {
                return Ok(copied);
            }
            self.report(scans);
        }
    }

    /// Copies uniform rows, which need no decisions.
    async fn copy_uniform(
        &mut self,
        scans: &mut [&mut Scan],
        writer: &mut SSTableWriter,
    ) -> Result<UniformEnd, Ended> {
        loop {
            for scan in scans.iter_mut() {
                if scan.is_short() {
                    scan.draw_near().await;
                }
            }
            let end = writer.copy_uniform(scans, UNIFORM_ROWS_AT_ONCE, &mut 0)?;
            if end == UniformEnd::Full {
                writer.make_room().await?;
            }
            let is_more_to_come = match end {
                UniformEnd::Partition => false,
                UniformEnd::Full => true,
                // The copy may have ended only because a scan's buffer was short.
                UniformEnd::Other => scans.iter().any(|scan| scan.is_short()),
            };
            if !is_more_to_come {
                return Ok(end);
            }
            self.checkpoint.pass().await?;
            self.report(scans);
        }
    }

    /// Copies the next row raw, and reads its missing bytes first. Returns `Some` if no further row
    /// can be copied raw.
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
        match winner.and_then(|scan| scan.raw_row()) {
            Some(row) if !row.has_garbage(self.limits.now_s, self.limits.gc_before_s) => {
                writer.add_raw(&row).await?;
            }
            _ => return Ok(Some(Copied::Some { has_begun: true })),
        }
        for index in least.standing {
            if let Some(scan) = scans.get_mut(index) {
                scan.pass();
            }
        }
        self.checkpoint.pass().await?;
        Ok(None)
    }

    /// Returns the rows at the least position among the raw rows of the scans; `None` if there are
    /// none.
    fn least(&self, scans: &[&mut Scan]) -> Option<Least> {
        let comparator = self.metadata.comparator();
        let mut least: Option<(RawRow<'_>, Standing)> = None;
        for (index, scan) in scans.iter().enumerate() {
            let Some(row) = scan.raw_row() else { continue };
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
                let row = |index: usize| scans.get(index).and_then(|scan| scan.raw_row());
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

/// Records that `more` bytes were read since `read`. Progress never decreases.
fn report(running: &Running, read: u64, more: u64) {
    let completed = read.saturating_add(more).min(running.total_bytes.get());
    running.completed_bytes.set(completed.max(running.completed_bytes.get()));
}
