//! Planned `WHERE` clauses: partitions, slices of partitions, and filters for the remaining
//! conditions.
//!
//! A statement is planned once ([`plan`]). Each execution turns bound values into keys
//! ([`PartitionRestriction::partitions`]) and slices ([`Restrictions::slices`]). The number of keys
//! and slices is bounded: the execution refuses a product of INs beyond [`MAX_CARTESIAN_PRODUCT`].

mod bound_filter;
mod clustering;
mod element;
mod exclusion;
mod filter;
mod index;
mod like;
mod partition;
mod plan;
mod point;

pub use bound_filter::BoundFilters;
pub use clustering::{ClusteringRestriction, RangeBound};
pub use element::{cell_at, cells_between, element_in, field_in};
pub use filter::{Filter, FilterOperator, contains, element, holds};
pub use index::IndexPlan;
pub(crate) use index::indexed_type;
pub(crate) use partition::{NamedRows, check_product};
pub use partition::{PartitionRestriction, Partitions, check_key_length};
pub use plan::{NEEDS_FILTERING, Purpose, plan};
pub use point::{PointClustering, PointKey};

use espalier_mutation::{
    Clustering, ClusteringSlices,
    schema::{ColumnDefinition, ColumnKind, TableMetadata},
};

use crate::{
    Result,
    term::{Evaluation, Term},
};

/// Maximum number of keys, and of clustering prefixes, that a statement with INs may name. For a
/// write or a transaction, this is also the maximum of their product. For a batch or a transaction,
/// it is the maximum of all its statements with INs together.
pub const MAX_CARTESIAN_PRODUCT: usize = 65_535;

/// The values of `=` (one) or `IN`.
#[derive(Clone, Debug)]
pub enum Alternatives {
    /// One term for each value.
    Terms(Vec<Term>),
    /// `IN ?`: a list that is bound as a whole.
    List(Term),
}

/// A planned `WHERE`.
#[derive(Clone, Debug)]
pub struct Restrictions {
    /// The partitions.
    pub partition: PartitionRestriction,
    /// The restrictions of a prefix of the clustering columns.
    pub clustering: Vec<ClusteringRestriction>,
    /// The conditions that keys and slices do not cover.
    pub filters: Vec<Filter>,
    /// The secondary indexes that narrow the rows.
    pub index: IndexPlan,
    /// True if Cassandra would read by an index, which excludes ORDER BY.
    pub uses_index: bool,
}

impl Restrictions {
    /// Returns the slices of each partition.
    ///
    /// # Errors
    /// A value is null, unset or malformed, or the INs name more than [`MAX_CARTESIAN_PRODUCT`]
    /// combinations.
    pub fn slices(
        &self,
        table: &TableMetadata,
        evaluation: &Evaluation<'_>,
    ) -> Result<ClusteringSlices> {
        clustering::slices(table, &self.clustering, evaluation)
    }

    /// Returns whether the restrictions name single rows: each clustering column by `=` or `IN`.
    pub fn names_whole_rows(&self, table: &TableMetadata) -> bool {
        let restricted: usize =
            self.clustering.iter().filter_map(ClusteringRestriction::equal_column_count).sum();
        restricted == table.clustering_columns().len()
    }

    /// Returns the rows of `slices`, which are the slices of these restrictions, or `None` if the
    /// restrictions select ranges of rows.
    pub fn single_rows(
        &self,
        table: &TableMetadata,
        slices: &ClusteringSlices,
    ) -> Option<Vec<Clustering>> {
        let rows = slices.slices.iter();
        self.names_whole_rows(table)
            .then(|| rows.map(|slice| Clustering { values: slice.start.values.clone() }).collect())
    }

    /// Returns whether a column of the primary key has an IN.
    pub fn has_in(&self) -> bool {
        self.partition.has_in() || self.clustering_has_in()
    }

    /// Returns whether a partition key column has an IN, also if only a filter tests the column. As
    /// in Cassandra, such a filter does not count beside a range of tokens.
    pub fn partition_key_has_in(&self) -> bool {
        if self.partition.is_all() {
            let is_in = |filter: &Filter| matches!(filter.operator, FilterOperator::In(_));
            return self.partition_filters().any(|filter| is_in(filter) && !filter.is_negated);
        }
        self.partition.has_in()
    }

    /// Returns whether a condition restricts the partition key, also if only a filter tests it.
    pub fn restricts_partition(&self) -> bool {
        !self.partition.is_all() || self.partition_filters().next().is_some()
    }

    /// Returns the filters of partition key columns.
    fn partition_filters(&self) -> impl Iterator<Item = &Filter> {
        self.filters.iter().filter(|filter| filter.column.kind == ColumnKind::PartitionKey)
    }

    /// Returns whether a clustering column has an IN. An IN of one term is the same as `=`.
    pub fn clustering_has_in(&self) -> bool {
        self.clustering.iter().any(|restriction| match restriction {
            ClusteringRestriction::Values(alternatives)
            | ClusteringRestriction::Tuples { alternatives, .. } => alternatives.is_in(),
            ClusteringRestriction::Range { .. } => false,
        })
    }

    /// Returns whether a column of the primary key has one value in all rows, because `=` or an IN
    /// of one value restricts it.
    pub fn is_fixed(&self, column: &ColumnDefinition) -> bool {
        let values = if column.kind == ColumnKind::PartitionKey {
            self.partition.keys().and_then(|keys| keys.get(column.position))
        } else {
            self.clustering_values(column.position)
        };
        match values {
            Some(values) => !values.is_in(),
            None => self.filters.iter().any(|filter| filter.fixes(column)),
        }
    }

    /// Returns the values of the clustering column at `position`, or of the tuples that it belongs
    /// to, if `=` or IN restricts it.
    fn clustering_values(&self, position: usize) -> Option<&Alternatives> {
        let mut end = 0;
        self.clustering.iter().find_map(|restriction| {
            let (columns, values) = match restriction {
                ClusteringRestriction::Values(values) => (1, values),
                ClusteringRestriction::Tuples { columns, alternatives } => (*columns, alternatives),
                // A range is the last restriction.
                ClusteringRestriction::Range { .. } => return None,
            };
            end += columns;
            (position < end).then_some(values)
        })
    }

    /// Evaluates the values of all filters, before rows are read.
    ///
    /// # Errors
    /// As [`BoundFilters::of`].
    pub async fn bind_filters(&self, evaluation: &Evaluation<'_>) -> Result<BoundFilters<'_>> {
        BoundFilters::of(&self.filters, evaluation).await
    }
}
