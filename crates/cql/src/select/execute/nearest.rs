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

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{ClusteringSlices, Row};
use espalier_runtime::maybe_yield;
use espalier_storage::{IndexSearch, IndexTerm, IndexValues, Node, PartitionRows, ReadTarget, Top};
use espalier_types::similarity::floats;

use super::{
    super::nearest::PlannedNearest,
    Execution, key_components,
    limits::{CHUNK_BYTES, CHUNK_ROWS},
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

/// A row that may be in the result.
struct FoundRow {
    /// The number of the row among those that were read, which decides between equal ones.
    number: usize,
    partition: Rc<Partition>,
    row: Option<Row>,
}

struct Partition {
    components: Vec<Bytes>,
    static_row: Option<Row>,
}

/// The rows of one pass over the candidates.
struct Pass {
    top: Top<FoundRow>,
    rows: usize,
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
        nearest: &PlannedNearest,
        partitions: Partitions,
        slices: Arc<ClusteringSlices>,
        now_s: u32,
    ) -> Result<()> {
        let (bytes, vector) = nearest.vector(self.evaluation)?;
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
            let pass = self.pass(database, nearest, &vector, &candidates, most).await?;
            if let Some(pass) = pass {
                return self.emit_nearest(pass);
            }
        }
        let limits = database.store().configuration().vector_limits;
        let mut count = self.rows_left + self.rows_left / 2 + SPARE_ROWS;
        while count <= MAX_CANDIDATES {
            let values = IndexValues::Nearest { vector: bytes.clone(), count, limits };
            let mut terms = vec![IndexTerm { index: nearest.index.clone(), values }];
            terms.extend(others.iter().cloned());
            self.search = Some(Arc::new(IndexSearch { terms }));
            let pass = self.pass(database, nearest, &vector, &candidates, usize::MAX).await?;
            if let Some(mut pass) = pass
                && pass.bound.is_none_or(|bound| {
                    pass.top.least_of_full().is_some_and(|least| least >= bound)
                })
            {
                return self.emit_nearest(pass);
            }
            count *= GROWTH;
        }
        self.search = search;
        match self.pass(database, nearest, &vector, &candidates, usize::MAX).await? {
            Some(pass) => self.emit_nearest(pass),
            None => Ok(()),
        }
    }

    /// Reads the candidates. Returns `None` if there are more than `most`.
    async fn pass(
        &mut self,
        database: &Node,
        nearest: &PlannedNearest,
        vector: &[f32],
        candidates: &Candidates,
        most: usize,
    ) -> Result<Option<Pass>> {
        let mut pass = Pass { top: Top::new(self.rows_left), rows: 0, bound: None };
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
                    self.compare(nearest, vector, partition, &mut pass).await?;
                }
                if pass.rows > most {
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
        &self,
        nearest: &PlannedNearest,
        vector: &[f32],
        partition: PartitionRows,
        pass: &mut Pass,
    ) -> Result<()> {
        let select = self.select;
        let PartitionRows { key, static_row, rows } = partition;
        let components = key_components(&select.table, &key)?;
        let shared = Rc::new(Partition { components, static_row });
        // A partition with only a static row counts as a row only if the statement does not
        // restrict the clustering.
        let is_alone = rows.is_empty() && select.restrictions.clustering.is_empty();
        for row in rows.into_iter().map(Some).chain(is_alone.then_some(None)) {
            maybe_yield().await;
            pass.rows += 1;
            let current = shared.row(&select.table, row.as_ref());
            let Some(value) = current.value(&nearest.column) else { continue };
            if !select.restrictions.accepts(&current, self.evaluation)? {
                continue;
            }
            let value: Vec<f32> = floats(&value).collect();
            if value.len() != vector.len()
                || nearest.similarity.check(value.iter().copied()).is_err()
            {
                continue;
            }
            let similarity = nearest.similarity.of(vector, &value).unwrap_or(f32::NAN);
            let found = FoundRow { number: pass.rows, partition: shared.clone(), row };
            pass.top.push(similarity, found);
        }
        Ok(())
    }

    fn emit_nearest(&mut self, pass: Pass) -> Result<()> {
        let (found, _) = pass.top.finish(|left, right| left.number.cmp(&right.number));
        for (_, found) in found {
            let current = found.partition.row(&self.select.table, found.row.as_ref());
            self.output.emit(current)?;
            self.page_is_full()?;
        }
        Ok(())
    }
}

impl Partition {
    fn row<'a>(
        &'a self,
        table: &'a espalier_mutation::schema::TableMetadata,
        row: Option<&'a Row>,
    ) -> CurrentRow<'a> {
        let static_row = self.static_row.as_ref();
        let row = row.map(RowView::Object);
        CurrentRow { table, partition_key: &self.components, static_row, row }
    }
}
