//! The error for a `WHERE` that cannot be planned, as Cassandra finds it.
//!
//! Cassandra checks the relations in their order, each by itself and then together with the
//! relations before it. After that, it checks the restrictions of the partition key, of the
//! clustering and of other columns. This module repeats these checks, but only if the plan has
//! failed: a usable statement does not pay for them.

use std::sync::Arc;

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_types::CqlType;

use super::{
    NEEDS_FILTERING, ONLY_STATIC, Purpose, TupleRelation, alternatives,
    clustering::{TupleTarget, tuple_columns},
    conflict::{Kind, Restriction},
    filter::{check_element, part_receiver},
    index::is_served,
    nearest::refuse_vectors,
    partition::check_token,
};
use crate::{
    Error, Result,
    grammar::ast::{
        ComparisonOperator as Operator, Expression, InValues, Predicate, Relation, RelationTarget,
        WhereClause,
    },
    term::{Preparation, prepare_term},
};

/// Returns the first error that Cassandra finds, if it refuses the clause at all.
pub(super) fn first_refusal(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    clause: &WhereClause<'_>,
    purpose: Purpose,
) -> Option<Error> {
    let is_served = |relation| is_served(table, relation);
    let has_index =
        purpose.is_nearest() || (purpose.is_select() && clause.relations.iter().any(is_served));
    let mut check =
        Check { preparation, table, clause, purpose, has_index, restrictions: Vec::new() };
    clause
        .relations
        .iter()
        .try_for_each(|relation| check.relation(relation))
        .and_then(|()| check.partition())
        .and_then(|()| check.clustering())
        .and_then(|()| check.other_columns())
        .err()
}

struct Check<'c, 'a> {
    preparation: &'c mut Preparation<'a>,
    table: &'c TableMetadata,
    clause: &'c WhereClause<'c>,
    purpose: Purpose,
    /// True if an index serves any relation of a SELECT, or its order.
    has_index: bool,
    /// The restrictions by the relations so far.
    restrictions: Vec<Restriction<'c>>,
}

