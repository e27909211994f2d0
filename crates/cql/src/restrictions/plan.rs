//! From relations to [`Restrictions`].

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_types::CqlType;

use super::{
    Alternatives, Filter, FilterOperator, FilterTarget, Restrictions,
    clustering::{ClusteringRestriction, RangeBound, tuple_type},
    partition::{PartitionRestriction, TokenBound},
};
use crate::{
    Error, Result,
    grammar::ast::{
        ComparisonOperator as Operator, Expression, ExpressionKind, InValues, Name, Predicate,
        Relation, RelationTarget, WhereClause,
    },
    term::{Preparation, prepare_term},
};

/// What the restrictions are for; it decides what may be left for filtering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// SELECT, with or without ALLOW FILTERING.
    Select {
        /// ALLOW FILTERING.
        allow_filtering: bool,
    },
    /// UPDATE or DELETE: full partition key, a prefix of the clustering, nothing else.
    Modify,
}

const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have \
    unpredictable performance. If you want to execute this query despite the performance unpredictability, use \
    ALLOW FILTERING";

/// Relations of one column that the key may serve.
#[derive(Default)]
struct ColumnRelations<'e> {
    equal: Option<&'e Relation<'e>>,
    lower: Option<&'e Relation<'e>>,
    upper: Option<&'e Relation<'e>>,
}

/// Plans a `WHERE`.
pub fn plan(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    clause: &WhereClause<'_>,
    purpose: Purpose,
) -> Result<Restrictions> {
    if let Some(custom) = clause.custom.first() {
        return Err(
            preparation.invalid(custom.position, "Custom index expressions are not supported yet")
        );
    }
    let mut by_column: BTreeMap<usize, ColumnRelations<'_>> = BTreeMap::new();
    let mut tuples: Vec<(&Relation<'_>, usize, usize)> = Vec::new();
    let mut tokens: Vec<&Relation<'_>> = Vec::new();
    let mut filters: Vec<&Relation<'_>> = Vec::new();
    for relation in &clause.relations {
        match &relation.target {
            RelationTarget::Column(name) => {
                let column = find(preparation, table, name)?;
                check_operator(preparation, relation, column)?;
                if !column.is_primary_key()
                    || !sort_in(preparation, &mut by_column, table, column, relation)?
                {
                    filters.push(relation);
                }
            }
            RelationTarget::Columns(names) => {
                let at = tuple_columns(preparation, table, names)?;
                tuples.push((relation, at, names.len()));
            }
            RelationTarget::Token(names) => {
                check_token(preparation, table, names, relation)?;
                tokens.push(relation);
            }
            RelationTarget::Element(name, _) => {
                find(preparation, table, name)?;
                filters.push(relation);
            }
            RelationTarget::Field(name, _) => {
                find(preparation, table, name)?;
                return Err(preparation.invalid(
                    relation.position,
                    "Fields of a user type cannot be restricted in WHERE",
                ));
            }
        }
    }
    let may_filter = purpose == Purpose::Select { allow_filtering: true };
    let mut needs_filtering = !filters.is_empty();
    let partition = plan_partition(
        preparation,
        table,
        &by_column,
        &tokens,
        &mut filters,
        &mut needs_filtering,
        purpose,
    )?;
    let clustering = plan_clustering(
        preparation,
        table,
        &by_column,
        &tuples,
        &mut filters,
        &mut needs_filtering,
        may_filter,
    )?;
    if purpose == Purpose::Modify {
        refuse_filters(table, &filters)?;
    }
    if !clustering.is_empty() && !matches!(partition, PartitionRestriction::Keys(_)) {
        needs_filtering = true;
    }
    if needs_filtering && !may_filter {
        return Err(Error::invalid(NEEDS_FILTERING));
    }
    let filters = filters
        .iter()
        .map(|relation| plan_filter(preparation, table, relation))
        .collect::<Result<_>>()?;
    Ok(Restrictions { partition, clustering, filters })
}

fn find<'t>(
    preparation: &Preparation<'_>,
    table: &'t TableMetadata,
    name: &Name<'_>,
) -> Result<&'t ColumnDefinition> {
    table.column(name.as_str()).ok_or_else(|| {
        let message =
            format!("Undefined column name {name} in table {}.{}", table.keyspace, table.name);
        preparation.invalid(name.position, message)
    })
}

