//! Shows a visitor all that partitions hold: rows with their tombstones, range deletions and
//! partition deletions, merged and not purged.
//!
//! A node of another system that reconciles rows itself needs the content in this form. The sources
//! and the merge are those of every read, with these differences:
//!
//! - Ranges that are known to be empty are not skipped, because they may hold tombstones.
//! - Partitions of one row are read around the row cache, which keeps their partition deletion as
//!   the deletion of the row.
//! - Tables whose clustering values have several forms (decimal 1.0 and 1.00) are read around the
//!   row cache, which keeps the bounds of range deletions as paths, in one form.
//! - A scan reads files around the row cache.
//!
//! Memory bound: one fragment of each source. The visitor bounds what it keeps.

use espalier_mutation::{
    DecoratedKey, KeyRange, PartitionHeader, Unfiltered, UnfilteredStream, path,
    reconcile::MergedPartition,
};
use espalier_runtime::maybe_yield;
use futures_util::future::LocalBoxFuture;

use super::{
    cached_source::cached_source,
    range_scan::RangeScan,
    shard_read::{TableAccess, intersection, is_all_covered, memtable_sources, sources_of},
    source::Source,
};
use crate::{ReadCommand, ReadTarget, StorageError};

/// The part of a read that a visitor wants to see next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// The rest of the partition.
    Continue,
    /// The next partition.
    NextPartition,
    /// Nothing more.
    End,
}

/// Takes the partitions of a read, one after the other.
///
/// For each partition, the read calls `begin`, then `take` for each fragment, then `end`. After
/// `begin` or `take` returned something else than [`Visit::Continue`], `end` follows at once. The
/// methods do not wait; the read yields between them.
pub trait FragmentVisitor {
    /// Takes the head of the next partition.
    fn begin(&mut self, header: &PartitionHeader) -> Visit;

    /// Takes the next row or marker, in the direction of the read. Each slice has a complete chain
    /// of markers, see [`UnfilteredStream`].
    fn take(&mut self, fragment: Unfiltered) -> Visit;

    /// Takes the end of the partition. [`Visit::Continue`] and [`Visit::NextPartition`] mean the
    /// same here.
    fn end(&mut self) -> Visit {
        Visit::Continue
    }
}

/// Shows the visitor the partitions of a command that this shard owns. Returns [`Visit::End`] if
/// the visitor wants no more.
///
/// The command's columns, limits and time have no effect but one: if the limit of rows is low, the
/// read expects to be short. The future is boxed for the reason of [`super::read_on_shard`].
pub(crate) fn visit_on_shard<'a>(
    access: TableAccess<'a>,
    command: &'a ReadCommand,
    own: &'a KeyRange,
    visitor: &'a mut dyn FragmentVisitor,
) -> LocalBoxFuture<'a, Result<Visit, StorageError>> {
    Box::pin(async move {
        match &command.target {
            ReadTarget::Partition(key) => visit_one(access, command, key, visitor).await,
            ReadTarget::Range(range) => {
                let range = intersection(range, own);
                visit_range(access, command, range, visitor).await
            }
        }
    })
}

async fn visit_one(
    access: TableAccess<'_>,
    command: &ReadCommand,
    key: &DecoratedKey,
    visitor: &mut dyn FragmentVisitor,
) -> Result<Visit, StorageError> {
    let (view, slices, table) = (access.view, &command.slices, &command.table);
    let is_single_row = table.clustering_columns().is_empty() && !table.has_static_columns();
    let has_files = !view.sstables.is_empty();
    let keeps_bounds = path::is_exact(table.comparator());
    let may_use_cache = has_files && !command.bypass_cache && !is_single_row && keeps_bounds;
    let sources = match access.cache.filter(|_| may_use_cache) {
        Some(cache) => {
            let mut sources = memtable_sources(view, command, key, slices)?;
            if !is_all_covered(view, &sources) {
                sources.extend(cached_source(cache, view, command, key, slices).await?);
            }
            sources
        }
        None => sources_of(view, command, key, slices).await?,
    };
    visit_partition(command, sources, visitor).await
}

async fn visit_range(
    access: TableAccess<'_>,
    command: &ReadCommand,
    range: KeyRange,
    visitor: &mut dyn FragmentVisitor,
) -> Result<Visit, StorageError> {
    let bypass_cache = command.bypass_cache || !command.is_short();
    let command = &ReadCommand { bypass_cache, ..command.clone() };
    let mut scan = RangeScan::new(access.view, command, range, None).await?;
    while let Some(key) = scan.next_partition().await? {
        let sources = scan.open(&key).await?;
        if visit_partition(command, sources, visitor).await? == Visit::End {
            return Ok(Visit::End);
        }
        maybe_yield().await;
    }
    Ok(Visit::Continue)
}

async fn visit_partition(
    command: &ReadCommand,
    sources: Vec<Source<'_>>,
    visitor: &mut dyn FragmentVisitor,
) -> Result<Visit, StorageError> {
    let merged = MergedPartition::new(command.table.clone(), command.direction, sources).await?;
    let Some(mut merged) = merged else { return Ok(Visit::Continue) };
    let mut wanted = visitor.begin(merged.header());
    while wanted == Visit::Continue {
        let Some(fragment) = merged.next().await? else { break };
        wanted = visitor.take(fragment);
    }
    let behind = visitor.end();
    Ok(if wanted == Visit::End { Visit::End } else { behind })
}
