//! Planning of restrictions of clustering columns.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_types::CqlType;

use super::{
    super::{
        Alternatives,
        clustering::{ClusteringRestriction, RangeBound, tuple_type},
    },
    ColumnRelations, alternatives,
};
use crate::{
    Error, Result,
    grammar::ast::{
        ComparisonOperator as Operator, Expression, ExpressionKind, InValues, Name, Predicate,
        Relation,
    },
    term::{Preparation, prepare_parts, prepare_term},
};

pub(super) fn tuple_columns(
    preparation: &Preparation<'_>,
    table: &TableMetadata,
    names: &[Name<'_>],
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
        let start = *first.get_or_insert(column.position);
        if column.position != start + index {
            let message = format!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {name}"
            );
            return Err(preparation.invalid(name.position, message));
        }
    }
    Ok(first.unwrap_or_default())
}

pub(super) fn plan_clustering<'e>(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    by_column: &BTreeMap<usize, ColumnRelations<'e>>,
    tuples: &[(&'e Relation<'e>, usize, usize)],
    filters: &mut Vec<&'e Relation<'e>>,
    needs_filtering: &mut bool,
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
        let mixed: Vec<_> = tuples
            .iter()
            .filter(|(_, start, count)| (*start..start + count).contains(&at))
            .collect();
        if let Some((relation, start, count)) = mixed.first() {
            // A bound of the first column may be combined with a bound of several: `c > 1 AND (c,
            // d) < (3, 'a')`.
            let alone = (*start..start + count).all(|index| {
                by_column.get(&(base + index)).is_none_or(|single| {
                    index == *start && single.equal.is_none() && mixed.len() == 1
                })
            });
            let same = mixed.iter().all(|(_, s, _)| s == start) && *start == at;
            if !open || !alone || !same {
                let message = format!(
                    "Clustering column \"{}\" cannot be restricted (a multi-column relation must follow restrictions of \
                     the columns before it by = or IN, and not be mixed with other relations)",
                    column.name
                );
                return Err(preparation.invalid(relation.position, message));
            }
            let (restriction, count) = plan_tuples(
                preparation,
                table,
                at,
                &mixed.iter().map(|(r, _, c)| (*r, *c)).collect::<Vec<_>>(),
                by_column.get(&(base + at)),
            )?;
            open = restriction.equal_column_count().is_some();
            planned.push(restriction);
            at += count;
            continue;
        }
        let Some(relations) = by_column.get(&(base + at)) else {
            gap = gap.or(Some(&column.name));
            open = false;
            at += 1;
            continue;
        };
        if !open {
            if !may_filter {
                let message = match gap {
                    Some(gap) => format!(
                        "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{gap}\" is not restricted",
                        column.name
                    ),
                    None => format!(
                        "Clustering column \"{}\" cannot be restricted (preceding column is restricted by a non-EQ relation)",
                        column.name
                    ),
                };
                return Err(Error::invalid(message));
            }
            *needs_filtering = true;
            filters.extend(relations.equal);
            filters.extend(relations.lower);
            if !matches!((relations.lower, relations.upper), (Some(l), Some(u)) if std::ptr::eq(l, u))
            {
                filters.extend(relations.upper);
            }
            at += 1;
            continue;
        }
        if let Some(relation) = relations.equal {
            planned.push(ClusteringRestriction::Values(alternatives(
                preparation,
                column,
                relation,
            )?));
        } else {
            let lower = range_bound(preparation, column, relations.lower, true)?;
            let upper = range_bound(preparation, column, relations.upper, false)?;
            planned.push(ClusteringRestriction::Range { lower, upper });
            open = false;
        }
        at += 1;
    }
    Ok(planned)
}

