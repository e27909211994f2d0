//! Scans the partitions of a range over all sources at once.
//!
//! Each SSTable has a scan, whose position is a partition. The memtables are searched for the next
//! key at each step. The lowest key of all sources is next, and the caller merges the sources that
//! have this key.
//!
//! Memory bound: one scan for each SSTable, which reads up to 256 KiB ahead. Unless `bypass_cache`
//! is set, as for most long reads, a scan begins as a short one, which reads pages through the page
//! cache.

use std::rc::Rc;

use espalier_cache::{ScanFill, ScannedSources};
use espalier_memtable::{MemtablePartition, NextInMemory};
use espalier_mutation::{DecoratedKey, DeletionTime, Direction, KeyBound, KeyRange};
use espalier_runtime::{trace, trace_event};
use espalier_sstable::{ColumnSelection, Scan};
use futures_util::future::try_join_all;

use super::{
    shard_read::{memtable_sources, sources_of},
    source::{FileSource, Source},
    trace::{record_partition, trace_scanned},
};
use crate::{ReadCommand, StorageError, table::TableView};

/// A scan over the partitions of a range.
pub(crate) struct RangeScan<'a> {
    view: &'a Rc<TableView>,
    command: &'a ReadCommand,
    range: KeyRange,
    scans: Vec<Scan>,
    /// The partition that was returned last. Scans at this partition advance in the next step.
    last: Option<DecoratedKey>,
    /// The next partition that the memtables have.
    in_memory: Option<NextInMemory>,
    /// Adds the partitions to the row cache, if the scan may do so.
    fill: Option<ScanFill>,
}

impl<'a> RangeScan<'a> {
    pub(crate) async fn new(
        view: &'a Rc<TableView>,
        command: &'a ReadCommand,
        range: KeyRange,
        fill: Option<ScanFill>,
    ) -> Result<Self, StorageError> {
        let mut opening = Vec::new();
        for sstable in view.sstables.iter() {
            let reader = sstable.reader();
            if !reader.may_contain_range(&range)
                || !sstable.may_contain_slices(&command.table, &command.slices)
            {
                trace_event!("Bounds allow skipping sstable {}", sstable.descriptor());
                continue;
            }
            if trace::is_on() {
                trace_scanned(sstable);
            }
            let (range, slices) = (range.clone(), command.slices.clone());
            opening.push(async move {
                let mut scan = if command.bypass_cache {
                    reader.scan(range, slices, &ColumnSelection::All).await?
                } else {
                    reader.short_scan(range, slices, &ColumnSelection::All).await?
                };
                if let Some(columns) = &command.flat {
                    scan.expect_columns(columns.regular());
                }
                if command.scans_files() {
                    scan.use_cached_pages();
                }
                Ok::<_, StorageError>(scan.next_partition().await?.is_some().then_some(scan))
            });
        }
        // All scans wait for the disk at the same time.
        let scans = try_join_all(opening).await?.into_iter().flatten().collect();
        Ok(Self { view, command, range, scans, last: None, in_memory: None, fill })
    }

    /// Returns the bound at which the search for the next partition begins.
    pub(crate) fn at(&self) -> KeyBound {
        match &self.last {
            Some(last) => KeyBound::AfterKey(last.clone()),
            None => self.range.start.clone(),
        }
    }

    /// Returns the key of the next partition.
    pub(crate) async fn next_partition(&mut self) -> Result<Option<DecoratedKey>, StorageError> {
        let mut least: Option<DecoratedKey> = None;
        let mut offer = |key: DecoratedKey| {
            if least.as_ref().is_none_or(|least| key < *least) {
                least = Some(key);
            }
        };
        for scan in &mut self.scans {
            let stands_at_last = |scan: &Scan| {
                self.last.is_some() && scan.header().map(|header| &header.key) == self.last.as_ref()
            };
            if stands_at_last(scan) && !scan.next_cached() {
                scan.next_partition().await?;
            }
            if let Some(header) = scan.header() {
                offer(header.key.clone());
            }
        }
        let in_memory = self.view.next_in_memory(&self.at(), &self.range)?;
        in_memory.iter().for_each(|next| offer(next.key.clone()));
        self.in_memory = in_memory;
        if least.is_none()
            && let Some(fill) = &mut self.fill
        {
            fill.end().await;
        }
        self.last.clone_from(&least);
        Ok(least)
    }