impl<'c> Check<'c, '_> {
    fn relation(&mut self, relation: &Relation<'_>) -> Result<()> {
        let refuse = |this: &Self, message: String| {
            Err(this.preparation.invalid(relation.position, message))
        };
        if let Purpose::Modify { statement, .. } = self.purpose {
            match relation.predicate {
                Predicate::Contains(_) => {
                    return refuse(self, format!("Cannot use {statement} with CONTAINS"));
                }
                Predicate::ContainsKey(_) => {
                    return refuse(self, format!("Cannot use {statement} with CONTAINS KEY"));
                }
                Predicate::NotContains(_) | Predicate::NotContainsKey(_) => {
                    let operator = relation.predicate.operator();
                    return refuse(self, format!("Cannot use {statement} with {operator}"));
                }
                _ => {}
            }
        }
        match relation.predicate {
            Predicate::IsNotNull => {
                return refuse(self, format!("Unsupported restriction: {relation}"));
            }
            Predicate::Compare(Operator::NotEqual, _) => {
                return refuse(self, format!("Unsupported \"!=\" relation: {relation}"));
            }
            _ => {}
        }
        let columns = self.columns(relation)?;
        if let Predicate::Like(_) = relation.predicate
            && !(self.purpose.is_select() && is_served(self.table, relation))
        {
            return refuse(self, not_indexed(relation));
        }
        let found = Restriction::new(relation, columns);
        for earlier in &mut self.restrictions {
            if let Some(message) = earlier.conflict(&found) {
                return Err(self.preparation.invalid(relation.position, message));
            }
            if earlier.absorbs(&found) {
                return Ok(());
            }
        }
        if !is_served(self.table, relation) {
            self.behind_a_slice(&found)?;
        }
        self.restrictions.push(found);
        Ok(())
    }

    /// Checks a relation by itself and returns the columns that it restricts.
    fn columns(&mut self, relation: &Relation<'_>) -> Result<Vec<&'c ColumnDefinition>> {
        match &relation.target {
            RelationTarget::Column(name) => {
                let column = self.preparation.column(self.table, name)?;
                super::check_operator(self.preparation, relation, column)?;
                self.values(relation, column)?;
                Ok(vec![column])
            }
            RelationTarget::Element(name, key) => {
                let column = self.preparation.column(self.table, name)?;
                let (key_type, value_type) =
                    check_element(self.preparation, relation, column, name)?;
                let receiver = part_receiver(self.preparation, column, "key", key_type);
                prepare_term(self.preparation, key, &receiver)?;
                if let Predicate::Compare(_, value) = &relation.predicate {
                    let receiver = part_receiver(self.preparation, column, "value", value_type);
                    prepare_term(self.preparation, value, &receiver)?;
                }
                Ok(vec![column])
            }
            RelationTarget::Columns(names) => {
                let start = tuple_columns(self.preparation, self.table, names, relation)?;
                let tuple = TupleRelation { relation, start, count: names.len() };
                TupleTarget::new(self.preparation, self.table, &tuple)
                    .check(self.preparation, relation)?;
                Ok(self.table.clustering_columns()[start..start + names.len()].iter().collect())
            }
            RelationTarget::Token(names) => {
                check_token(self.preparation, self.table, names, relation)?;
                let receiver = self.preparation.receiver("partition key token", &CqlType::Bigint);
                if let Predicate::Compare(_, value) = &relation.predicate {
                    prepare_term(self.preparation, value, &receiver)?;
                }
                Ok(self.table.partition_key_columns().iter().collect())
            }
            RelationTarget::Field(name, _) => Ok(vec![self.preparation.column(self.table, name)?]),
        }
    }

    /// Prepares the right side of a relation of one column.
    fn values(&mut self, relation: &Relation<'_>, column: &ColumnDefinition) -> Result<()> {
        let whole = self.preparation.receiver(&column.name, &column.column_type);
        let one = |preparation: &mut Preparation<'_>, value: &Expression<'_>| {
            prepare_term(preparation, value, &whole).map(|_| ())
        };
        match &relation.predicate {
            Predicate::Compare(_, value) | Predicate::Like(value) => one(self.preparation, value),
            Predicate::Between(low, high) => {
                one(self.preparation, low)?;
                one(self.preparation, high)
            }
            Predicate::In(_) | Predicate::NotIn(_) => {
                alternatives(self.preparation, column, relation).map(|_| ())
            }
            Predicate::Contains(value)
            | Predicate::ContainsKey(value)
            | Predicate::NotContains(value)
            | Predicate::NotContainsKey(value) => {
                let is_key = matches!(
                    relation.predicate,
                    Predicate::ContainsKey(_) | Predicate::NotContainsKey(_)
                );
                let (label, part) = match &column.column_type {
                    CqlType::Map { key, .. } if is_key => ("key", key),
                    CqlType::Map { value, .. } => ("value", value),
                    CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                        ("value", element)
                    }
                    _ => return Ok(()),
                };
                let receiver = part_receiver(self.preparation, column, label, part);
                prepare_term(self.preparation, value, &receiver).map(|_| ())
            }
            Predicate::IsNotNull => Ok(()),
        }
    }

    /// Refuses a range of a clustering column if a later clustering column is restricted.
    fn behind_a_slice(&self, found: &Restriction<'_>) -> Result<()> {
        let clustering = |restriction: &&Restriction<'_>| restriction.kind_of_columns().is_some();
        let position = |restriction: &Restriction<'_>| restriction.columns[0].position;
        let Some(last) =
            self.restrictions.iter().filter(clustering).max_by_key(|other| position(other))
        else {
            return Ok(());
        };
        if self.may_filter() || found.kind_of_columns().is_none() {
            return Ok(());
        }
        if last.kind.is_slice() && position(found) > position(last) {
            return Err(Error::invalid(format!(
                "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
                found.columns[0].name, last.columns[0].name
            )));
        }
        if found.kind.is_slice() && position(found) < position(last) {
            let next = self
                .restrictions
                .iter()
                .filter(clustering)
                .filter(|other| position(other) > position(found))
                .min_by_key(|other| position(other))
                .unwrap_or(last);
            return Err(Error::invalid(format!(
                "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
                next.columns[0].name, found.columns[0].name
            )));
        }
        Ok(())
    }

    fn may_filter(&self) -> bool {
        self.purpose.may_filter()
    }

    fn of_kind(&self, kind: ColumnKind) -> impl Iterator<Item = &Restriction<'c>> {
        self.restrictions.iter().filter(move |other| other.columns[0].kind == kind)
    }

    /// Returns the names of the key columns that no relation restricts.
    fn unrestricted(&self, columns: &[ColumnDefinition]) -> Vec<String> {
        let is_free = |column: &&ColumnDefinition| {
            let mut restricted = self.restrictions.iter().flat_map(|other| &other.columns);
            !restricted.any(|other| other.name == column.name)
        };
        columns.iter().filter(is_free).map(|column| column.name.clone()).collect()
    }

    fn partition(&self) -> Result<()> {
        let key = || self.of_kind(ColumnKind::PartitionKey);
        let has_token = key().any(|other| other.is_token);
        let has_slice = key().any(|other| other.kind.is_slice());
        let missing = self.unrestricted(self.table.partition_key_columns());
        match self.purpose {
            Purpose::Modify { statement, .. } => {
                let message = if has_token {
                    format!(
                        "The token function cannot be used in WHERE clauses for {statement} statements"
                    )
                } else if !missing.is_empty() {
                    format!("Some partition key parts are missing: {}", missing.join(", "))
                } else if has_slice {
                    format!(
                        "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for {statement} statements"
                    )
                } else {
                    return Ok(());
                };
                Err(Error::invalid(message))
            }
            Purpose::Select { allow_filtering, .. } => {
                let filters =
                    !has_token && key().next().is_some() && (has_slice || !missing.is_empty());
                if filters && !allow_filtering && !self.has_index {
                    return Err(Error::invalid(NEEDS_FILTERING));
                }
                Ok(())
            }
        }
    }

    fn clustering(&self) -> Result<()> {
        let mut restricted: Vec<&Restriction<'_>> = self.of_kind(ColumnKind::Clustering).collect();
        restricted.sort_by_key(|other| other.columns[0].position);
        if matches!(self.purpose, Purpose::Select { only_static: true, .. })
            && !restricted.is_empty()
        {
            return Err(Error::invalid(ONLY_STATIC));
        }
        if let Purpose::Modify { statement, only_static } = self.purpose {
            if only_static && !restricted.is_empty() {
                return Err(Error::invalid(format!(
                    "Invalid restrictions on clustering columns since the {statement} statement modifies only static columns"
                )));
            }
            if statement == "UPDATE" {
                return self.whole_row(&restricted, only_static);
            }
        }
        if self.may_filter() || self.has_index {
            return self.filtered_tuples(&restricted);
        }
        if restricted.iter().any(|other| matches!(other.kind, Kind::Contains)) {
            return Err(Error::invalid(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering",
            ));
        }
        self.without_gap(&restricted)
    }

    /// Refuses a restricted clustering column after one that is not restricted.
    fn without_gap(&self, restricted: &[&Restriction<'_>]) -> Result<()> {
        let columns = restricted.iter().flat_map(|other| &other.columns);
        for (expected, column) in self.table.clustering_columns().iter().zip(columns) {
            if expected.name != column.name {
                return Err(Error::invalid(format!(
                    "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                    column.name, expected.name
                )));
            }
        }
        Ok(())
    }

    /// Refuses a multi-column range after a column that is not restricted.
    fn filtered_tuples(&self, restricted: &[&Restriction<'_>]) -> Result<()> {
        let mut position = 0;
        for other in restricted {
            let is_behind_gap = other.columns[0].position != position;
            if is_behind_gap && other.is_tuple && other.kind.is_slice() {
                return Err(Error::invalid(
                    "Multi-column slice restrictions cannot be used for filtering.",
                ));
            }
            position += other.columns.len();
        }
        Ok(())
    }

    fn whole_row(&self, restricted: &[&Restriction<'_>], only_static: bool) -> Result<()> {
        if restricted.iter().any(|other| other.kind.is_slice()) {
            return Err(Error::invalid(
                "Slice restrictions are not supported on the clustering columns in UPDATE statements",
            ));
        }
        let missing = self.unrestricted(self.table.clustering_columns());
        if only_static || missing.is_empty() {
            return Ok(());
        }
        if self.table.is_compact() && !restricted.is_empty() {
            return self.without_gap(restricted);
        }
        let message = format!("Some clustering keys are missing: {}", missing.join(", "));
        Err(Error::invalid(message))
    }

    fn other_columns(&self) -> Result<()> {
        let mut others: Vec<&Restriction<'_>> =
            self.restrictions.iter().filter(|other| !other.columns[0].is_primary_key()).collect();
        others.sort_by_key(|other| {
            let column = other.columns[0];
            (column.kind != ColumnKind::Static, column.name.clone())
        });
        match self.purpose {
            _ if others.is_empty() => Ok(()),
            Purpose::Modify { .. } => {
                let mut names: Vec<&str> =
                    others.iter().map(|other| other.columns[0].name.as_str()).collect();
                names.dedup();
                // Cassandra's text has a blank at the end.
                let message =
                    format!("Non PRIMARY KEY columns found in where clause: {} ", names.join(", "));
                Err(self.preparation.invalid(others[0].position, message))
            }
            Purpose::Select { allow_filtering, .. } => {
                refuse_vectors(self.table, self.clause)?;
                if allow_filtering || self.has_index {
                    return Ok(());
                }
                Err(Error::invalid(NEEDS_FILTERING))
            }
        }
    }
}

/// Returns the refusal of a LIKE that no index serves.
pub(super) fn not_indexed(relation: &Relation<'_>) -> String {
    format!(
        "LIKE restriction is only supported on properly indexed columns. {relation} is not valid."
    )
}

/// Returns whether an IN does not have exactly one value. An IN of one value is an equality.
pub(super) fn is_in(values: &InValues<'_>) -> bool {
    !matches!(values, InValues::Values(values) if values.len() == 1)
}
