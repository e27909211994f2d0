//! Reads the rows that a request needs.

use std::sync::Arc;

use espalier_mutation::{
    Clustering, ClusteringSlice, ClusteringSlices, Row, schema::TableMetadata,
};
use espalier_storage::{Node, ReadCommand, ReadLimits, ReadTarget};

use super::plan::TurnPlan;
use crate::{Result, read_budget::ReadBudget};

/// Maximum rows of one read of [`ReadRows::find_marked_row`] (arbitrary).
const ROWS_AT_ONCE: usize = 128;
/// Maximum bytes of one read of [`ReadRows::find_marked_row`] (arbitrary).
const BYTES_AT_ONCE: usize = 4 << 20;

/// The rows that a request has read.
pub struct ReadRows {
    /// The static row with the columns that the request may see; `None` if none of them has a
    /// value.
    pub static_row: Option<Row>,
    /// The static row with all columns, for operations that read it.
    whole_static_row: Option<Row>,
    /// The first row of the partition, if the request reads the static row and has no conditions on
    /// rows. The answer shows this row.
    pub first_row: Option<Row>,
    /// The rows with conditions or operations, in clustering order.
    rows: Vec<Row>,
    /// Counts the bytes of the rows until they are freed.
    budget: ReadBudget,
}

impl ReadRows {
    /// Reads the rows that the conditions test and that operations read.
    ///
    /// # Errors
    /// The rows are too large, or the storage fails.
    pub async fn read(database: &Node, plan: &TurnPlan<'_>) -> Result<Self> {
        let mut rows = Self {
            static_row: None,
            whole_static_row: None,
            first_row: None,
            rows: Vec::new(),
            budget: ReadBudget::new(),
        };
        let named = plan.conditions.iter().map(|(clustering, _)| Some(clustering));
        let named: Vec<_> = named.chain(plan.rows_of_operations()).collect();
        let slices: Vec<_> = named
            .iter()
            .flatten()
            .map(|clustering| ClusteringSlice::prefix(clustering.values.clone()))
            .collect();
        let reads_static = named.contains(&None)
            || plan.static_conditions.is_some()
            || plan.table.static_columns().iter().any(|column| plan.shows_static(column));
        if reads_static {
            rows.read_static(database, plan).await?;
        }
        if !slices.is_empty() {
            let slices = ClusteringSlices::normalise(slices, plan.table.comparator());
            let command = ReadCommand { slices: Arc::new(slices), ..command(plan) };
            let found = rows.budget.read(database, command).await?;
            rows.rows = found.into_iter().flat_map(|found| found.rows).collect();
        }
        Ok(rows)
    }

    async fn read_static(&mut self, database: &Node, plan: &TurnPlan<'_>) -> Result<()> {
        let limits = ReadLimits { rows: 1, ..ReadLimits::NONE };
        let command = ReadCommand { limits, ..command(plan) };
        let found = self.budget.read(database, command).await?.into_iter().next();
        if let Some(found) = found {
            self.whole_static_row = found.static_row;
            self.static_row = self.whole_static_row.clone().map(|mut row| {
                let shown = |id| plan.table.column_by_id(id).is_some_and(|c| plan.shows_static(c));
                row.columns.retain(|(id, _)| shown(*id));
                row
            });
            self.static_row = self.static_row.take().filter(|row| !row.columns.is_empty());
            if plan.conditions.is_empty() {
                self.first_row = found.rows.into_iter().next();
            }
        }
        Ok(())
    }

    /// If the request names no row, replaces the first row by the first row with a liveness, which
    /// INSERT writes. Cassandra reads no regular column for such a request, so it finds no row
    /// without a liveness.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn find_marked_row(&mut self, database: &Node, plan: &TurnPlan<'_>) -> Result<()> {
        let is_marked = |row: &Row| row.liveness.is_live(plan.now_s);
        if plan.names_rows || self.first_row.as_ref().is_none_or(is_marked) {
            return Ok(());
        }
        self.first_row = None;
        let limits = ReadLimits { rows: ROWS_AT_ONCE, bytes: BYTES_AT_ONCE, ..ReadLimits::NONE };
        let mut command = ReadCommand { limits, ..command(plan) };
        loop {
            let found = database.read(command.clone()).await?;
            let mut rows = found.partitions.into_iter().flat_map(|found| found.rows);
            self.first_row = rows.find(is_marked);
            let Some(next) = found.next.filter(|_| self.first_row.is_none()) else {
                return Ok(());
            };
            command.resume = Some(next);
        }
    }

    /// Returns the row with a clustering.
    pub fn find(&self, table: &TableMetadata, clustering: &Clustering) -> Option<&Row> {
        let (comparator, at) = (table.comparator(), clustering.position());
        let compare = |row: &Row| comparator.compare(row.clustering.position(), at);
        self.rows.binary_search_by(compare).ok().and_then(|index| self.rows.get(index))
    }

    /// Returns a row for operations that read it. Without a clustering, this is the static row.
    pub fn row(&self, table: &TableMetadata, clustering: Option<&Clustering>) -> Option<Row> {
        match clustering {
            None => self.whole_static_row.clone(),
            Some(clustering) => self.find(table, clustering).cloned(),
        }
    }
}

fn command(plan: &TurnPlan<'_>) -> ReadCommand {
    let target = ReadTarget::Partition(plan.key.clone());
    ReadCommand::of_all(plan.table.clone(), target, plan.now_s)
}
