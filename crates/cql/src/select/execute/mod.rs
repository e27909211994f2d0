//! Execution of SELECT: reads storage in bounded chunks until the page is full, the limit is
//! reached or no rows are left.
//!
//! A chunk has many rows. Each row is freed as soon as it is encoded in the page, and the loop over
//! the rows of a chunk may yield after each.

mod limits;
mod nearest;
mod sorted;
mod tombstones;

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    ClusteringSlices, DecoratedKey, Direction, Row, schema::TableMetadata, split_composite,
};
use espalier_runtime::maybe_yield;
use espalier_storage::{
    Database, IndexSearch, PartitionRows, ReadCommand, ReadLimits, ReadPosition, ReadTarget,
    guardrails::Limit,
};

use self::{
    limits::{
        CHUNK_BYTES, CHUNK_ROWS, GROWTH, MAX_RESULT_BYTES, PageLimits, STALE_ROWS, evaluate_limit,
    },
    tombstones::TombstoneCount,
};
use super::{PlannedSelect, group::Output, paging::PagingState};
use crate::{
    Error, Result, current_row::CurrentRow, guard::Guard, options::QueryOptions,
    restrictions::Partitions, result::Rows, term::Evaluation,
};

/// The continuation of the execution after a row.
#[derive(PartialEq)]
enum Flow {
    More,
    SkipPartition,
    Done,
}

struct Execution<'s> {
    select: &'s PlannedSelect,
    evaluation: &'s Evaluation<'s>,
    output: Output<'s>,
    page: PageLimits,
    /// The terms that the statement looks up in secondary indexes.
    search: Option<Arc<IndexSearch>>,
    /// Result rows that LIMIT still allows.
    rows_left: usize,
    per_partition_limit: usize,
    /// The position of the last row that was encoded or added to a group.
    last: Option<ReadPosition>,
    /// Result rows or groups of the current partition so far, for PER PARTITION LIMIT.
    partition_rows: usize,
    /// The start of the current chunk.
    resumed: Option<ReadPosition>,
    /// Chunks that were read.
    chunks: u32,
    /// Set if the page is full before all rows were read.
    next: Option<ReadPosition>,
    /// The tombstones that the page met.
    tombstones: TombstoneCount,
    guard: Guard<'s>,
}

/// Cassandra's refusal of pages of a sorted read.
const SORTED_PAGES: &str = "Cannot page queries with both ORDER BY and a IN restriction on the \
partition key; you must either remove the ORDER BY or the IN and sort client side, or disable \
paging for this query";

