//! Executes `ORDER BY column ANN OF vector`.
//!
//! The similarity of a row is computed from the vector that the row has now. So the order is exact
//! for the rows that are read, and stale entries of the index do no harm.
//!
//! 1. If the statement names partitions, it reads all their rows. If it names none, and other
//!    indexes find at most `few_rows`, it reads all these rows.
//! 2. Otherwise the index on the vectors names the most similar rows, more than LIMIT asks for. The
//!    storage returns a bound, which is the greatest similarity of any other row, and the error of
//!    this bound.
//! 3. If fewer rows than LIMIT are above that bound, because filters or deletions left out some
//!    rows, the statement repeats the search for [`GROWTH`] times as many rows.
//! 4. If rows are so near to the bound that another row may be more similar, the statement repeats
//!    the search in the same way, at most [`MAX_REPEATS`] times for this reason.
//! 5. A search asks for at most `max_candidates` rows. If step 2 or 3 would need a larger one, the
//!    statement reads all rows that the other conditions select. If step 4 would need a larger one,
//!    the statement returns the rows that it has.

use std::sync::Arc;

use bytes::Bytes;
use espalier_runtime::maybe_yield;
use espalier_storage::{
    FoundPlaces, IndexSearch, IndexTerm, IndexValues, NearestBound, NearestLimits, PartitionRows,
    ReadTarget, VectorLimits, VectorSearchLimits,
};
use espalier_types::similarity::floats;

use super::{
    super::{PlannedSelect, nearest::PlannedNearest},
    Execution, Source, key_components,
    limits::{CHUNK_BYTES, CHUNK_ROWS},
    nearest_rows::NearestRows,
};
use crate::{
    Result,
    current_row::{CurrentRow, RowView},
    restrictions::Partitions,
    term::Evaluation,
};

/// Rows that a search asks for in addition to 1.5 × LIMIT (arbitrary), because entries may be
/// stale, and similarities that the index estimates from codes (vectors of eight bits a component)
/// are not exact.
const SPARE_ROWS: usize = 16;
/// Each repeated search asks for this many times the rows of the search before (arbitrary).
const GROWTH: usize = 4;
/// Maximum number of searches that are repeated because codes are not exact (arbitrary). Unless
/// `max_candidates` allows no larger search, the last one asks for at least 16 times as many rows
/// as the first. If these rows do not suffice, so many rows are almost equally similar that the
/// statement returns any of them.
const MAX_REPEATS: usize = 2;

/// The order of the rows. `vector` is the vector that rows are compared with: its serialised form,
/// and its components.
pub(super) struct NearestOrder<'s> {
    nearest: &'s PlannedNearest,
    vector: (Bytes, Vec<f32>),
}

impl<'s> NearestOrder<'s> {
    /// Returns the order of a statement, if it has one.
    ///
    /// # Errors
    /// As [`PlannedNearest::vector`].
    pub(super) fn of(
        select: &'s PlannedSelect,
        evaluation: &Evaluation<'_>,
    ) -> Result<Option<Self>> {
        let Some(nearest) = &select.nearest else { return Ok(None) };
        Ok(Some(Self { nearest, vector: nearest.vector(evaluation)? }))
    }
}

/// The rows of one pass over the candidates.
struct Pass {
    rows: NearestRows,
    /// The number of rows that were read.
    read: usize,
    /// The bound of the rows that the index has left out; `None` if it has left out none.
    bound: Option<NearestBound>,
}

/// The completeness of the rows of a pass.
enum Found {
    /// No other row is more similar, unless the index underestimates its own error.
    All,
    /// Another row may be more similar, because the index is not exact.
    Likely,
    /// Other rows are likely to be more similar.
    TooFew,
}

impl Pass {
    fn found(&mut self) -> Found {
        let Some(NearestBound { similarity, error }) = self.bound else { return Found::All };
        match self.rows.least_of_full() {
            Some(least) if least >= similarity + error => Found::All,
            Some(least) if least >= similarity - error => Found::Likely,
            _ => Found::TooFew,
        }
    }
}

