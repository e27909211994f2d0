//! Executes `ORDER BY column ANN OF vector`.
//!
//! The similarity of a row is computed from the vector that the row has now. So the order is exact
//! for the rows that are read, and stale entries of the index do no harm.
//!
//! 1. The rows of named partitions, and those that other indexes find if they are few, are all
//!    read.
//! 2. Otherwise the index on the vectors names the rows that are most similar, more of them than
//!    LIMIT. The storage says how similar any other row may be, at most.
//! 3. If there are fewer rows above that bound than LIMIT, because filters or deletions left out
//!    some, the search is repeated for [`GROWTH`] times as many.
//! 4. Beyond [`MAX_CANDIDATES`], all rows are read.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::ClusteringSlices;
use espalier_runtime::maybe_yield;
use espalier_storage::{IndexSearch, IndexTerm, IndexValues, Node, PartitionRows, ReadTarget};
use espalier_types::similarity::floats;

use super::{
    super::nearest::PlannedNearest,
    Execution, key_components,
    limits::{CHUNK_BYTES, CHUNK_ROWS},
    nearest_rows::NearestRows,
};
use crate::{
    Result,
    current_row::{CurrentRow, RowView},
    restrictions::Partitions,
};

/// Rows that other indexes find up to which all of them are read (arbitrary).
const FEW_ROWS: usize = 1024;
/// Rows that a search asks for beside LIMIT and half as many again (arbitrary): entries may be
/// stale, and similarities by codes are not exact.
const SPARE_ROWS: usize = 16;
/// The factor by which the next search asks for more rows.
const GROWTH: usize = 4;
/// Maximum rows that a search asks for.
const MAX_CANDIDATES: usize = 16 << 10;

/// The order of the rows: the vector that they are compared with, serialised and its components.
pub(super) struct NearestOrder<'s> {
    pub(super) nearest: &'s PlannedNearest,
    pub(super) vector: (Bytes, Vec<f32>),
}

/// The rows of one pass over the candidates.
struct Pass {
    rows: NearestRows,
    /// The number of rows that were read.
    read: usize,
    /// The greatest similarity that another row may have, as the index knows it.
    bound: Option<f32>,
}

/// The targets that a pass reads, and the time of the read.
struct Candidates {
    targets: Vec<ReadTarget>,
    slices: Arc<ClusteringSlices>,
    now_s: u32,
}

impl Execution<'_> {
    /// Finds the most similar rows, and encodes them in their order.
    pub(super) async fn read_nearest(
        &mut self,
        database: &Node,
        order: NearestOrder<'_>,
        partitions: Partitions,
        slices: Arc<ClusteringSlices>,
        now_s: u32,
    ) -> Result<()> {
        let names_partitions = matches!(partitions, Partitions::Keys(_));
        let candidates = Candidates { targets: partitions.into_targets(), slices, now_s };
        let search = self.search.take();
        let others = search.as_ref().map_or_else(Vec::new, |search| search.terms.clone());
        let mut most = if names_partitions { Some(usize::MAX) } else { None };
        if !others.is_empty() {
            most.get_or_insert(FEW_ROWS);
        }
        if let Some(most) = most {
            self.search.clone_from(&search);
            let pass = self.pass(database, &order, &candidates, most).await?;
            if let Some(pass) = pass {
                return self.emit_nearest(pass);
            }
        }
        let limits = database.store().configuration().vector_limits;
        let mut count = self.rows_left + self.rows_left / 2 + SPARE_ROWS;
        while count <= MAX_CANDIDATES {
            let values = IndexValues::Nearest { vector: order.vector.0.clone(), count, limits };
            let mut terms = vec![IndexTerm { index: order.nearest.index.clone(), values }];
            terms.extend(others.iter().cloned());
            self.search = Some(Arc::new(IndexSearch { terms }));
            let pass = self.pass(database, &order, &candidates, usize::MAX).await?;
            if let Some(mut pass) = pass
                && pass.bound.is_none_or(|bound| {
                    pass.rows.least_of_full().is_some_and(|least| least >= bound)
                })
            {
                return self.emit_nearest(pass);
            }
            count *= GROWTH;
        }
        self.search = search;
        match self.pass(database, &order, &candidates, usize::MAX).await? {
            Some(pass) => self.emit_nearest(pass),
            None => Ok(()),
        }
    }

    /// Reads the candidates. Returns `None` if there are more than `most`.
    async fn pass(
        &mut self,
        database: &Node,
        order: &NearestOrder<'_>,
        candidates: &Candidates,
        most: usize,
    ) -> Result<Option<Pass>> {
        self.restart_tombstones();
        let rows = NearestRows::new(self.rows_left, self.page.bytes);
        let mut pass = Pass { rows, read: 0, bound: None };
        for target in &candidates.targets {
            let mut resume = None;
            loop {
                let slices = candidates.slices.clone();
                let mut command =
                    self.command(target.clone(), slices, resume.take(), candidates.now_s);
                command.limits.rows = CHUNK_ROWS.min(most.saturating_add(1));
                command.limits.bytes = CHUNK_BYTES;
                let result = database.read(command).await?;
                self.count_tombstones(&result, target)?;
                let bounds = pass.bound.into_iter().chain(result.nearest_bound);
                pass.bound = bounds.reduce(f32::max);
                for partition in result.partitions {
                    self.compare(order, partition, &mut pass).await?;
                }
                if pass.read > most {
                    return Ok(None);
                }
                match result.next {
                    Some(next) => resume = Some(next),
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
            if !select.restrictions.accepts(&current, self.evaluation)? {
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

    fn emit_nearest(&mut self, pass: Pass) -> Result<()> {
        pass.rows.finish().try_for_each(|row| row.map(|row| self.output.append(&row)))
    }
}
