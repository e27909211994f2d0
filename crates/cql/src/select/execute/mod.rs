//! Execution of SELECT: reads storage in bounded chunks until the page is full, LIMIT is reached,
//! the page ends among tombstones, or no rows are left.
//!
//! A chunk has many rows. The loop over them may yield between rows. It frees each row as soon as
//! the row is encoded in the page; flat rows share one buffer, which it frees at the end of the
//! chunk.

mod consume;
mod limits;
mod nearest;
mod nearest_rows;
mod sorted;
mod tombstones;

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    ClusteringSlices, DecoratedKey, Direction, schema::TableMetadata, split_composite,
};
use espalier_storage::{
    IndexSearch, Node, ReadCommand, ReadLimits, ReadPosition, ReadTarget, guardrails::Limit,
};

use self::{
    limits::{CHUNK_BYTES, CHUNK_ROWS, GROWTH, PageLimits, STALE_ROWS, evaluate_limit},
    nearest::NearestOrder,
    tombstones::TombstoneCount,
};
use super::{PlannedSelect, group::Output, paging::PagingState};
use crate::{
    Error, Result,
    guard::Guard,
    options::QueryOptions,
    restrictions::{BoundFilters, Partitions},
    result::Rows,
    term::Evaluation,
};

/// How the execution continues after a row.
#[derive(PartialEq)]
enum Flow {
    More,
    /// The partition of this key has reached PER PARTITION LIMIT.
    SkipPartition(DecoratedKey),
    Done,
}

struct Execution<'s> {
    select: &'s PlannedSelect,
    filters: BoundFilters<'s>,
    output: Output<'s>,
    page: PageLimits,
    /// The terms that the statement looks up in secondary indexes.
    search: Option<Arc<IndexSearch>>,
    /// Result rows that LIMIT still allows.
    rows_left: usize,
    per_partition_limit: usize,
    /// The partition of the last row that was encoded or added to a group.
    last_key: Option<DecoratedKey>,
    /// With GROUP BY, the position after which the next page begins if the page is full when the
    /// next group begins: the last row that was added to a group, or the last partition if groups
    /// are whole partitions.
    last_grouped: Option<ReadPosition>,
    /// Result rows or groups of the current partition so far, for PER PARTITION LIMIT.
    partition_rows: usize,
    /// The start of the current chunk.
    resumed: Option<ReadPosition>,
    /// Chunks that were read.
    chunks: u32,
    /// The position after which the next page begins; `None` if there is no next page.
    next: Option<ReadPosition>,
    /// The tombstones that the page met.
    tombstones: TombstoneCount,
    guard: Guard<'s>,
}

/// The node that an execution reads from, with the slices and the time of its reads.
struct Source<'s> {
    database: &'s Node,
    /// The slices of each partition.
    slices: Arc<ClusteringSlices>,
    now_s: u32,
}

/// Cassandra's error for a sorted read with pages.
const SORTED_PAGES: &str = "Cannot page queries with both ORDER BY and a IN restriction on the \
partition key; you must either remove the ORDER BY or the IN and sort client side, or disable \
paging for this query";