/// Executes a SELECT and returns one page.
///
/// # Errors
/// A limit, a bound value or the paging state is invalid, the statement cannot be paged, the result
/// is too large, a selector has no value, or the storage fails.
pub async fn execute(
    select: &PlannedSelect,
    database: &Database,
    evaluation: &Evaluation<'_>,
    options: &QueryOptions<'_>,
    now_s: u32,
) -> Result<Rows> {
    let table = &select.table;
    let guard = Guard::of(database, options);
    let limit = evaluate_limit(select.limit.as_ref(), evaluation, "LIMIT")?;
    select.check_page_size(options, limit, guard)?;
    let per_partition_limit =
        evaluate_limit(select.per_partition_limit.as_ref(), evaluation, "PER PARTITION LIMIT")?;
    // The rows in the order of their similarity come in one page.
    let unpaged = QueryOptions { page_size: None, paging_state: None, ..*options };
    let options = match &select.nearest {
        Some(nearest) => {
            nearest.check(select, options, (limit, per_partition_limit), guard)?;
            &unpaged
        }
        None => options,
    };
    select.warn_of_aggregate(guard);
    select.restrictions.check_products(evaluation, guard)?;
    let state = options.paging_state.map(|state| PagingState::decode(table, state)).transpose()?;
    let page =
        PageLimits::new(select, options, database.configuration().query_tombstone_page_limit);
    if !select.sort.is_empty() && page.is_paged() {
        return Err(Error::invalid(SORTED_PAGES));
    }
    let partitions = select.restrictions.partition.partitions(table, evaluation)?;
    if let Partitions::Keys(keys) = &partitions
        && select.restrictions.partition.has_in()
    {
        guard.check(Limit::PartitionKeysInSelect, keys.len(), &table.name)?;
    }
    let slices = Arc::new(select.restrictions.slices(table, evaluation)?);
    select.restrictions.check_filters(evaluation)?;
    let resumed = state.as_ref().map(|state| state.position.clone());
    let mut execution = Execution {
        select,
        evaluation,
        output: Output::new(select, evaluation, now_s, options.applies_masks),
        page,
        search: select.restrictions.index.search(evaluation)?.map(Arc::new),
        rows_left: match &state {
            Some(state) if state.rows_left != u32::MAX => limit.min(state.rows_left as usize),
            _ => limit,
        },
        per_partition_limit,
        last: None,
        partition_rows: resumed.as_ref().map_or(0, |position| position.rows_of_partition),
        resumed,
        chunks: 0,
        next: None,
        tombstones: TombstoneCount::default(),
        guard,
    };
    execution.read(database, partitions, slices, now_s).await?;
    if select.is_aggregate
        && execution.next.is_none()
        && (execution.output.has_group() || select.group_by.is_none())
    {
        execution.output.finish_group()?;
    }
    execution.warn_of_tombstones();
    execution.into_rows(limit)
}

/// Returns the values of the partition key columns.
///
/// # Errors
/// The stored key is malformed.
pub fn key_components(table: &TableMetadata, key: &DecoratedKey) -> Result<Vec<Bytes>> {
    match table.partition_key_columns().len() {
        1 => Ok(vec![key.key.clone()]),
        count => split_composite(&key.key, count)
            .map_err(|error| Error::new(crate::ErrorCode::ServerError, error.to_string())),
    }
}