fn plan_tuples(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    at: usize,
    relations: &[(&Relation<'_>, usize)],
    single: Option<&ColumnRelations<'_>>,
) -> Result<(ClusteringRestriction, usize)> {
    let names = |count: usize| {
        let names: Vec<&str> =
            table.clustering_columns()[at..at + count].iter().map(|c| c.name.as_str()).collect();
        format!("({})", names.join(","))
    };
    let (mut lower, mut upper, mut widest) = (None, None, 0);
    for (relation, count) in relations {
        let tuple = tuple_type(table, at, *count);
        let receiver = preparation.receiver(&names(*count), &tuple);
        let columns = &table.clustering_columns()[at..at + count];
        let alternatives = match &relation.predicate {
            Predicate::Compare(Operator::Equal, value) => {
                Some(Alternatives::Terms(vec![tuple_term(preparation, value, &receiver, columns)?]))
            }
            Predicate::In(InValues::Values(values)) => Some(Alternatives::Terms(
                values
                    .iter()
                    .map(|value| tuple_term(preparation, value, &receiver, columns))
                    .collect::<Result<_>>()?,
            )),
            Predicate::In(InValues::BindMarker(marker)) => {
                let list = CqlType::List { element: Arc::new(tuple.clone()), frozen: true };
                let receiver = preparation.receiver(&format!("in{}", names(*count)), &list);
                Some(Alternatives::List(preparation.bind(*marker, &receiver)?))
            }
            Predicate::Compare(operator, value) if *operator != Operator::NotEqual => {
                let term = tuple_term(preparation, value, &receiver, columns)?;
                let inclusive =
                    matches!(operator, Operator::LessOrEqual | Operator::GreaterOrEqual);
                let is_lower = matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
                let bound = RangeBound { columns: *count, term, is_tuple: true, inclusive };
                let side = if is_lower { &mut lower } else { &mut upper };
                if side.is_some() {
                    return Err(preparation.invalid(
                        relation.position,
                        "More than one restriction was found for the same bound",
                    ));
                }
                *side = Some(bound);
                widest = widest.max(*count);
                None
            }
            _ => {
                return Err(preparation.invalid(
                    relation.position,
                    "Unsupported multi-column relation: use =, <, <=, >, >= or IN",
                ));
            }
        };
        if let Some(alternatives) = alternatives {
            if relations.len() > 1 || single.is_some() {
                return Err(preparation.invalid(
                    relation.position,
                    "A multi-column = or IN cannot be combined with other relations of its columns",
                ));
            }
            return Ok((ClusteringRestriction::Tuples { columns: *count, alternatives }, *count));
        }
    }
    if let Some(single) = single {
        let column = &table.clustering_columns()[at];
        for (relation, side, is_lower) in
            [(single.lower, &mut lower, true), (single.upper, &mut upper, false)]
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
    }
    Ok((ClusteringRestriction::Range { lower, upper }, widest))
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
        Some(Predicate::Compare(operator, value)) => {
            (value, matches!(operator, Operator::LessOrEqual | Operator::GreaterOrEqual))
        }
        _ => return Ok(None),
    };
    let receiver = preparation.receiver(&column.name, &column.column_type);
    let term = prepare_term(preparation, value, &receiver)?;
    Ok(Some(RangeBound { columns: 1, term, is_tuple: false, inclusive }))
}

fn tuple_term(
    preparation: &mut Preparation<'_>,
    value: &Expression<'_>,
    receiver: &crate::metadata::ColumnSpec,
    columns: &[ColumnDefinition],
) -> Result<crate::term::Term> {
    let ExpressionKind::Tuple(items) = &value.kind else {
        return prepare_term(preparation, value, receiver);
    };
    if items.len() != columns.len() {
        let message = format!(
            "Expected {} elements in value tuple, but got {}: {value}",
            columns.len(),
            items.len()
        );
        return Err(preparation.invalid(value.position, message));
    }
    // Each part is the value of a column, and a marker in it has the column's name.
    let receivers = columns
        .iter()
        .map(|column| preparation.receiver(&column.name, &column.column_type))
        .collect();
    prepare_parts(preparation, items, receivers, &receiver.column_type)
}