/// Executes a SELECT and returns one page.
///
/// # Errors
/// A limit, a bound value or the paging state is invalid, the statement cannot be paged, a clause
/// or the consistency level does not fit the order by similarity, a guardrail refuses the
/// statement, the read meets too many tombstones, the result is too large, a selector has no value,
/// or the storage fails.
pub async fn execute(
    select: &PlannedSelect,
    database: &Node,
    evaluation: &Evaluation<'_>,
    options: &QueryOptions<'_>,
    now_s: u32,
) -> Result<Rows> {
    let (table, guard) = (&select.table, Guard::of(database, options));
    let limit = evaluate_limit(select.limit.as_ref(), evaluation, "LIMIT")?;
    select.check_page_size(options, limit, guard)?;
    let per_partition_limit =
        evaluate_limit(select.per_partition_limit.as_ref(), evaluation, "PER PARTITION LIMIT")?;
    // A SELECT in the order of similarity returns one page.
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
    let tombstone_limit = database.store().configuration().query_tombstone_page_limit;
    let page = PageLimits::new(select, options, tombstone_limit);
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
    let source = Source { database, slices, now_s };
    let filters = select.restrictions.bind_filters(evaluation).await?;
    let order = NearestOrder::of(select, evaluation)?;
    let resumed = state.as_ref().map(|state| state.position.clone());
    let mut execution = Execution {
        select,
        filters,
        output: Output::new(select, evaluation, now_s, options),
        page,
        search: select.restrictions.index.search(evaluation).await?.map(Arc::new),
        rows_left: match &state {
            Some(state) if state.rows_left != u32::MAX => limit.min(state.rows_left as usize),
            _ => limit,
        },
        per_partition_limit,
        last_key: None,
        last_grouped: None,
        partition_rows: resumed.as_ref().map_or(0, |position| position.rows_of_partition),
        resumed,
        chunks: 0,
        next: None,
        tombstones: TombstoneCount::default(),
        guard,
    };
    execution.read(&source, order, partitions).await?;
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
        source: &Source<'_>,
        order: Option<NearestOrder<'_>>,
        partitions: Partitions,
    ) -> Result<()> {
        match order {
            _ if source.slices.slices.is_empty() => Ok(()),
            Some(order) => self.read_nearest(source, order, partitions).await,
            None if self.select.sort.is_empty() => self.read_all(source, partitions).await,
            None => self.read_sorted(source, partitions).await,
        }
    }

    async fn read_all(&mut self, source: &Source<'_>, partitions: Partitions) -> Result<()> {
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
                let command = self.command(source, target.clone(), resume.take());
                let result = source.database.read(command).await?;
                self.chunks += 1;
                self.count_tombstones(&result, &target)?;
                let (more_in_target, more_targets) = (result.next.is_some(), !targets.is_empty());
                let more = more_in_target || more_targets;
                let mut flow = self.consume(result.partitions, more).await?;
                if flow == Flow::More {
                    flow = self.consume_flat(result.flat, more).await?;
                }
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
                    (Flow::SkipPartition(key), Some(next)) if key == next.key => {
                        Some(ReadPosition { key, clustering: None, rows_of_partition: 0 })
                    }
                    // The chunk may have ended among dead rows of a partition after the skipped
                    // one.
                    (_, Some(next)) => Some(next),
                };
            }
            self.partition_rows = 0;
        }
        Ok(())
    }

    /// Returns the command that reads the next chunk. If each row of a chunk is a row of the page,
    /// the chunk has the rows that the page lacks, at most 16 × [`CHUNK_ROWS`].
    fn command(
        &self,
        source: &Source<'_>,
        target: ReadTarget,
        resume: Option<ReadPosition>,
    ) -> ReadCommand {
        let select = self.select;
        let exact = select.is_exact();
        let is_scan = matches!(target, ReadTarget::Range(_)) && self.search.is_none();
        let missing_page =
            (self.page.rows - self.output.row_count.min(self.page.rows)).min(self.rows_left);
        ReadCommand {
            table: select.table.clone(),
            target,
            slices: source.slices.clone(),
            direction: if select.is_reversed { Direction::Reverse } else { Direction::Forward },
            columns: select.columns.clone(),
            now_s: source.now_s,
            limits: ReadLimits {
                rows: match (exact, &self.search) {
                    (true, _) => missing_page.min(CHUNK_ROWS * 16),
                    // Most entries of an index are not stale, so the first chunk has few spare
                    // rows. Each later chunk is larger, because filters may drop most rows, and
                    // each chunk may read a part of the index again.
                    (false, Some(_)) if !select.is_aggregate => missing_page
                        .saturating_add(STALE_ROWS)
                        .saturating_mul(GROWTH.saturating_pow(self.chunks))
                        .min(CHUNK_ROWS * 16),
                    // The chunks after the first are 4 times as large, so that a long scan opens
                    // its files less often.
                    (false, _) if is_scan && select.flat.is_some() => {
                        CHUNK_ROWS << (2 * self.chunks).min(2)
                    }
                    (false, _) => CHUNK_ROWS,
                },
                rows_per_partition: match (select.shows_partitions(), exact) {
                    (true, _) => 1,
                    (false, true) => self.per_partition_limit,
                    (false, false) => usize::MAX,
                },
                bytes: self.page.bytes.min(CHUNK_BYTES),
                tombstones: self.page.tombstones,
                window_rows: if exact { usize::MAX } else { CHUNK_ROWS },
            },
            resume,
            search: self.search.clone(),
            bypass_cache: select.bypass_cache,
            flat: select.flat.as_ref().filter(|_| is_scan).map(|flat| flat.columns.clone()),
        }
    }

    /// Returns whether the page is full, by rows or by bytes. Without paging, a result that grows
    /// too large is an error.
    fn page_is_full(&self) -> Result<bool> {
        let bytes = self.output.content.len();
        if self.page.is_paged() {
            return Ok(self.output.row_count >= self.page.rows || bytes >= self.page.bytes);
        }
        self.page.check_unpaged(bytes).map(|()| false)
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
