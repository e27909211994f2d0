//! Rules of Cassandra 5.0 for the WHERE of a statement with `ORDER BY column ANN OF vector`, and
//! for conditions on columns that have an index on vectors.

use espalier_mutation::schema::{ColumnKind, TableMetadata};
use espalier_types::CqlType;

use super::{
    super::PartitionRestriction,
    SortedRelations,
    index::{IndexChoice, kind_of},
};
use crate::{
    Error, Result,
    grammar::ast::{Name, Relation, RelationTarget, WhereClause},
};

impl IndexChoice<'_> {
    /// Checks that an index or the primary key serves each condition of a statement with `ANN OF`.
    ///
    /// # Errors
    /// The statement would filter.
    pub(super) fn check_nearest(
        &self,
        partition: &PartitionRestriction,
        sorted: &SortedRelations<'_>,
    ) -> Result<()> {
        let refusal = "ANN ordering by vector requires all restricted column(s) to be indexed";
        let (table, clause) = (self.table, self.clause);
        let has_keys = partition.keys().is_some();
        let is_token = matches!(partition, PartitionRestriction::Token(_));
        let is_of = |relation: &Relation<'_>, kind| kind_of(table, relation) == Some(kind);
        let has_partition =
            clause.relations.iter().any(|relation| is_of(relation, ColumnKind::PartitionKey));
        if has_partition && !has_keys && !is_token {
            return Err(Error::invalid(refusal));
        }
        let has_gap = sorted.filters.iter().any(|relation| is_of(relation, ColumnKind::Clustering));
        for relation in &clause.relations {
            let is_served = match kind_of(table, relation) {
                None | Some(ColumnKind::PartitionKey) => true,
                Some(ColumnKind::Clustering) => {
                    ((has_keys || is_token) && !has_gap) || are_indexed(table, relation)
                }
                Some(_) => are_indexed(table, relation),
            };
            if !is_served {
                return Err(Error::invalid(refusal));
            }
        }
        Ok(())
    }
}

/// Returns whether each column of a relation has an index.
fn are_indexed(table: &TableMetadata, relation: &Relation<'_>) -> bool {
    let is_indexed =
        |name: &Name<'_>| table.indexes.iter().any(|index| index.column == name.as_str());
    relation.target.names().iter().all(is_indexed)
}

/// Refuses a condition on an indexed column of vectors, because the index serves only the order.
///
/// # Errors
/// The clause has such a condition.
pub(super) fn refuse_vectors(table: &TableMetadata, clause: &WhereClause<'_>) -> Result<()> {
    let is_refused = |relation: &Relation<'_>| {
        let RelationTarget::Column(name) = &relation.target else { return false };
        let column = table.column(name.as_str()).filter(|column| !column.is_primary_key());
        column.is_some_and(|column| matches!(column.column_type, CqlType::Vector { .. }))
            && are_indexed(table, relation)
    };
    if clause.relations.iter().any(is_refused) {
        return Err(Error::invalid("Vector indexes only support ANN queries"));
    }
    Ok(())
}