fn check_operator(
    preparation: &Preparation<'_>,
    relation: &Relation<'_>,
    column: &ColumnDefinition,
) -> Result<()> {
    let refuse = |message: String| Err(preparation.invalid(relation.position, message));
    let name = &column.name;
    match &relation.predicate {
        Predicate::Compare(Operator::NotEqual, _) => {
            refuse(format!("Unsupported \"!=\" relation: {name}"))
        }
        Predicate::IsNotNull => refuse(format!("Unsupported restriction: {name} IS NOT NULL")),
        Predicate::Like(_) => refuse(format!(
            "LIKE restriction is only supported on properly indexed columns. {name} is not"
        )),
        Predicate::Compare(operator, _) if column.is_complex() => {
            let kind =
                if column.column_type.is_collection() { "Collection" } else { "Non-frozen UDT" };
            refuse(format!(
                "{kind} column '{name}' ({}) cannot be restricted by a '{}' relation",
                column.column_type.cql_name(),
                operator.symbol()
            ))
        }
        Predicate::Compare(operator, _)
            if *operator != Operator::Equal && matches!(column.column_type, CqlType::Duration) =>
        {
            refuse("Slice restrictions are not supported on duration columns".into())
        }
        Predicate::In(_) if column.is_complex() => refuse(format!(
            "Collection column '{name}' ({}) cannot be restricted by a 'IN' relation",
            column.column_type.cql_name()
        )),
        Predicate::Contains(_) if !column.column_type.is_collection() => {
            refuse(format!("Cannot use CONTAINS on non-collection column {name}"))
        }
        Predicate::ContainsKey(_) if !matches!(column.column_type, CqlType::Map { .. }) => {
            refuse(format!("Cannot use CONTAINS KEY on non-map column {name}"))
        }
        _ => Ok(()),
    }
}

