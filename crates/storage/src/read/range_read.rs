//! Reads the partitions of a range: from the row cache as far as its ranges are continuous, and
//! from there on from files.

use std::rc::Rc;

use espalier_cache::{CacheAccess, ScanFill};
use espalier_mutation::{DecoratedKey, Direction, KeyBound, KeyRange};
use espalier_runtime::{maybe_yield, trace, trace_event};

use super::{
    continuous_scan::{ContinuousScan, ContinuousStep},
    in_place::read_in_place,
    partition::{Remaining, Resumed},
    range_scan::RangeScan,
    shard_read::{TableAccess, read_one, slices_after_last_row},
    source::Source,
};
use crate::{
    ReadCommand, ReadPosition, ReadResult, StorageError,
    empty_ranges::{EmptyRangeAccess, EmptyRangeRecorder, Place},
    table::TableView,
};

/// A range read under way.
struct RangeRead<'a> {
    view: &'a Rc<TableView>,
    command: &'a ReadCommand,
    cache: Option<CacheAccess>,
    empty: Option<&'a EmptyRangeAccess>,
    recorder: EmptyRangeRecorder<'a>,
    remaining: Remaining,
    result: ReadResult,
}

/// The empty range in front of a scan.
enum Dead {
    Nothing,
    /// No row is visible up to this bound.
    To(KeyBound),
    /// No row is visible in the rest of the range.
    Rest,
}

/// A long scan of flat rows adds pages to the page cache only if the files of the table are no
/// larger than the page cache divided by this number. Arbitrary.
const KEPT_PART: u64 = 4;

fn fits_page_cache(view: &TableView) -> bool {
    let Some(first) = view.sstables.first() else { return true };
    let bytes = view.sstables.iter().map(|sstable| sstable.reader().data_length());
    bytes.sum::<u64>() <= first.reader().page_cache_bytes() as u64 / KEPT_PART
}

pub(super) async fn read_range(
    access: TableAccess<'_>,
    command: &ReadCommand,
    mut range: KeyRange,
    remaining: Remaining,
) -> Result<ReadResult, StorageError> {
    let TableAccess { view, cache, empty } = access;
    // Long scans leave the page cache unchanged, unless they return flat rows of a small table.
    let may_use_cache = command.is_short() || command.scans_files() && fits_page_cache(view);
    let bypass_cache = command.bypass_cache || !may_use_cache;
    let command = &ReadCommand { bypass_cache, ..command.clone() };
    let cache = cache.map(|access| access.of_scan(access.cache.may_keep_scanned(&view.sstables)));
    let result = ReadResult::default();
    let recorder = EmptyRangeRecorder::off(command);
    let mut read = RangeRead { view, command, cache, empty, recorder, remaining, result };
    if let Some(position) = &command.resume {
        let key = &position.key;
        // The partition in which the last page ended is finished first, if this shard owns it.
        if position.clustering.is_some() && range.contains(key) {
            read.finish(position).await?;
        }
        if range.starts_before(key) {
            range.start = KeyBound::AfterKey(key.clone());
        }
    }
    read.recorder = EmptyRangeRecorder::over_partitions(empty, command, &range.start);
    if read.result.next.is_none()
        && let Some(rest) = read.read_known(range).await?
    {
        read.read_files(rest).await?;
    }
    let is_cut = read.remaining.has_dropped_enough(0) && read.result.next.is_some();
    // Among range reads, only a forward read of whole partitions records empty ranges and profits
    // from them.
    let is_followed = is_cut && EmptyRangeRecorder::records_for(command);
    if let (true, Some(empty), Some(next)) = (is_followed, empty, &read.result.next) {
        empty.record_cut_page(&command.table, next);
    }
    let dropped = read.remaining.dropped();
    Ok(ReadResult { is_cut_by_tombstones: is_cut, dropped, ..read.result })
}

