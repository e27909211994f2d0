//! Plans the restrictions of clustering columns.

use std::{collections::BTreeMap, ops::Range};

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};

use super::{
    super::{
        Alternatives,
        clustering::{ClusteringRestriction, RangeBound, tuple_type},
        exclusion::Exclusion,
    },
    ColumnRelations, SortedRelations, TupleRelation, alternatives,
};
use crate::{
    Error, Result,
    grammar::ast::{
        ComparisonOperator as Operator, Expression, ExpressionKind, Name, Predicate, Relation,
    },
    metadata::ColumnSpec,
    term::{Preparation, Term, prepare_parts, prepare_term},
};

pub(super) fn tuple_columns(
    preparation: &Preparation<'_>,
    table: &TableMetadata,
    names: &[Name<'_>],
    relation: &Relation<'_>,
) -> Result<usize> {
    let mut first = None;
    for (index, name) in names.iter().enumerate() {
        let column = preparation.column(table, name)?;
        if column.kind != ColumnKind::Clustering {
            let message = format!(
                "Multi-column relations can only be applied to clustering columns but was applied to: {name}"
            );
            return Err(preparation.invalid(name.position, message));
        }
        if names[..index].iter().any(|other| other.as_str() == column.name) {
            let message =
                format!("Column \"{}\" appeared twice in a relation: {relation}", column.name);
            return Err(preparation.invalid(name.position, message));
        }
        let start = *first.get_or_insert(column.position);
        if column.position != start + index {
            let message = format!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {relation}"
            );
            return Err(preparation.invalid(name.position, message));
        }
    }
    Ok(first.unwrap_or_default())
}

pub(super) fn plan_clustering(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    sorted: &mut SortedRelations<'_>,
    may_filter: bool,
) -> Result<Vec<ClusteringRestriction>> {
    let columns = table.clustering_columns();
    let base = table.partition_key_columns().len();
    let mut planned = Vec::new();
    let mut at = 0;
    let mut open = true;
    let mut gap: Option<&str> = None;
    while at < columns.len() {
        let column = &columns[at];
        let single = sorted.by_column.get(&(base + at));
        let tuples: Vec<_> =
            sorted.tuples.iter().filter(|tuple| tuple.columns().contains(&at)).copied().collect();
        if let Some(first) = tuples.first() {
            if !open || !may_combine(&tuples, at, base, &sorted.by_column) {
                let message = format!(
                    "Clustering column \"{}\" cannot be restricted (a multi-column relation must follow restrictions of \
                     the columns before it by = or IN, and not be mixed with other relations)",
                    column.name
                );
                return Err(preparation.invalid(first.relation.position, message));
            }
            let (restriction, count) = plan_tuples(preparation, table, &tuples, single)?;
            open = restriction.equal_column_count().is_some();
            planned.push(restriction);
            at += count;
            continue;
        }
        at += 1;
        let Some(relations) = single else {
            gap = gap.or(Some(&column.name));
            open = false;
            continue;
        };
        if !open {
            if !may_filter {
                return Err(behind_the_prefix(column, gap));
            }
            sorted.needs_filtering = true;
            relations.add_to(&mut sorted.filters);
            continue;
        }
        let restriction = plan_column(preparation, column, relations)?;
        open = matches!(restriction, ClusteringRestriction::Values(_));
        planned.push(restriction);
    }
    Ok(planned)
}

impl TupleRelation<'_> {
    /// Returns the positions of the columns.
    fn columns(&self) -> Range<usize> {
        self.start..self.start + self.count
    }
}

impl<'e> ColumnRelations<'e> {
    /// Adds each relation once, also a BETWEEN, which is both bounds.
    fn add_to(&self, filters: &mut Vec<&'e Relation<'e>>) {
        filters.extend(self.equal);
        filters.extend(self.lower);
        if !matches!((self.lower, self.upper), (Some(l), Some(u)) if std::ptr::eq(l, u)) {
            filters.extend(self.upper);
        }
        filters.extend(&self.excluded);
    }
}

