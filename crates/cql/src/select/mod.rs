//! SELECT: planned once, executed page by page.
//!
//! `plan` decides what is read and what is computed of each row; `execute` drives storage reads, filters, groups and limits;
//! `paging` is the state that a client hands back for the next page.

mod execute;
mod expression;
mod group;
mod paging;
mod plan;
mod point;
mod selection;

use std::sync::Arc;

use espalier_mutation::schema::TableMetadata;
use espalier_storage::ColumnSelection;

pub use execute::execute;
pub use expression::SelectExpression;
pub use plan::plan_select;
pub use point::{PointSelect, execute_point, execute_point_with_waits};

use crate::{metadata::ResultMetadata, restrictions::Restrictions, term::Term};

/// A planned SELECT.
#[derive(Debug)]
pub struct PlannedSelect {
    /// The table.
    pub table: Arc<TableMetadata>,
    /// Which partitions and rows.
    pub restrictions: Restrictions,
    /// What is computed of each row (or group), in order of the result columns.
    pub selectors: Vec<SelectExpression>,
    /// The result columns.
    pub metadata: Arc<ResultMetadata>,
    /// What storage must decode.
    pub columns: ColumnSelection,
    /// One row for each partition.
    pub is_distinct: bool,
    /// Against the clustering order.
    pub is_reversed: bool,
    /// With IN on the partition key and ORDER BY: rows are sorted by these clustering columns (position, descending).
    pub sort: Vec<(usize, bool)>,
    /// `GROUP BY`: how many leading primary key columns make a group; `None` without GROUP BY.
    pub group_by: Option<usize>,
    /// Whether rows are aggregated (with GROUP BY or not).
    pub is_aggregate: bool,
    /// `LIMIT`.
    pub limit: Option<Term>,
    /// `PER PARTITION LIMIT`.
    pub per_partition_limit: Option<Term>,
    /// `BYPASS CACHE`: caches are left as they are.
    pub bypass_cache: bool,
    /// How to answer it as a point read, if it is one.
    pub point: Option<PointSelect>,
}

impl PlannedSelect {
    /// Whether each row that is read is a row of the result.
    pub(crate) fn is_exact(&self) -> bool {
        self.restrictions.filters.is_empty() && !self.is_aggregate
    }
}