impl Execution<'_> {
    /// Finds the most similar rows, and encodes them in their order.
    pub(super) async fn read_nearest(
        &mut self,
        source: &Source<'_>,
        order: NearestOrder<'_>,
        partitions: Partitions,
    ) -> Result<()> {
        let names_partitions = matches!(partitions, Partitions::Keys(_));
        let targets: Vec<ReadTarget> = partitions.into_targets();
        let search = self.search.take();
        let others = search.as_ref().map_or_else(Vec::new, |search| search.terms.clone());
        let VectorSearchLimits { index: limits, statement } =
            source.database.store().configuration().vectors;
        let NearestLimits { few_rows, max_candidates } = statement;
        let mut max_rows = if names_partitions { Some(usize::MAX) } else { None };
        if !others.is_empty() {
            max_rows.get_or_insert(few_rows);
        }
        if let Some(max_rows) = max_rows {
            self.search.clone_from(&search);
            let pass = self.pass(source, &order, &targets, max_rows, None).await?;
            if let Some(pass) = pass {
                return self.emit_nearest(pass).await;
            }
        }
        let mut count = self.rows_left + self.rows_left / 2 + SPARE_ROWS;
        let mut repeats = 0;
        while count <= max_candidates {
            let by_index = ByIndex { others: &others, count, limits };
            let pass = self.pass(source, &order, &targets, usize::MAX, Some(by_index)).await?;
            count *= GROWTH;
            let Some(mut pass) = pass else { continue };
            let is_last = repeats == MAX_REPEATS || count > max_candidates;
            match pass.found() {
                Found::All => return self.emit_nearest(pass).await,
                Found::Likely if is_last => return self.emit_nearest(pass).await,
                Found::Likely => repeats += 1,
                Found::TooFew => {}
            }
        }
        self.search = search;
        match self.pass(source, &order, &targets, usize::MAX, None).await? {
            Some(pass) => self.emit_nearest(pass).await,
            None => Ok(()),
        }
    }

    /// Reads the candidates: the rows that `by_index` finds, or all rows that the other conditions
    /// select. Returns `None` if there are more than `max_rows`.
    async fn pass(
        &mut self,
        source: &Source<'_>,
        order: &NearestOrder<'_>,
        targets: &[ReadTarget],
        max_rows: usize,
        by_index: Option<ByIndex<'_>>,
    ) -> Result<Option<Pass>> {
        self.restart_tombstones();
        let rows = NearestRows::new(self.rows_left, self.page.bytes);
        let mut pass = Pass { rows, read: 0, bound: None };
        for target in targets {
            let (mut resume, mut places) = (None, None);
            loop {
                if let Some(by_index) = &by_index {
                    self.search = Some(by_index.search(order, places.take()));
                }
                let mut command = self.command(source, target.clone(), resume.take());
                command.limits.rows = CHUNK_ROWS.min(max_rows.saturating_add(1));
                command.limits.bytes = CHUNK_BYTES;
                let result = source.database.read(command).await?;
                self.count_tombstones(&result, target)?;
                let bounds = pass.bound.into_iter().chain(result.nearest_bound);
                pass.bound = bounds.reduce(NearestBound::with);
                for partition in result.partitions {
                    self.compare(order, partition, &mut pass).await?;
                }
                if pass.read > max_rows {
                    return Ok(None);
                }
                match result.next {
                    Some(next) => (resume, places) = (Some(next), result.nearest_places),
                    None => break,
                }
            }
        }
        Ok(Some(pass))
    }

    /// Compares the rows of a partition with the vector.
    async fn compare(
        &mut self,
        order: &NearestOrder<'_>,
        partition: PartitionRows,
        pass: &mut Pass,
    ) -> Result<()> {
        let (select, NearestOrder { nearest, vector: (_, vector) }) = (self.select, order);
        let PartitionRows { key, static_row, rows } = partition;
        let components = key_components(&select.table, &key)?;
        // A partition with only a static row counts as a row only if the statement does not
        // restrict the clustering.
        self.output.frozen.get_mut().leave_partition();
        let is_alone = rows.is_empty() && select.restrictions.clustering.is_empty();
        for row in rows.into_iter().map(Some).chain(is_alone.then_some(None)) {
            maybe_yield().await;
            pass.read += 1;
            let current = CurrentRow {
                table: &select.table,
                partition_key: &components,
                static_row: static_row.as_ref(),
                row: row.as_ref().map(RowView::Object),
            };
            let value = current.value(&nearest.column);
            let Some(value) = value.map(|value| floats(&value).collect::<Vec<f32>>()) else {
                continue;
            };
            if !self.filters.accepts(&current, self.output.frozen.get_mut()).await? {
                continue;
            }
            if value.len() != vector.len()
                || nearest.similarity.check(value.iter().copied()).is_err()
            {
                continue;
            }
            let similarity = nearest.similarity.of(vector, &value).unwrap_or(f32::NAN);
            let output = &mut self.output;
            if let Some(bytes) = pass.rows.add(similarity, || output.encode_apart(current)) {
                self.page.check_unpaged(bytes)?;
            }
        }
        Ok(())
    }

    async fn emit_nearest(&mut self, pass: Pass) -> Result<()> {
        for row in pass.rows.finish().await {
            self.output.append(&row?);
            maybe_yield().await;
        }
        Ok(())
    }
}

/// A search of the index on the vectors.
struct ByIndex<'a> {
    /// The terms of other indexes.
    others: &'a [IndexTerm],
    /// The number of rows to find.
    count: usize,
    limits: VectorLimits,
}

impl ByIndex<'_> {
    /// Returns the search of the next read. `found` has the places that an earlier read has found
    /// and not read.
    fn search(&self, order: &NearestOrder<'_>, found: Option<FoundPlaces>) -> Arc<IndexSearch> {
        let (count, limits, vector) = (self.count, self.limits, order.vector.0.clone());
        let values = IndexValues::Nearest { vector, count, limits, found };
        let mut terms = vec![IndexTerm { index: order.nearest.index.clone(), values }];
        terms.extend_from_slice(self.others);
        Arc::new(IndexSearch { terms })
    }
}
