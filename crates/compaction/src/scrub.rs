//! A scrub rewrites a possibly damaged file partition by partition.
//!
//! The index says where partitions begin. The scrub reads each partition to its end first, and
//! copies it only if it is intact. At an unreadable partition, it leaves the partition out or ends,
//! as its mode says. A scrub purges nothing. If the index itself is damaged, or the disk fails, the
//! file stays as it is.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use espalier_mutation::DecoratedKey;
use espalier_sstable::{
    Component, IndexedPartition, Inspection, SSTable, SSTableError, SSTableReader,
};
use espalier_types::{CqlType, literal::to_cql_literal};

use super::{
    checkpoint::Checkpoint, copy::Merge, ended::Ended, merge::MergedScans, output::Outputs,
};
use crate::CompactionError;

/// Maximum number of faults reported for a file, because a fault of a whole file shows in many
/// places.
const MAX_REPORTED: u64 = 100;
/// Maximum number of bytes of a key that are shown.
const MAX_SHOWN_BYTES: usize = 64;

/// The reaction of a scrub to damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubMode {
    /// Rewrite files. The first damage ends the scrub, and the file stays as it was.
    Abort,
    /// Rewrite files without the partitions that cannot be read.
    Skip,
    /// Only check files, and change nothing.
    Validate,
}

/// The result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// True if the scrub was stopped by request.
    pub is_stopped: bool,
    /// Number of files that were checked.
    pub sstables: usize,
    /// Number of the checked files that are damaged.
    pub damaged_sstables: usize,
    /// Number of partitions that a rewrite read, including the partitions that it left out.
    pub partitions: u64,
    /// Number of partitions that were left out.
    pub left_out_partitions: u64,
    /// Descriptions of the first faults of each file: file, partition, place.
    pub faults: Vec<String>,
}

impl ScrubReport {
    /// Adds another report.
    pub fn add(&mut self, other: Self) {
        self.is_stopped |= other.is_stopped;
        self.sstables += other.sstables;
        self.damaged_sstables += other.damaged_sstables;
        self.partitions += other.partitions;
        self.left_out_partitions += other.left_out_partitions;
        self.faults.extend(other.faults);
    }
}

/// The scrub of one file.
#[derive(Debug)]
pub struct Scrub {
    /// Its reaction to damage.
    pub mode: ScrubMode,
    /// Keyspace and table.
    table: String,
    faults: RefCell<Vec<String>>,
    fault_count: Cell<u64>,
    partitions: Cell<u64>,
    left_out: Cell<u64>,
}

impl Scrub {
    /// Begins the scrub of a file of `table`, which is named with its keyspace.
    pub fn new(mode: ScrubMode, table: String) -> Self {
        let (faults, fault_count, partitions, left_out) = Default::default();
        Self { mode, table, faults, fault_count, partitions, left_out }
    }

    /// Returns whether any partition was left out.
    pub fn has_left_out(&self) -> bool {
        self.left_out.get() > 0
    }

    /// Logs a fault and adds it to the report.
    pub(crate) fn report_fault(&self, what: String) {
        self.fault_count.set(self.fault_count.get() + 1);
        if self.fault_count.get() <= MAX_REPORTED {
            tracing::warn!(table = self.table, "scrub: {what}");
            self.faults.borrow_mut().push(what);
        }
    }

    /// Returns the report, and moves the collected faults into it.
    pub fn report(&self) -> ScrubReport {
        let (count, left_out) = (self.fault_count.get(), self.left_out.get());
        let partitions = self.partitions.get();
        if count > MAX_REPORTED {
            let more = count - MAX_REPORTED;
            tracing::warn!(
                table = self.table,
                "scrub: {more} more faults in the same file are not logged"
            );
        }
        ScrubReport {
            is_stopped: false,
            sstables: 1,
            damaged_sstables: usize::from(count > 0),
            partitions,
            left_out_partitions: left_out,
            faults: self.faults.take(),
        }
    }
}

impl Merge<'_> {
    /// Copies the partitions that can be read.
    pub(crate) async fn scrub(
        &mut self,
        input: &Rc<SSTable>,
        scrub: &Scrub,
        outputs: &mut Outputs<'_>,
    ) -> Result<(), Ended> {
        let reader = input.reader();
        let inputs = std::slice::from_ref(input);
        let mut scans = MergedScans::new(self.metadata, inputs, self.read_ahead_bytes);
        let mut inspection = reader.inspect();
        self.checkpoint.reads_times(2);
        while let Some(place) = next_place(reader, &mut inspection).await? {
            scrub.partitions.set(scrub.partitions.get() + 1);
            match read_whole(&mut inspection, &mut self.checkpoint).await? {
                Ok(key) => {
                    if !scans.go_to(place.start).await? || scans.key() != Some(&key) {
                        let reason =
                            format!("two reads of {place:?} returned different partitions");
                        let what = reader.descriptor().path(&Component::Data);
                        let what = what.display().to_string();
                        return Err(CompactionError::Corrupt { what, reason }.into());
                    }
                    self.copy_partition(&mut scans, outputs).await?;
                }
                Err(error) => {
                    let fault = fault_of(reader, &place, inspection.entered_key(), error)?;
                    if scrub.mode != ScrubMode::Skip {
                        return Err(CompactionError::Damaged(fault).into());
                    }
                    scrub.left_out.set(scrub.left_out.get() + 1);
                    scrub.report_fault(format!("{fault}; the partition is left out"));
                }
            }
            self.running.completed_bytes.set(place.end);
        }
        Ok(())
    }
}

/// Returns the next partition according to the index.
pub(crate) async fn next_place(
    reader: &SSTableReader,
    inspection: &mut Inspection<'_>,
) -> Result<Option<IndexedPartition>, CompactionError> {
    inspection.next_partition().await.map_err(|error| match error {
        SSTableError::Corrupt { .. } => CompactionError::Damaged(format!(
            "{error}: without the index the partitions of {} cannot be found",
            reader.descriptor()
        )),
        error => error.into(),
    })
}

/// Reads the current partition to its end. The inner error describes its damage.
pub(crate) async fn read_whole(
    inspection: &mut Inspection<'_>,
    checkpoint: &mut Checkpoint<'_>,
) -> Result<Result<DecoratedKey, SSTableError>, Ended> {
    checkpoint.pass().await?;
    let key = match inspection.enter().await {
        Ok(key) => key,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        match inspection.step().await {
            Ok(true) => checkpoint.pass().await?,
            Ok(false) => return Ok(Ok(key)),
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Describes the damage of a partition. Returns the error if it does not concern Data.db.
pub(crate) fn fault_of(
    reader: &SSTableReader,
    place: &IndexedPartition,
    entered: Option<&DecoratedKey>,
    error: SSTableError,
) -> Result<String, CompactionError> {
    let is_of_data = matches!(error, SSTableError::Corrupt { .. })
        && error.is_about(&reader.descriptor().path(&Component::Data));
    if !is_of_data {
        return Err(error.into());
    }
    let IndexedPartition { start, end, key, tokens: (first, last) } = place;
    let whose = match key.as_ref().or(entered) {
        Some(key) => {
            let shown = key.key.get(..MAX_SHOWN_BYTES).unwrap_or(&key.key);
            let dots = if shown.len() < key.key.len() { "..." } else { "" };
            let shown = to_cql_literal(&CqlType::Blob, shown);
            format!("the partition with key {shown}{dots}, token {}", key.token.0)
        }
        None => format!("a partition with an unknown key, token from {first} to {last}"),
    };
    Ok(format!("{error}; {whose}, from byte {start} to {end}"))
}