/// Returns whether the multi-column relations can be planned together. Each must begin with the
/// column at `at`, and no single-column relation may restrict the columns of the first. There is
/// one exception: bounds and NOT IN of the first column may accompany a single multi-column
/// relation, as in `c > 1 AND (c, d) < (3, 'a')`.
fn may_combine(
    tuples: &[TupleRelation<'_>],
    at: usize,
    base: usize,
    by_column: &BTreeMap<usize, ColumnRelations<'_>>,
) -> bool {
    let Some(first) = tuples.first() else { return true };
    let alone = first.columns().all(|index| {
        by_column.get(&(base + index)).is_none_or(|single| {
            index == first.start && single.equal.is_none() && tuples.len() == 1
        })
    });
    alone && tuples.iter().all(|tuple| tuple.start == at)
}

/// Returns the error for a column that may not be restricted because of a column before it. `gap`
/// names that column if it is not restricted; `None` means that it has a range.
fn behind_the_prefix(column: &ColumnDefinition, gap: Option<&str>) -> Error {
    let message = match gap {
        Some(gap) => format!(
            "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{gap}\" is not restricted",
            column.name
        ),
        None => format!(
            "Clustering column \"{}\" cannot be restricted (a column before it is restricted by a non-EQ relation)",
            column.name
        ),
    };
    Error::invalid(message)
}

fn plan_column(
    preparation: &mut Preparation<'_>,
    column: &ColumnDefinition,
    relations: &ColumnRelations<'_>,
) -> Result<ClusteringRestriction> {
    if let Some(relation) = relations.equal {
        return alternatives(preparation, column, relation).map(ClusteringRestriction::Values);
    }
    let lower = range_bound(preparation, column, relations.lower, true)?;
    let upper = range_bound(preparation, column, relations.upper, false)?;
    let excluded = exclusions(preparation, column, relations)?;
    Ok(ClusteringRestriction::Range { lower, upper, excluded })
}

/// Plans the values that NOT IN excludes from a single column.
fn exclusions(
    preparation: &mut Preparation<'_>,
    column: &ColumnDefinition,
    relations: &ColumnRelations<'_>,
) -> Result<Vec<Exclusion>> {
    let plan = |relation: &&Relation<'_>| {
        let values = alternatives(preparation, column, relation)?;
        Ok(Exclusion { columns: 1, is_tuple: false, values })
    };
    relations.excluded.iter().map(plan).collect()
}

/// Plans the multi-column relations that begin with the same column, and the single-column
/// relations `single` of this column. Also returns the number of restricted columns.
fn plan_tuples(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    tuples: &[TupleRelation<'_>],
    single: Option<&ColumnRelations<'_>>,
) -> Result<(ClusteringRestriction, usize)> {
    let mut range = TupleRange::default();
    let mut widest = 0;
    for tuple in tuples {
        let (relation, count) = (tuple.relation, tuple.count);
        let target = TupleTarget::new(preparation, table, tuple);
        if let Predicate::Compare(operator, value) = &relation.predicate
            && !matches!(operator, Operator::Equal | Operator::NotEqual)
        {
            let bound = target.bound(preparation, *operator, value)?;
            range.add_tuple(preparation, relation, *operator, bound)?;
            widest = widest.max(count);
            continue;
        }
        if let Predicate::NotIn(_) = &relation.predicate {
            let values = target.alternatives(preparation, relation)?;
            range.excluded.push(Exclusion { columns: count, is_tuple: true, values });
            widest = widest.max(count);
            continue;
        }
        let alternatives = target.alternatives(preparation, relation)?;
        if tuples.len() > 1 || single.is_some() {
            return Err(preparation.invalid(
                relation.position,
                "A multi-column = or IN cannot be combined with other relations of its columns",
            ));
        }
        return Ok((ClusteringRestriction::Tuples { columns: count, alternatives }, count));
    }
    if let (Some(single), Some(first)) = (single, tuples.first()) {
        range.add_single(preparation, &table.clustering_columns()[first.start], single)?;
    }
    let TupleRange { lower, upper, excluded } = range;
    Ok((ClusteringRestriction::Range { lower, upper, excluded }, widest))
}

/// A range of tuples, each bound of which may be set once.
#[derive(Default)]
struct TupleRange {
    lower: Option<RangeBound>,
    upper: Option<RangeBound>,
    excluded: Vec<Exclusion>,
}

impl TupleRange {
    /// Adds the bound that a multi-column relation sets.
    fn add_tuple(
        &mut self,
        preparation: &Preparation<'_>,
        relation: &Relation<'_>,
        operator: Operator,
        bound: RangeBound,
    ) -> Result<()> {
        let side = if operator.is_greater() { &mut self.lower } else { &mut self.upper };
        if side.is_some() {
            return Err(preparation.invalid(
                relation.position,
                "More than one restriction was found for the same bound",
            ));
        }
        *side = Some(bound);
        Ok(())
    }

    /// Adds the single-column bounds and the NOT IN of the first column.
    fn add_single(
        &mut self,
        preparation: &mut Preparation<'_>,
        column: &ColumnDefinition,
        single: &ColumnRelations<'_>,
    ) -> Result<()> {
        for (relation, side, is_lower) in
            [(single.lower, &mut self.lower, true), (single.upper, &mut self.upper, false)]
        {
            let Some(bound) = range_bound(preparation, column, relation, is_lower)? else {
                continue;
            };
            if side.is_some() {
                let which = if is_lower { "start" } else { "end" };
                return Err(Error::invalid(format!(
                    "More than one restriction was found for the {which} bound on {}",
                    column.name
                )));
            }
            *side = Some(bound);
        }
        self.excluded.extend(exclusions(preparation, column, single)?);
        Ok(())
    }
}

/// The columns of a multi-column relation, and the receiver of its values.
pub(super) struct TupleTarget<'t> {
    columns: &'t [ColumnDefinition],
    receiver: ColumnSpec,
}