impl Execution<'_> {
    /// Reads the rows in the order of the statement.
    async fn read(
        &mut self,
        database: &Database,
        partitions: Partitions,
        slices: Arc<ClusteringSlices>,
        now_s: u32,
    ) -> Result<()> {
        match &self.select.nearest {
            _ if slices.slices.is_empty() => Ok(()),
            Some(nearest) => self.read_nearest(database, nearest, partitions, slices, now_s).await,
            None if self.select.sort.is_empty() => {
                self.read_all(database, partitions, slices, now_s).await
            }
            None => self.read_sorted(database, partitions, slices, now_s).await,
        }
    }

    async fn read_all(
        &mut self,
        database: &Database,
        partitions: Partitions,
        slices: Arc<ClusteringSlices>,
        now_s: u32,
    ) -> Result<()> {
        let mut targets: VecDeque<ReadTarget> = partitions.into_targets();
        let mut resume = self.resumed.clone();
        if let Some(position) = &resume
            && let Some(ReadTarget::Partition(_)) = targets.front()
        {
            let is_it = |target: &ReadTarget| matches!(target, ReadTarget::Partition(key) if *key == position.key);
            let at = targets.iter().position(is_it).ok_or_else(|| {
                let message = "Invalid value for the paging state: it belongs to another query";
                Error::new(crate::ErrorCode::ProtocolError, message)
            })?;
            targets.drain(..at);
        }
        while let Some(target) = targets.pop_front() {
            loop {
                self.resumed = resume.clone();
                let command = self.command(target.clone(), slices.clone(), resume.take(), now_s);
                let result = database.read(command).await?;
                self.chunks += 1;
                self.count_tombstones(&result, &target)?;
                let (more_in_target, more_targets) = (result.next.is_some(), !targets.is_empty());
                let flow = self.consume(result.partitions, more_in_target, more_targets).await?;
                if flow == Flow::Done {
                    return Ok(());
                }
                let is_cut = result.is_cut_by_tombstones && self.page.ends_among_tombstones;
                if flow == Flow::More && is_cut {
                    // The page ends at this position, even if it is short or empty.
                    self.next = result.next;
                    return Ok(());
                }
                resume = match (flow, result.next) {
                    (_, None) => break,
                    (Flow::SkipPartition, Some(next)) => {
                        Some(ReadPosition { key: next.key, clustering: None, rows_of_partition: 0 })
                    }
                    (_, Some(next)) => Some(next),
                };
            }
            self.partition_rows = 0;
        }
        Ok(())
    }

    /// Returns the next read. If each row read is a row of the page, it reads the rows that the
    /// page lacks, at most 16 × [`CHUNK_ROWS`]. Otherwise it reads one chunk.
    fn command(
        &self,
        target: ReadTarget,
        slices: Arc<ClusteringSlices>,
        resume: Option<ReadPosition>,
        now_s: u32,
    ) -> ReadCommand {
        let select = self.select;
        let exact = select.is_exact();
        let missing_page =
            (self.page.rows - self.output.row_count.min(self.page.rows)).min(self.rows_left);
        ReadCommand {
            table: select.table.clone(),
            target,
            slices,
            direction: if select.is_reversed { Direction::Reverse } else { Direction::Forward },
            columns: select.columns.clone(),
            now_s,
            limits: ReadLimits {
                rows: match (exact, &self.search) {
                    (true, _) => missing_page.min(CHUNK_ROWS * 16),
                    // Most entries of an index are not stale. If other conditions drop most rows,
                    // each chunk is larger, because it may pass a part of the index again.
                    (false, Some(_)) if !select.is_aggregate => missing_page
                        .saturating_add(STALE_ROWS)
                        .saturating_mul(GROWTH.saturating_pow(self.chunks))
                        .min(CHUNK_ROWS * 16),
                    (false, _) => CHUNK_ROWS,
                },
                rows_per_partition: match (select.shows_partitions(), exact) {
                    (true, _) => 1,
                    (false, true) => self.per_partition_limit,
                    (false, false) => usize::MAX,
                },
                bytes: self.page.bytes.min(CHUNK_BYTES),
                tombstones: self.page.tombstones,
            },
            resume,
            search: self.search.clone(),
            bypass_cache: select.bypass_cache,
        }
    }

    async fn consume(
        &mut self,
        partitions: Vec<PartitionRows>,
        more_in_target: bool,
        more_targets: bool,
    ) -> Result<Flow> {
        let table = self.select.table.clone();
        let partition_count = partitions.len();
        for (index, mut partition) in partitions.into_iter().enumerate() {
            let components = key_components(&table, &partition.key)?;
            let is_last_partition = index + 1 == partition_count;
            let is_here = |position: &ReadPosition| position.key == partition.key;
            // If a page ended among tombstones, no row of the partition has been returned yet.
            let has_shown = |from: &ReadPosition| from.rows_of_partition > 0 && is_here(from);
            let continued = self.last.as_ref().is_some_and(is_here)
                || self.resumed.as_ref().is_some_and(has_shown);
            if !continued {
                self.partition_rows = 0;
            }
            let shows_partitions = self.select.shows_partitions();
            if shows_partitions || partition.rows.is_empty() {
                // A partition with only a static row counts as a row only if the statement does not
                // restrict the clustering.
                let shown = if table.is_static_compact() {
                    partition.static_row.is_some()
                } else {
                    shows_partitions || self.select.restrictions.clustering.is_empty()
                };
                if shown && !continued {
                    let row = if shows_partitions { partition.rows.first() } else { None };
                    let more = more_in_target || more_targets || !is_last_partition;
                    if self.row(&partition, &components, row, more)? == Flow::Done {
                        return Ok(Flow::Done);
                    }
                }
                maybe_yield().await;
                continue;
            }
            let rows = std::mem::take(&mut partition.rows);
            let row_count = rows.len();
            for (row_index, row) in rows.into_iter().enumerate() {
                maybe_yield().await;
                // For aggregates, the limit is checked where a group begins.
                if !self.select.is_aggregate && self.partition_rows >= self.per_partition_limit {
                    if is_last_partition {
                        return Ok(Flow::SkipPartition);
                    }
                    break;
                }
                let more = more_in_target
                    || more_targets
                    || !is_last_partition
                    || row_index + 1 < row_count;
                match self.row(&partition, &components, Some(&row), more)? {
                    Flow::Done => return Ok(Flow::Done),
                    Flow::SkipPartition if is_last_partition => return Ok(Flow::SkipPartition),
                    Flow::SkipPartition => break,
                    Flow::More => {}
                }
            }
        }
        Ok(Flow::More)
    }

    fn row(
        &mut self,
        partition: &PartitionRows,
        components: &[Bytes],
        row: Option<&Row>,
        more: bool,
    ) -> Result<Flow> {
        let current = CurrentRow {
            table: &self.select.table,
            partition_key: components,
            static_row: partition.static_row.as_ref(),
            row: if self.select.shows_partitions() { None } else { row },
        };
        if !self.select.restrictions.accepts(&current, self.evaluation)? {
            return Ok(Flow::More);
        }
        let position = |rows_of_partition| ReadPosition {
            key: partition.key.clone(),
            clustering: row
                .filter(|row| !row.clustering.values.is_empty() && !self.select.shows_partitions())
                .map(|row| row.clustering.clone()),
            rows_of_partition,
        };
        if self.select.is_aggregate {
            if self.output.begins_group(&current) {
                self.output.finish_group()?;
                self.rows_left -= 1;
                if self.rows_left == 0 {
                    self.next = None;
                    // The limit is reached with a complete group, so the result ends here.
                    return Ok(Flow::Done);
                }
                if self.page_is_full()? {
                    self.next = self.last.clone();
                    return Ok(Flow::Done);
                }
            }
            if !self.output.has_group() {
                if self.partition_rows >= self.per_partition_limit {
                    return Ok(Flow::SkipPartition);
                }
                self.partition_rows += 1;
            }
            self.output.accumulate(current)?;
            self.last = Some(position(self.partition_rows));
            return Ok(Flow::More);
        }
        self.output.emit(current)?;
        self.partition_rows += 1;
        self.rows_left -= 1;
        let at = position(self.partition_rows);
        if self.rows_left == 0 {
            return Ok(Flow::Done);
        }
        if self.page_is_full()? {
            self.next = more.then_some(at);
            return Ok(Flow::Done);
        }
        self.last = Some(at);
        Ok(Flow::More)
    }

    /// Returns whether the page is full, by rows or by bytes. Without paging, a result that grows
    /// too large is an error.
    fn page_is_full(&self) -> Result<bool> {
        let bytes = self.output.content.len();
        if self.page.is_paged() {
            return Ok(self.output.row_count >= self.page.rows || bytes >= self.page.bytes);
        }
        if bytes > MAX_RESULT_BYTES {
            return Err(Error::invalid(format!(
                "The result is larger than {} MiB; use paging",
                MAX_RESULT_BYTES >> 20
            )));
        }
        if bytes > self.page.bytes {
            return Err(Error::answer_too_large());
        }
        Ok(false)
    }

    /// Returns the page. `limit` is the LIMIT of the statement.
    fn into_rows(self, limit: usize) -> Result<Rows> {
        let rows_left = if limit == usize::MAX {
            u32::MAX
        } else {
            u32::try_from(self.rows_left).unwrap_or(u32::MAX)
        };
        let paging_state = self.next.map(|position| PagingState { position, rows_left }.encode());
        Ok(Rows {
            metadata: self.select.metadata.clone(),
            row_count: i32::try_from(self.output.row_count).map_err(|_| {
                Error::invalid("The result has more than 2147483647 rows; use paging")
            })?,
            content: self.output.content,
            paging_state,
        })
    }
}
