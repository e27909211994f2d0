//! The rows that a modification changes, evaluated once for each execution, and their content for
//! operations that read before they write.
//!
//! `uuid()` in a key has another value at each evaluation, so an execution must not evaluate its
//! keys twice.

use std::sync::Arc;

use espalier_mutation::{Clustering, ClusteringSlices, DecoratedKey, Row, schema::TableMetadata};
use espalier_storage::{Node, PartitionRows, ReadCommand, ReadLimits, ReadTarget};
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::PlannedModification;
use crate::{
    Error, Result,
    functions::json::DocumentScope,
    read_budget::ReadBudget,
    restrictions::{Partitions, check_product},
    term::Evaluation,
};

/// The partitions and rows of one execution of a modification.
#[derive(Clone, Debug)]
pub struct WrittenRows {
    /// The partitions.
    pub keys: Vec<DecoratedKey>,
    /// The rows of each partition.
    pub slices: Arc<ClusteringSlices>,
}

impl PlannedModification {
    /// Evaluates the keys of an execution.
    ///
    /// # Errors
    /// A key or a clustering value is null, unset, malformed or too long, or the INs name more than
    /// [`MAX_CARTESIAN_PRODUCT`](crate::restrictions::MAX_CARTESIAN_PRODUCT) rows.
    pub fn written_rows(&self, evaluation: &Evaluation<'_>) -> Result<WrittenRows> {
        let _document = DocumentScope;
        self.written_rows_in_document(evaluation)
    }

    /// Evaluates the keys as [`Self::written_rows`] does, but keeps a parsed JSON document for the
    /// caller. The caller ends the scope of the document.
    pub(super) fn written_rows_in_document(
        &self,
        evaluation: &Evaluation<'_>,
    ) -> Result<WrittenRows> {
        let Partitions::Keys(keys) =
            self.restrictions.partition.partitions(&self.table, evaluation)?
        else {
            return Err(Error::invalid("Some partition key parts are missing"));
        };
        let slices = self.named_slices(evaluation)?;
        // Keys and slices have a limit each, but an execution builds a row for each pair of them.
        check_product(keys.len(), slices.slices.len())?;
        Ok(WrittenRows { keys, slices: Arc::new(slices) })
    }

    /// Evaluates the rows of an execution, without the partitions.
    ///
    /// # Errors
    /// A clustering value is null, unset, malformed or too long.
    pub fn slices(&self, evaluation: &Evaluation<'_>) -> Result<Arc<ClusteringSlices>> {
        let _document = DocumentScope;
        self.named_slices(evaluation).map(Arc::new)
    }

    /// Returns a read for each partition that an execution writes. The reads cover the rows of
    /// `written`, and find their newest timestamp.
    pub fn timestamp_reads(
        &self,
        written: &WrittenRows,
        now_s: u32,
    ) -> impl Iterator<Item = ReadCommand> {
        let rows = if self.is_static_alone() { 0 } else { usize::MAX };
        written.keys.iter().map(move |key| {
            let target = ReadTarget::Partition(key.clone());
            let limits = ReadLimits { rows, ..ReadLimits::NONE };
            let all = ReadCommand::of_all(self.table.clone(), target, now_s);
            ReadCommand { slices: written.slices.clone(), limits, ..all }
        })
    }

    /// Returns whether an operation on a column of this kind reads the stored row.
    pub(super) fn reads(&self, is_static: bool) -> bool {
        let mut operations = self.operations.iter();
        operations.any(|operation| operation.is_static() == is_static && operation.needs_read())
    }
}

/// The stored rows that operations on lists, numbers and strings depend on.
#[derive(Debug)]
pub struct StoredRows {
    table: Arc<TableMetadata>,
    /// The results of the reads of each partition, by its key.
    partitions: HashMap<DecoratedKey, SmallVec<[PartitionRows; 1]>>,
}

impl StoredRows {
    /// Reads the rows that the operations of a statement need. Most statements need no row.
    ///
    /// # Errors
    /// The rows exceed `budget`, or the storage fails.
    pub async fn read(
        database: &Node,
        statement: &PlannedModification,
        written: &WrittenRows,
        now_s: u32,
        budget: &mut ReadBudget,
    ) -> Result<Self> {
        if !statement.needs_read() {
            return Ok(Self { table: statement.table.clone(), partitions: HashMap::new() });
        }
        // In a box: nearly all statements read nothing, and their futures would reserve space for
        // the read.
        Box::pin(Self::read_all(database, statement, written, now_s, budget)).await
    }

    async fn read_all(
        database: &Node,
        statement: &PlannedModification,
        written: &WrittenRows,
        now_s: u32,
        budget: &mut ReadBudget,
    ) -> Result<Self> {
        let table = &statement.table;
        let mut stored = Self { table: table.clone(), partitions: HashMap::new() };
        for key in &written.keys {
            let target = ReadTarget::Partition(key.clone());
            let all = ReadCommand::of_all(table.clone(), target, now_s);
            let mut commands = Vec::with_capacity(2);
            if statement.reads(true) {
                // A read of slices returns the static row only if it also returns a row.
                let limits = ReadLimits { rows: 1, ..ReadLimits::NONE };
                commands.push(ReadCommand { limits, ..all.clone() });
            }
            if statement.reads(false) {
                commands.push(ReadCommand { slices: written.slices.clone(), ..all });
            }
            for command in commands {
                for found in budget.read(database, command).await? {
                    stored.partitions.entry(found.key.clone()).or_default().push(found);
                }
            }
        }
        Ok(stored)
    }

    /// Returns a row; without a clustering, the static row.
    pub fn find(&self, key: &DecoratedKey, clustering: Option<&Clustering>) -> Option<Row> {
        let comparator = self.table.comparator();
        let mut partitions = self.partitions.get(key)?.iter();
        match clustering {
            None => partitions.find_map(|found| found.static_row.clone()),
            Some(clustering) => partitions.find_map(|found| {
                let compare = |row: &Row| {
                    comparator.compare(row.clustering.position(), clustering.position())
                };
                found.rows.binary_search_by(compare).ok().and_then(|at| found.rows.get(at)).cloned()
            }),
        }
    }
}
