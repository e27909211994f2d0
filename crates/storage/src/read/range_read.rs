//! The partitions of a range: from memory as far as it is known which there are, and from there on from files.

use std::rc::Rc;

use espalier_mutation::{DecoratedKey, KeyBound, KeyRange};
use espalier_runtime::{maybe_yield, trace, trace_event};

use super::{
    ReadCommand, ReadPosition, ReadResult,
    partition::{Remaining, Resumed, read_partition},
    range_scan::RangeScan,
    shard_read::read_one,
    source::Source,
};
use crate::{
    StorageError,
    cache::{CacheAccess, KnownScan, KnownStep, ScanFill},
    table::TableView,
};

/// A range under way.
struct RangeRead<'a> {
    view: &'a Rc<TableView>,
    command: &'a ReadCommand,
    cache: Option<CacheAccess>,
    remaining: Remaining,
    result: ReadResult,
}

pub(super) async fn read_range(
    view: &Rc<TableView>,
    command: &ReadCommand,
    mut range: KeyRange,
    cache: Option<&CacheAccess>,
    remaining: Remaining,
) -> Result<ReadResult, StorageError> {
    // Pages are left as they are.
    let command = &ReadCommand { bypass_cache: true, ..command.clone() };
    let cache = cache.map(|access| access.of_scan(access.cache.may_keep_scanned(view)));
    let mut read = RangeRead { view, command, cache, remaining, result: ReadResult::default() };
    if let Some(position) = &command.resume {
        let key = &position.key;
        // The partition that was begun is finished first, if it is ours.
        if position.clustering.is_some() && range.contains(key) {
            read.finish(position).await?;
        }
        if range.starts_before(key) {
            range.start = KeyBound::AfterKey(key.clone());
        }
    }
    if read.result.next.is_none()
        && let Some(rest) = read.read_known(range).await?
    {
        read.read_files(rest).await?;
    }
    Ok(read.result)
}

impl RangeRead<'_> {
    async fn finish(&mut self, position: &ReadPosition) -> Result<(), StorageError> {
        let Self { view, command, cache, remaining, result } = self;
        let (key, partitions) = (&position.key, &mut result.partitions);
        let cache = cache.as_ref().filter(|access| access.knows_or_adds(key));
        result.next =
            read_one(view, command, key, Some(position), cache, remaining, partitions).await?;
        Ok(())
    }

    /// Reads what is known; gives the range that is left, if there is one and no limit was reached.
    async fn read_known(&mut self, range: KeyRange) -> Result<Option<KeyRange>, StorageError> {
        let Some(access) = self.cache.clone() else { return Ok(Some(range)) };
        let (view, command) = (self.view, self.command);
        let mut known = KnownScan::new(&access, view, command, range.clone());
        loop {
            match known.next().await? {
                KnownStep::Partition(key, sources) => {
                    if self.add(&key, sources).await? {
                        return Ok(None);
                    }
                }
                KnownStep::End => {
                    if trace::is_on() {
                        trace_event!("Row cache knows all partitions of the range");
                    }
                    return Ok(None);
                }
                KnownStep::Unknown(start) => return Ok(Some(KeyRange { start, ..range })),
            }
        }
    }

    async fn read_files(&mut self, range: KeyRange) -> Result<(), StorageError> {
        let (view, command) = (self.view, self.command);
        let fill = self.cache.as_ref().and_then(|cache| ScanFill::new(cache, command, &range));
        let mut scan = RangeScan::new(view, command, range, fill).await?;
        while let Some(key) = scan.next_partition().await? {
            let sources = scan.sources(&key).await?;
            if self.add(&key, sources).await? {
                break;
            }
        }
        Ok(())
    }

    /// Adds what is visible of a partition; `true` if a limit is reached.
    async fn add(
        &mut self,
        key: &DecoratedKey,
        sources: Vec<Source<'_>>,
    ) -> Result<bool, StorageError> {
        let Self { command, remaining, result, .. } = self;
        let resumed = Resumed::default();
        let (found, stopped) =
            read_partition(command, key, &command.slices, sources, resumed, remaining).await?;
        result.partitions.extend(found);
        result.next = stopped;
        maybe_yield().await;
        Ok(result.next.is_some())
    }
}