    /// Returns whether a partition deletion covers all of the partition that
    /// [`Self::next_partition`] returned last, as far as this is known without opening it. A scan
    /// that adds to the row cache opens every partition.
    pub(crate) fn is_covered(&self) -> bool {
        let Some(last) = self.last.as_ref().filter(|_| self.fill.is_none()) else { return false };
        let in_memory = self.in_memory.as_ref().filter(|next| next.key == *last);
        if in_memory.is_some_and(|next| !next.is_only_deletion) {
            return false;
        }
        let standing = || {
            let headers = self.scans.iter().map(|scan| (scan, scan.header()));
            headers.filter_map(|(scan, header)| Some((scan, header.filter(|of| of.key == *last)?)))
        };
        let of_memory = in_memory.map_or(DeletionTime::LIVE, |next| next.deletion);
        let deletion = standing().fold(of_memory, |all, (_, header)| all.max(header.deletion));
        !deletion.is_live() && standing().all(|(scan, _)| scan.is_hidden_by(deletion))
    }

    /// Opens the partition in place, if one memtable has it and no other source.
    fn only_memtable(&self, key: &DecoratedKey) -> Result<Option<Source<'static>>, StorageError> {
        let (view, command) = (self.view, self.command);
        let next = self.in_memory.as_ref().filter(|next| next.key == *key && next.holders == 1);
        let is_here = |scan: &Scan| scan.header().is_some_and(|header| header.key == *key);
        if next.is_none()
            || command.flat.is_none()
            || trace::is_on()
            || self.scans.iter().any(is_here)
        {
            return Ok(None);
        }
        for memtable in view.memtables() {
            let (table, slices) = (&command.table, &command.slices);
            if let Some(only) = MemtablePartition::open_in_place(memtable, table, key, slices)? {
                return Ok(Some(Source::Memtable(Box::new(only))));
            }
        }
        Ok(None)
    }

    /// Opens the partition that [`Self::next_partition`] returned last. The scan does not wait
    /// before it opens the memtables.
    pub(crate) async fn open(
        &mut self,
        key: &DecoratedKey,
    ) -> Result<Vec<Source<'_>>, StorageError> {
        let (view, command) = (self.view, self.command);
        if command.direction == Direction::Reverse {
            // Scans only go forward, so the partition is read from each file by its key.
            return sources_of(view, command, key, &command.slices).await;
        }
        if let Some(only) = self.only_memtable(key)? {
            return Ok(vec![only]);
        }
        let in_memory = self.in_memory.as_ref().is_some_and(|next| next.key == *key);
        let mut sources: Vec<Source<'_>> = if in_memory {
            memtable_sources(view, command, key, &command.slices)?
        } else {
            Vec::new()
        };
        let mut scanned = Vec::with_capacity(self.scans.len());
        for scan in &mut self.scans {
            if let Some(header) = scan.header().filter(|header| header.key == *key) {
                if trace::is_on() {
                    record_partition(header.deletion);
                }
                scanned.extend(scan.partition().map(FileSource::Scanned));
            }
        }
        if let Some(fill) = &mut self.fill
            && !scanned.is_empty()
        {
            match fill.fill(&command.table, key, scanned).await? {
                ScannedSources::Unmerged(rest) => scanned = rest,
                ScannedSources::Row(row) => {
                    sources.push(Source::only_row(key.clone(), row));
                    return Ok(sources);
                }
                ScannedSources::Filled(partition) => {
                    sources.push(Source::Filled(partition));
                    return Ok(sources);
                }
            }
        }
        sources.extend(scanned.into_iter().map(Source::File));
        Ok(sources)
    }
}
