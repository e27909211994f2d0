//! Plans the restrictions of the partition key.

use espalier_mutation::schema::TableMetadata;
use espalier_types::CqlType;

use super::{
    super::partition::{PartitionRestriction, TokenBound, TokenBounds},
    Purpose, SortedRelations, alternatives,
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
    let refuse = |message: &str| Err(preparation.invalid(relation.position, message));
    if names.len() < columns.len()
        || !columns.iter().all(|column| names.iter().any(|name| name.as_str() == column.name))
    {
        return refuse(
            "The token() function must be applied to all partition key components or none of them",
        );
    }
    if names.iter().any(|name| columns.iter().all(|column| name.as_str() != column.name)) {
        return refuse("The token() function must contains only partition key components");
    }
    if names.len() > columns.len() {
        return refuse("The token() function contains duplicate partition key components");
    }
    if names.iter().zip(columns).any(|(name, column)| name.as_str() != column.name) {
        let message = format!(
            "The token function arguments must be in the partition key order: {}",
            key_names(table)
        );
        return refuse(&message);
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

pub(super) fn plan_partition(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    sorted: &mut SortedRelations<'_>,
    purpose: Purpose,
) -> Result<PartitionRestriction> {
    let columns = table.partition_key_columns();
    let equal: Vec<_> = (0..columns.len())
        .map(|index| sorted.by_column.get(&index).and_then(|relations| relations.equal))
        .collect();
    if equal.iter().all(Option::is_some) {
        let keys = columns
            .iter()
            .zip(equal.iter().flatten())
            .map(|(column, relation)| alternatives(preparation, column, relation))
            .collect::<Result<_>>()?;
        if sorted.tokens.is_empty() {
            return Ok(PartitionRestriction::Keys(keys));
        }
        let tokens = plan_tokens(preparation, table, &sorted.tokens)?;
        return Ok(PartitionRestriction::KeysOfTokens { keys, tokens });
    }
    if let Purpose::Modify { .. } = purpose {
        // `refusal` has a more precise error.
        return Err(Error::invalid("Some partition key parts are missing"));
    }
    for relation in equal.into_iter().flatten() {
        sorted.filters.push(relation);
        sorted.needs_filtering = true;
    }
    if sorted.tokens.is_empty() {
        return Ok(PartitionRestriction::All);
    }
    plan_tokens(preparation, table, &sorted.tokens).map(PartitionRestriction::Token)
}

fn key_names(table: &TableMetadata) -> String {
    let names: Vec<&str> =
        table.partition_key_columns().iter().map(|column| column.name.as_str()).collect();
    names.join(", ")
}

/// Returns the bounds that all `token(...)` relations set together. Each bound may be set once.
fn plan_tokens(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    tokens: &[&Relation<'_>],
) -> Result<TokenBounds> {
    let receiver = preparation.receiver("partition key token", &CqlType::Bigint);
    let mut bounds = TokenBounds::default();
    let mut has_equal = false;
    for relation in tokens {
        let is_equal = matches!(relation.predicate, Predicate::Compare(Operator::Equal, _));
        let is_restricted = bounds.lower.is_some() || bounds.upper.is_some();
        if has_equal || (is_equal && is_restricted) {
            let names = key_names(table);
            let message = if has_equal {
                format!(
                    "{names} cannot be restricted by more than one relation if it includes an Equal"
                )
            } else {
                format!(
                    "Columns \"{names}\" cannot be restricted by both an equality and an inequality relation"
                )
            };
            return Err(preparation.invalid(relation.position, message));
        }
        has_equal |= is_equal;
        let mut bound = |preparation: &mut Preparation<'_>,
                         is_lower: bool,
                         value: &Expression<'_>,
                         inclusive| {
            let side = if is_lower { &mut bounds.lower } else { &mut bounds.upper };
            if side.is_some() {
                let which = if is_lower { "start" } else { "end" };
                let message = format!(
                    "More than one restriction was found for the {which} bound on {}",
                    key_names(table)
                );
                return Err(preparation.invalid(relation.position, message));
            }
            *side =
                Some(TokenBound { term: prepare_term(preparation, value, &receiver)?, inclusive });
            Ok(())
        };
        match &relation.predicate {
            Predicate::Compare(Operator::Equal, value) => {
                bound(preparation, true, value, true)?;
                bound(preparation, false, value, true)?;
            }
            Predicate::Compare(operator, value) => {
                bound(preparation, operator.is_greater(), value, operator.is_inclusive())?;
            }
            Predicate::Between(low, high) => {
                bound(preparation, true, low, true)?;
                bound(preparation, false, high, true)?;
            }
            _ => {}
        }
    }
    Ok(bounds)
}
