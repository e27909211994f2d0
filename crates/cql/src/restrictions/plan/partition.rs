//! Which partitions.

use std::collections::BTreeMap;

use espalier_mutation::schema::TableMetadata;
use espalier_types::CqlType;

use super::{
    super::partition::{PartitionRestriction, TokenBound},
    ColumnRelations, Purpose, alternatives,
};
use crate::{
    Error, Result,
    grammar::ast::{ComparisonOperator as Operator, Expression, Name, Predicate, Relation},
    term::{Preparation, prepare_term},
};

pub(super) fn check_token(
    preparation: &Preparation<'_>,
    table: &TableMetadata,
    names: &[Name<'_>],
    relation: &Relation<'_>,
) -> Result<()> {
    for name in names {
        preparation.column(table, name)?;
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

pub(super) fn plan_partition<'e>(
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