impl RangeRead<'_> {
    /// Reads the rest of the partition in which an earlier read stopped.
    async fn finish(&mut self, position: &ReadPosition) -> Result<(), StorageError> {
        let key = &position.key;
        if self.command.scans_files() && self.command.direction == Direction::Forward {
            return self.finish_in_place(position).await;
        }
        let Self { view, command, cache, empty, remaining, result, .. } = self;
        let cache = cache.as_ref().filter(|access| access.knows_or_adds(key));
        let access = TableAccess { view, cache, empty: *empty };
        result.next = read_one(access, command, key, Some(position), remaining, result).await?;
        Ok(())
    }

    /// Reads the rest of a partition with a scan of the files, as [`Self::read_files`] reads the
    /// partitions behind it.
    async fn finish_in_place(&mut self, position: &ReadPosition) -> Result<(), StorageError> {
        let Self { view, command, empty, remaining, result, .. } = self;
        let Some(slices) = slices_after_last_row(command, position).await else { return Ok(()) };
        let rest = &ReadCommand { slices, ..command.clone() };
        let range = KeyRange {
            start: KeyBound::BeforeKey(position.key.clone()),
            end: KeyBound::AfterKey(position.key.clone()),
        };
        let mut scan = RangeScan::new(view, rest, range, None).await?;
        let Some(key) = scan.next_partition().await? else { return Ok(()) };
        let mut recorder = EmptyRangeRecorder::within(*empty, command, &key, &rest.slices);
        let sources = scan.open(&key).await?;
        let resumed = Resumed::at(position);
        result.next =
            read_in_place(command, &key, sources, resumed, remaining, &mut recorder, result)
                .await?;
        recorder.end_slice(&key, &rest.slices);
        Ok(())
    }

    /// Reads the continuous beginning of a range from the row cache. Returns the rest of the range,
    /// or `None` if there is no rest or a limit was reached.
    async fn read_known(&mut self, range: KeyRange) -> Result<Option<KeyRange>, StorageError> {
        let cache = self.cache.clone().filter(|_| !self.command.scans_files());
        let Some(access) = cache else { return Ok(Some(range)) };
        let (view, command) = (self.view, self.command);
        let mut known = ContinuousScan::new(&access, view, command, range.clone());
        loop {
            match self.pass_empty(known.at(), &range)? {
                Dead::Nothing => {}
                Dead::To(bound) => {
                    known.skip_to(bound);
                    continue;
                }
                Dead::Rest => return Ok(None),
            }
            match known.next(&mut self.recorder).await? {
                ContinuousStep::Partition(key, sources) => {
                    if self.add(&key, sources).await? {
                        return Ok(None);
                    }
                }
                ContinuousStep::End => {
                    self.recorder.end_at(&range.end);
                    if trace::is_on() {
                        trace_event!("Row cache knows all partitions of the range");
                    }
                    return Ok(None);
                }
                ContinuousStep::Unknown(start) => return Ok(Some(KeyRange { start, ..range })),
            }
        }
    }

    async fn read_files(&mut self, mut range: KeyRange) -> Result<(), StorageError> {
        let (view, command) = (self.view, self.command);
        loop {
            match self.pass_empty(&range.start, &range)? {
                Dead::To(bound) => range.start = bound,
                Dead::Rest => return Ok(()),
                Dead::Nothing => {
                    let fill = self.cache.as_ref();
                    // Scans return rows in ascending order only.
                    let is_whole =
                        command.direction == Direction::Forward && command.slices.is_all();
                    let fill = fill.filter(|_| is_whole && !command.scans_files());
                    let fill = fill.and_then(|cache| ScanFill::new(cache, &range));
                    let scan = RangeScan::new(view, command, range.clone(), fill).await?;
                    match self.scan_files(scan, &range).await? {
                        Some(start) => range.start = start,
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// Scans up to the end, to a limit, or to an empty range. Returns the bound behind the empty
    /// range; `None` at the end or at a limit.
    async fn scan_files(
        &mut self,
        mut scan: RangeScan<'_>,
        range: &KeyRange,
    ) -> Result<Option<KeyBound>, StorageError> {
        loop {
            let Some(key) = scan.next_partition().await? else {
                self.recorder.end_at(&range.end);
                return Ok(None);
            };
            self.recorder.enter(&key);
            let is_full = if scan.is_covered() {
                self.pass_covered(&key).await
            } else {
                let sources = scan.open(&key).await?;
                self.add(&key, sources).await?
            };
            if is_full {
                return Ok(None);
            }
            match self.pass_empty(&KeyBound::AfterKey(key), range)? {
                Dead::Nothing => {}
                Dead::To(bound) => return Ok(Some(bound)),
                Dead::Rest => return Ok(None),
            }
        }
    }

    /// Looks up the empty range that starts at a bound, and skips it.
    fn pass_empty(&mut self, at: &KeyBound, range: &KeyRange) -> Result<Dead, StorageError> {
        let Some((place, weight)) = self.recorder.beyond(at) else { return Ok(Dead::Nothing) };
        let next = if place >= Place::end(&range.end) { None } else { place.key_bound()? };
        // An empty range that ends within the next partition does not skip the partition; the read
        // of the partition begins at the end of the empty range.
        if next.as_ref() == Some(at) {
            return Ok(Dead::Nothing);
        }
        if trace::is_on() {
            trace_event!("Skipping partitions of an empty range");
        }
        self.recorder.pass_range(weight);
        Ok(match next {
            Some(bound) => Dead::To(bound),
            None => {
                self.recorder.end_at(&range.end);
                Dead::Rest
            }
        })
    }

    /// Adds the visible content of a partition; returns `true` if a limit is reached.
    async fn add(
        &mut self,
        key: &DecoratedKey,
        sources: Vec<Source<'_>>,
    ) -> Result<bool, StorageError> {
        let Self { command, remaining, result, recorder, .. } = self;
        let resumed = Resumed::default();
        result.next =
            read_in_place(command, key, sources, resumed, remaining, recorder, result).await?;
        Ok(self.end_partition(key).await)
    }

    /// Skips a partition that has no visible content; returns `true` if a limit is reached.
    async fn pass_covered(&mut self, key: &DecoratedKey) -> bool {
        self.recorder.pass_empty(1, key, None);
        self.recorder.leave(true);
        self.remaining.drop_some(1);
        self.end_partition(key).await
    }

    /// Ends a partition; returns whether a limit is reached.
    async fn end_partition(&mut self, key: &DecoratedKey) -> bool {
        let has_walked_enough = self.recorder.has_walked_enough();
        if self.result.next.is_none() && (has_walked_enough || self.remaining.has_dropped_enough(0))
        {
            self.recorder.end_at(&KeyBound::AfterKey(key.clone()));
            let key = key.clone();
            self.result.next = Some(ReadPosition { key, clustering: None, rows_of_partition: 0 });
        }
        maybe_yield().await;
        self.result.next.is_some()
    }
}
