//! `ORDER BY column ANN OF vector`: the rows in the order of their similarity to a vector. The
//! messages and the order of the checks are Cassandra's.

use espalier_mutation::schema::{ColumnDefinition, TableMetadata};
use espalier_storage::guardrails::CONSISTENCY_LEVELS;
use espalier_types::{CqlType, Similarity, similarity::floats};

use super::PlannedSelect;
use crate::{
    Error, Result, consistency,
    grammar::ast::{ComparisonOperator as Operator, Predicate, Relation, RelationTarget, Select},
    guard::Guard,
    options::QueryOptions,
    term::{Bound, Evaluation, Preparation, Term, prepare_term},
};

/// Maximum LIMIT, as in Cassandra.
const MAX_ROWS: usize = 1000;

/// The protocol's codes of consistency levels.
const ONE: u16 = 0x01;
const LOCAL_QUORUM: u16 = 0x06;
const LOCAL_ONE: u16 = 0x0A;
const NODE_LOCAL: u16 = 0x0B;

/// The order of a SELECT by similarity.
#[derive(Debug)]
pub struct PlannedNearest {
    /// The column of vectors.
    pub column: ColumnDefinition,
    /// The vector that rows are compared with.
    pub vector: Term,
    /// The index on the column.
    pub index: String,
    /// The measure of the index.
    pub similarity: Similarity,
}

/// Plans `ANN OF` in ORDER BY. Returns `None` if ORDER BY has no `ANN OF`. The caller plans WHERE
/// later, because Cassandra checks ORDER BY first.
pub(super) fn plan_nearest(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    statement: &Select<'_>,
) -> Result<Option<PlannedNearest>> {
    let mut found = Vec::new();
    for ordering in &statement.order_by {
        let Some(vector) = &ordering.nearest_to else { continue };
        let column = preparation.column(table, &ordering.column)?;
        let receiver = preparation.receiver(&column.name, &column.column_type);
        found.push((column.clone(), prepare_term(preparation, vector, &receiver)?, ordering));
    }
    if found.len() > 1 {
        return Err(Error::invalid("Cannot specify more than one ANN ordering"));
    }
    let Some((column, vector, ordering)) = found.pop() else { return Ok(None) };
    if statement.order_by.len() > 1 {
        return Err(Error::invalid("ANN ordering does not support any other ordering"));
    }
    if ordering.descending {
        return Err(Error::invalid("Descending ANN ordering is not supported"));
    }
    check_restricted(&column, statement)?;
    let is_float_vector = matches!(&column.column_type, CqlType::Vector { element, .. } if **element == CqlType::Float);
    if !is_float_vector {
        return Err(Error::invalid("ANN ordering is only supported on float vector indexes"));
    }
    let mut indexes = table.indexes.iter().filter(|index| index.column == column.name);
    let found = indexes.find_map(|index| Some((index, index.vector_options(table)?)));
    let Some((index, options)) = found else {
        return Err(Error::invalid("ANN ordering by vector requires the column to be indexed"));
    };
    let (index, similarity) = (index.name.clone(), options.similarity);
    Ok(Some(PlannedNearest { column, vector, index, similarity }))
}

/// Refuses a condition on the column that orders the rows.
fn check_restricted(column: &ColumnDefinition, statement: &Select<'_>) -> Result<()> {
    let name = &column.name;
    let is_on = |relation: &&Relation<'_>| matches!(&relation.target, RelationTarget::Column(other) if other.as_str() == name);
    let Some(relation) = statement.where_clause.relations.iter().find(is_on) else { return Ok(()) };
    Err(Error::invalid(match relation.predicate {
        Predicate::Compare(Operator::Equal, _) => {
            format!("{name} cannot be restricted by more than one relation if it includes an Equal")
        }
        Predicate::In(_) => {
            format!("{name} cannot be restricted by more than one relation if it includes a IN")
        }
        Predicate::Compare(..) | Predicate::Between(..) => {
            format!(
                "Column \"{name}\" cannot be restricted by both an equality and an inequality relation"
            )
        }
        _ => format!("{name} cannot be restricted by more than one relation in an ANN ordering"),
    }))
}

impl PlannedNearest {
    /// Returns the serialised vector, and its components.
    ///
    /// # Errors
    /// The vector is null or unset, cannot be evaluated, or cannot be compared by the measure of
    /// the index.
    pub(super) fn vector(&self, evaluation: &Evaluation<'_>) -> Result<(bytes::Bytes, Vec<f32>)> {
        let name = &self.column.name;
        let bytes = match self.vector.evaluate(evaluation)? {
            Bound::Value(bytes) => bytes,
            Bound::Null => {
                return Err(Error::invalid(format!("Unsupported null value for column {name}")));
            }
            Bound::Unset => {
                return Err(Error::invalid(format!("Unsupported unset value for column {name}")));
            }
        };
        self.similarity.check(floats(&bytes)).map_err(Error::invalid)?;
        let vector = floats(&bytes).collect();
        Ok((bytes, vector))
    }

    /// Checks an execution and its LIMIT, and warns about a consistency level and a page size that
    /// the node ignores.
    ///
    /// # Errors
    /// The statement aggregates, has no LIMIT or a LIMIT above 1,000, or has PER PARTITION LIMIT,
    /// or the consistency level is SERIAL or LOCAL_SERIAL.
    pub(super) fn check(
        &self,
        select: &PlannedSelect,
        options: &QueryOptions<'_>,
        (limit, per_partition_limit): (usize, usize),
        guard: Guard<'_>,
    ) -> Result<()> {
        if select.is_aggregate {
            return Err(Error::invalid("Top-K queries can not be run with aggregation"));
        }
        let level = options.consistency;
        let name = |code: u16| CONSISTENCY_LEVELS.get(usize::from(code)).copied().unwrap_or("?");
        if consistency::is_serial(level) {
            return Err(Error::invalid(format!(
                "Top-K queries can only be run with consistency level ONE/LOCAL_ONE. Consistency level {} was used.",
                name(level)
            )));
        }
        if ![ONE, LOCAL_ONE, NODE_LOCAL].contains(&level) {
            let other = if level == LOCAL_QUORUM { LOCAL_ONE } else { ONE };
            guard.warn(format!(
                "Top-K queries can only be run with consistency level ONE / LOCAL_ONE / NODE_LOCAL. Consistency level {} was requested. Downgrading the consistency level to {}.",
                name(level),
                name(other)
            ));
        }
        if limit == usize::MAX && per_partition_limit == usize::MAX {
            return Err(Error::invalid(
                "Top-K queries must have a limit specified and the limit must be less than the query page size",
            ));
        }
        if per_partition_limit != usize::MAX {
            return Err(Error::invalid("Top-K queries do not support per-partition limits"));
        }
        let page = options.page_size.and_then(|size| usize::try_from(size).ok());
        if let Some(page) = page.filter(|page| *page > 0 && *page < limit) {
            guard.warn(format!(
                "Top-K queries do not support paging and the page size is set to {page}, which is less than LIMIT {limit}. The page size has been set to {limit} to match the LIMIT."
            ));
        }
        if limit > MAX_ROWS {
            return Err(Error::invalid(format!(
                "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than {MAX_ROWS}. LIMIT was {limit}"
            )));
        }
        Ok(())
    }
}
