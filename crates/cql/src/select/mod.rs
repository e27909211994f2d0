//! SELECT: planned once, executed page by page.
//!
//! `plan` decides which columns are read and which expressions are computed for each row. `execute`
//! drives storage reads, filters, groups and limits. `nearest` is the order by similarity. `paging`
//! encodes the state that a client sends back for the next page.

mod cell_metadata;
mod execute;
mod expression;
mod flat;
mod group;
mod group_by;
mod hinted;
mod mask;
mod nearest;
mod paging;
mod parts;
mod plan;
mod point;
mod selection;

use std::sync::Arc;

use espalier_mutation::schema::TableMetadata;
use espalier_storage::ColumnSelection;

pub use execute::{execute, key_components};
pub use expression::SelectExpression;
pub use flat::PlannedFlat;
pub use group::put;
pub use group_by::GroupBy;
pub use nearest::PlannedNearest;
pub use plan::plan_select;
pub use point::{PointSelect, read_point, read_point_with_waits, visible_cells};

use crate::{metadata::ResultMetadata, restrictions::Restrictions, term::Term};

/// A planned SELECT.
#[derive(Debug)]
pub struct PlannedSelect {
    /// The table.
    pub table: Arc<TableMetadata>,
    /// The partitions and rows that the statement reads.
    pub restrictions: Restrictions,
    /// The expressions computed for each row (or group), in order of the result columns.
    pub selectors: Vec<SelectExpression>,
    /// The selectors for clients without permission UNMASK, if a selected column has a mask.
    pub masked_selectors: Option<Vec<SelectExpression>>,
    /// The names of the masked columns that WHERE restricts or that order the rows by similarity.
    pub restricted_masks: Vec<String>,
    /// The result columns.
    pub metadata: Arc<ResultMetadata>,
    /// The columns that storage decodes.
    pub columns: ColumnSelection,
    /// `DISTINCT`: one row for each partition.
    pub is_distinct: bool,
    /// True if rows are read against the clustering order.
    pub is_reversed: bool,
    /// The clustering columns by which the rows are sorted: the position, and true if descending.
    /// Empty unless the statement has both IN on the partition key and ORDER BY.
    pub sort: Vec<(usize, bool)>,
    /// `ORDER BY column ANN OF vector`.
    pub nearest: Option<PlannedNearest>,
    /// `GROUP BY`.
    pub group_by: Option<GroupBy>,
    /// True if rows are aggregated, with or without GROUP BY.
    pub is_aggregate: bool,
    /// `LIMIT`.
    pub limit: Option<Term>,
    /// `PER PARTITION LIMIT`.
    pub per_partition_limit: Option<Term>,
    /// `ALLOW FILTERING`.
    pub allows_filtering: bool,
    /// `BYPASS CACHE`: the read skips the row cache, and does not change the page cache.
    pub bypass_cache: bool,
    /// The plan of the point read, if the statement can be answered by one.
    pub point: Option<PointSelect>,
    /// The flat rows that a scan for the statement returns, if they suffice for the answer.
    pub flat: Option<PlannedFlat>,
}

impl PlannedSelect {
    /// Returns the number of columns that the plan names: those of the result or those that it
    /// reads, whichever are more. `SELECT JSON` makes one result column of all that it reads.
    pub fn column_count(&self) -> usize {
        let read = match &self.columns {
            ColumnSelection::All => self.table.columns().len(),
            ColumnSelection::Only(columns) => columns.len(),
        };
        self.selectors.len().max(read)
    }

    /// Returns whether a partition is at most one row of the result: with DISTINCT, and in a
    /// compact table without clustering columns.
    pub(crate) fn shows_partitions(&self) -> bool {
        self.is_distinct || self.table.is_static_compact()
    }

    /// Returns whether each group of GROUP BY is a whole partition.
    pub(crate) fn groups_partitions(&self) -> bool {
        let partition_columns = self.table.partition_key_columns().len();
        self.group_by.as_ref().is_some_and(|group_by| {
            group_by.columns <= partition_columns && group_by.function.is_none()
        })
    }

    /// Returns the selectors for a client with or without permission UNMASK.
    pub(crate) fn selectors(&self, applies_masks: bool) -> &[SelectExpression] {
        let masked = self.masked_selectors.as_deref().filter(|_| applies_masks);
        masked.unwrap_or(&self.selectors)
    }

    /// Returns whether each row read is a row of the result.
    pub(crate) fn is_exact(&self) -> bool {
        self.restrictions.filters.is_empty() && !self.is_aggregate && self.nearest.is_none()
    }
}