/// Keeps a relation that the primary key may serve; false if it can only be a filter.
fn sort_in<'e>(
    preparation: &Preparation<'_>,
    by_column: &mut BTreeMap<usize, ColumnRelations<'e>>,
    table: &TableMetadata,
    column: &ColumnDefinition,
    relation: &'e Relation<'e>,
) -> Result<bool> {
    let base =
        if column.kind == ColumnKind::Clustering { table.partition_key_columns().len() } else { 0 };
    let relations = by_column.entry(base + column.position).or_default();
    let twice = |what: &str| {
        Err(preparation.invalid(
            relation.position,
            format!(
                "{} cannot be restricted by more than one relation if it includes {what}",
                column.name
            ),
        ))
    };
    match &relation.predicate {
        Predicate::Compare(Operator::Equal, _) | Predicate::In(_) => {
            if relations.equal.is_some() || relations.lower.is_some() || relations.upper.is_some() {
                return twice(if matches!(relation.predicate, Predicate::In(_)) {
                    "a IN"
                } else {
                    "an Equal"
                });
            }
            relations.equal = Some(relation);
        }
        Predicate::Compare(operator, _) if column.kind == ColumnKind::Clustering => {
            if relations.equal.is_some() {
                return twice("an Equal");
            }
            let is_lower = matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
            let side = if is_lower { &mut relations.lower } else { &mut relations.upper };
            if side.is_some() {
                let which = if is_lower { "start" } else { "end" };
                let message = format!(
                    "More than one restriction was found for the {which} bound on {}",
                    column.name
                );
                return Err(preparation.invalid(relation.position, message));
            }
            *side = Some(relation);
        }
        Predicate::Between(..) if column.kind == ColumnKind::Clustering => {
            if relations.equal.is_some() || relations.lower.is_some() || relations.upper.is_some() {
                return twice("a BETWEEN");
            }
            relations.lower = Some(relation);
            relations.upper = Some(relation);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn tuple_columns(
    preparation: &Preparation<'_>,
    table: &TableMetadata,
    names: &[Name<'_>],
) -> Result<usize> {
    let mut first = None;
    for (index, name) in names.iter().enumerate() {
        let column = find(preparation, table, name)?;
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

fn check_token(
    preparation: &Preparation<'_>,
    table: &TableMetadata,
    names: &[Name<'_>],
    relation: &Relation<'_>,
) -> Result<()> {
    for name in names {
        find(preparation, table, name)?;
    }
    let columns = table.partition_key_columns();
    let in_order = names.len() == columns.len()
        && names.iter().zip(columns).all(|(name, column)| name.as_str() == column.name);
    if !in_order {
        let key: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let message = format!(
            "The token() function must be applied to all partition key components in order: {}",
            key.join(", ")
        );
        return Err(preparation.invalid(relation.position, message));
    }
    match relation.predicate {
        Predicate::Compare(operator, _) if operator != Operator::NotEqual => Ok(()),
        Predicate::Between(..) => Ok(()),
        _ => Err(preparation.invalid(
            relation.position,
            "Only =, <, <=, > and >= can be used with the token() function",
        )),
    }
}

fn plan_partition<'e>(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    by_column: &BTreeMap<usize, ColumnRelations<'e>>,
    tokens: &[&'e Relation<'e>],
    filters: &mut Vec<&'e Relation<'e>>,
    needs_filtering: &mut bool,
    purpose: Purpose,
) -> Result<PartitionRestriction> {
    let columns = table.partition_key_columns();
    let equal: Vec<Option<&Relation<'_>>> = (0..columns.len())
        .map(|index| by_column.get(&index).and_then(|relations| relations.equal))
        .collect();
    if equal.iter().all(Option::is_some) && tokens.is_empty() {
        let alternatives = columns
            .iter()
            .zip(equal.iter().flatten())
            .map(|(column, relation)| alternatives(preparation, column, relation))
            .collect::<Result<_>>()?;
        return Ok(PartitionRestriction::Keys(alternatives));
    }
    if purpose == Purpose::Modify {
        let missing: Vec<&str> = columns
            .iter()
            .zip(&equal)
            .filter(|(_, relation)| relation.is_none())
            .map(|(column, _)| column.name.as_str())
            .collect();
        if !tokens.is_empty() {
            return Err(Error::invalid(
                "The token function cannot be used in WHERE clauses for UPDATE or DELETE statements",
            ));
        }
        return Err(Error::invalid(format!(
            "Some partition key parts are missing: {}",
            missing.join(", ")
        )));
    }
    for relation in equal.into_iter().flatten() {
        filters.push(relation);
        *needs_filtering = true;
    }
    if tokens.is_empty() {
        return Ok(PartitionRestriction::All);
    }
    let receiver = preparation.receiver("partition key token", &CqlType::Bigint);
    let (mut lower, mut upper) = (None, None);
    for relation in tokens {
        let bound = |preparation: &mut Preparation<'_>,
                     side: &mut Option<TokenBound>,
                     value: &Expression<'_>,
                     inclusive| {
            if side.is_some() {
                return Err(preparation.invalid(relation.position, "More than one restriction was found for the same bound of the partition key token"));
            }
            *side =
                Some(TokenBound { term: prepare_term(preparation, value, &receiver)?, inclusive });
            Ok(())
        };
        match &relation.predicate {
            Predicate::Compare(Operator::Equal, value) => {
                bound(preparation, &mut lower, value, true)?;
                bound(preparation, &mut upper, value, true)?;
            }
            Predicate::Compare(
                operator @ (Operator::Greater | Operator::GreaterOrEqual),
                value,
            ) => {
                bound(preparation, &mut lower, value, *operator == Operator::GreaterOrEqual)?;
            }
            Predicate::Compare(operator, value) => {
                bound(preparation, &mut upper, value, *operator == Operator::LessOrEqual)?;
            }
            Predicate::Between(low, high) => {
                bound(preparation, &mut lower, low, true)?;
                bound(preparation, &mut upper, high, true)?;
            }
            _ => {}
        }
    }
    Ok(PartitionRestriction::Token { lower, upper })
}

fn alternatives(
    preparation: &mut Preparation<'_>,
    column: &ColumnDefinition,
    relation: &Relation<'_>,
) -> Result<Alternatives> {
    let receiver = preparation.receiver(&column.name, &column.column_type);
    match &relation.predicate {
        Predicate::Compare(_, value) => {
            Ok(Alternatives::Terms(vec![prepare_term(preparation, value, &receiver)?]))
        }
        Predicate::In(InValues::Values(values)) => values
            .iter()
            .map(|value| prepare_term(preparation, value, &receiver))
            .collect::<Result<_>>()
            .map(Alternatives::Terms),
        Predicate::In(InValues::BindMarker(marker)) => {
            let list =
                CqlType::List { element: Arc::new(column.column_type.clone()), frozen: true };
            let receiver = preparation.receiver(&format!("in({})", column.name), &list);
            Ok(Alternatives::List(preparation.bind(*marker, &receiver)?))
        }
        _ => Err(preparation
            .invalid(relation.position, format!("{} must be restricted by = or IN", column.name))),
    }
}

fn plan_clustering<'e>(
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
            // A bound of the first column alone may stand beside a bound of several: `c > 1 AND (c, d) < (3, 'a')`.
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
        let alternatives = match &relation.predicate {
            Predicate::Compare(Operator::Equal, value) => {
                Some(Alternatives::Terms(vec![tuple_term(preparation, value, &receiver, *count)?]))
            }
            Predicate::In(InValues::Values(values)) => Some(Alternatives::Terms(
                values
                    .iter()
                    .map(|value| tuple_term(preparation, value, &receiver, *count))
                    .collect::<Result<_>>()?,
            )),
            Predicate::In(InValues::BindMarker(marker)) => {
                let list = CqlType::List { element: Arc::new(tuple.clone()), frozen: true };
                let receiver = preparation.receiver(&format!("in{}", names(*count)), &list);
                Some(Alternatives::List(preparation.bind(*marker, &receiver)?))
            }
            Predicate::Compare(operator, value) if *operator != Operator::NotEqual => {
                let term = tuple_term(preparation, value, &receiver, *count)?;
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

/// One side of a range of a single column.
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
    count: usize,
) -> Result<crate::term::Term> {
    if let ExpressionKind::Tuple(items) = &value.kind
        && items.len() != count
    {
        let message =
            format!("Expected {count} elements in value tuple, but got {}: {value}", items.len());
        return Err(preparation.invalid(value.position, message));
    }
    prepare_term(preparation, value, receiver)
}

fn refuse_filters(table: &TableMetadata, filters: &[&Relation<'_>]) -> Result<()> {
    let names: Vec<String> = filters
        .iter()
        .map(|relation| match &relation.target {
            RelationTarget::Column(name)
            | RelationTarget::Element(name, _)
            | RelationTarget::Field(name, _) => name.to_string(),
            RelationTarget::Columns(names) | RelationTarget::Token(names) => {
                names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
        })
        .collect();
    let Some(first) = names.first() else { return Ok(()) };
    match table.column(first) {
        Some(column) if column.is_primary_key() => Err(Error::invalid(format!(
            "Only = and IN can be used on {first} in an UPDATE or DELETE"
        ))),
        _ => Err(Error::invalid(format!(
            "Non PRIMARY KEY columns found in where clause: {}",
            names.join(", ")
        ))),
    }
}

fn plan_filter(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    relation: &Relation<'_>,
) -> Result<Filter> {
    let (target, receiver, definition) = match &relation.target {
        RelationTarget::Column(name) => {
            let column = find(preparation, table, name)?;
            let receiver = preparation.receiver(&column.name, &column.column_type);
            (FilterTarget::Column(column.clone()), receiver, column)
        }
        RelationTarget::Element(name, key) => {
            let column = find(preparation, table, name)?;
            let (key_type, value_type) = match &column.column_type {
                CqlType::Map { key, value, .. } => (key.as_ref().clone(), value.as_ref().clone()),
                CqlType::List { .. } => {
                    return Err(preparation.invalid(
                        name.position,
                        "Indexes on list entries (l[index] = value) are not currently supported.",
                    ));
                }
                _ => {
                    let message = format!(
                        "Column '{name}' of type {} has no elements that can be restricted",
                        column.column_type.cql_name()
                    );
                    return Err(preparation.invalid(name.position, message));
                }
            };
            if !matches!(relation.predicate, Predicate::Compare(Operator::Equal, _)) {
                let message = "Only EQ relations are supported on map entries";
                return Err(preparation.invalid(relation.position, message));
            }
            let key_receiver = preparation.receiver(&format!("key({})", column.name), &key_type);
            let key = prepare_term(preparation, key, &key_receiver)?;
            let receiver = preparation.receiver(&format!("value({})", column.name), &value_type);
            (FilterTarget::Element(column.clone(), key), receiver, column)
        }
        _ => {
            return Err(preparation
                .invalid(relation.position, "This relation cannot be used for filtering"));
        }
    };
    let part_receiver = |preparation: &Preparation<'_>, label: &str, part: &CqlType| {
        preparation.receiver(&format!("{label}({})", definition.name), part)
    };
    let operator = match &relation.predicate {
        Predicate::Compare(Operator::NotEqual, _) => {
            return Err(preparation.invalid(
                relation.position,
                format!("Unsupported \"!=\" relation: {}", definition.name),
            ));
        }
        Predicate::Compare(operator, value) => {
            FilterOperator::Compare(*operator, prepare_term(preparation, value, &receiver)?)
        }
        Predicate::In(_) => {
            let column = ColumnDefinition {
                column_type: receiver.column_type.clone(),
                ..definition.clone()
            };
            FilterOperator::In(alternatives(preparation, &column, relation)?)
        }
        Predicate::Contains(value) => {
            let part = match &definition.column_type {
                CqlType::List { element, .. } | CqlType::Set { element, .. } => element.as_ref(),
                CqlType::Map { value, .. } => value.as_ref(),
                other => other,
            };
            let receiver = part_receiver(preparation, "value", part);
            FilterOperator::Contains(prepare_term(preparation, value, &receiver)?)
        }
        Predicate::ContainsKey(value) => {
            let part = match &definition.column_type {
                CqlType::Map { key, .. } => key.as_ref(),
                other => other,
            };
            let receiver = part_receiver(preparation, "key", part);
            FilterOperator::ContainsKey(prepare_term(preparation, value, &receiver)?)
        }
        _ => {
            return Err(preparation
                .invalid(relation.position, "This relation cannot be used for filtering"));
        }
    };
    Ok(Filter { target, operator })
}