impl<'t> TupleTarget<'t> {
    /// Checks the values of a relation.
    pub(super) fn check(
        &self,
        preparation: &mut Preparation<'_>,
        relation: &Relation<'_>,
    ) -> Result<()> {
        match &relation.predicate {
            Predicate::Compare(operator, value) if *operator != Operator::Equal => {
                self.bound(preparation, *operator, value).map(|_| ())
            }
            _ => self.alternatives(preparation, relation).map(|_| ()),
        }
    }

    pub(super) fn new(
        preparation: &Preparation<'_>,
        table: &'t TableMetadata,
        tuple: &TupleRelation<'_>,
    ) -> Self {
        let columns = &table.clustering_columns()[tuple.columns()];
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let name = format!("({})", names.join(","));
        let receiver = preparation.receiver(&name, &tuple_type(table, tuple.start, tuple.count));
        Self { columns, receiver }
    }

    /// Plans the values of `=`, IN or NOT IN.
    fn alternatives(
        &self,
        preparation: &mut Preparation<'_>,
        relation: &Relation<'_>,
    ) -> Result<Alternatives> {
        match &relation.predicate {
            Predicate::Compare(Operator::Equal, value) => {
                Ok(Alternatives::Terms(vec![self.term(preparation, value)?]))
            }
            Predicate::In(values) | Predicate::NotIn(values) => {
                let name = format!("in{}", self.receiver.name);
                Alternatives::plan(
                    preparation,
                    values,
                    &self.receiver,
                    &name,
                    |preparation, value, _| self.term(preparation, value),
                )
            }
            _ => Err(preparation.invalid(
                relation.position,
                "Unsupported multi-column relation: use =, <, <=, >, >=, IN or NOT IN",
            )),
        }
    }

    /// Plans the bound that `operator value` sets.
    fn bound(
        &self,
        preparation: &mut Preparation<'_>,
        operator: Operator,
        value: &Expression<'_>,
    ) -> Result<RangeBound> {
        let term = self.term(preparation, value)?;
        let (columns, inclusive) = (self.columns.len(), operator.is_inclusive());
        Ok(RangeBound { columns, term, is_tuple: true, inclusive })
    }

    fn term(&self, preparation: &mut Preparation<'_>, value: &Expression<'_>) -> Result<Term> {
        let ExpressionKind::Tuple(items) = &value.kind else {
            return prepare_term(preparation, value, &self.receiver);
        };
        if items.len() != self.columns.len() {
            let message = format!(
                "Expected {} elements in value tuple, but got {}: {value}",
                self.columns.len(),
                items.len()
            );
            return Err(preparation.invalid(value.position, message));
        }
        // Each part is the value of a column, and a marker in it has the column's name.
        let receiver =
            |column: &ColumnDefinition| preparation.receiver(&column.name, &column.column_type);
        let receivers: Vec<_> = self.columns.iter().map(receiver).collect();
        prepare_parts(preparation, items.iter().zip(receivers), &self.receiver.column_type)
    }
}

/// Plans one side of a range of a single column.
fn range_bound(
    preparation: &mut Preparation<'_>,
    column: &ColumnDefinition,
    relation: Option<&Relation<'_>>,
    is_lower: bool,
) -> Result<Option<RangeBound>> {
    let (value, inclusive) = match relation.map(|relation| &relation.predicate) {
        Some(Predicate::Between(low, high)) => (if is_lower { low } else { high }, true),
        Some(Predicate::Compare(operator, value)) => (value, operator.is_inclusive()),
        _ => return Ok(None),
    };
    let receiver = preparation.receiver(&column.name, &column.column_type);
    let term = prepare_term(preparation, value, &receiver)?;
    Ok(Some(RangeBound { columns: 1, term, is_tuple: false, inclusive }))
}
