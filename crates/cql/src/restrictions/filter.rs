//! Filters: conditions that are tested on each row.

use std::{cmp::Ordering, sync::Arc};

use bytes::Bytes;
use espalier_mutation::schema::{ColumnDefinition, TermIndex};
use espalier_types::{CqlType, TextAnalysis, collection};

use super::Alternatives;
use crate::{
    Error, Result,
    grammar::ast::ComparisonOperator,
    term::{Bound, Evaluation, Term},
};

/// A condition on one value of a row.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The column that is tested.
    pub column: ColumnDefinition,
    /// The key, if an element of a map is tested (`m[key]`).
    pub key: Option<Term>,
    /// The condition that it must satisfy.
    pub operator: FilterOperator,
    /// True if the value must not satisfy the condition: NOT IN, NOT CONTAINS, NOT CONTAINS KEY.
    pub is_negated: bool,
    /// The analysis of the texts that the condition compares, by the index that serves the
    /// condition.
    pub analysis: TextAnalysis,
}

/// The conditions.
#[derive(Clone, Debug)]
pub enum FilterOperator {
    /// A comparison.
    Compare(ComparisonOperator, Term),
    /// Equal to one of these values.
    In(Alternatives),
    /// A collection has the element (the value, in a map).
    Contains(Term),
    /// A map has the key.
    ContainsKey(Term),
    /// A text matches a pattern, by the analyzer of an index.
    Like(Term, Arc<TermIndex>),
}

impl Filter {
    /// Returns whether the condition leaves one value of `column`.
    pub fn fixes(&self, column: &ColumnDefinition) -> bool {
        let is_equality = match &self.operator {
            FilterOperator::Compare(operator, _) => *operator == ComparisonOperator::Equal,
            FilterOperator::In(alternatives) => !alternatives.is_in(),
            FilterOperator::Contains(_)
            | FilterOperator::ContainsKey(_)
            | FilterOperator::Like(..) => false,
        };
        !self.is_negated && is_equality && self.key.is_none() && self.column.name == column.name
    }
}

/// Creates the error for a null in NOT IN, NOT CONTAINS and NOT CONTAINS KEY.
#[cold]
pub(super) fn null_value(column: &str) -> Error {
    Error::invalid(format!("Invalid null value for column {column}"))
}

/// Returns whether an ordering satisfies an operator.
pub fn holds(operator: ComparisonOperator, ordering: Ordering) -> bool {
    match operator {
        ComparisonOperator::Equal => ordering.is_eq(),
        ComparisonOperator::NotEqual => ordering.is_ne(),
        ComparisonOperator::Less => ordering.is_lt(),
        ComparisonOperator::LessOrEqual => ordering.is_le(),
        ComparisonOperator::Greater => ordering.is_gt(),
        ComparisonOperator::GreaterOrEqual => ordering.is_ge(),
    }
}

/// Evaluates a term that may be neither null nor unset. `what` names the term's part in the
/// condition.
pub(super) fn required_as(
    term: &Term,
    column: &str,
    what: &str,
    evaluation: &Evaluation<'_>,
) -> Result<Bytes> {
    let state = match term.evaluate(evaluation)? {
        Bound::Value(value) => return Ok(value),
        Bound::Null => "null",
        Bound::Unset => "unset",
    };
    Err(Error::invalid(format!("Unsupported {state} {what} for column {column}")))
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::new(crate::ErrorCode::ServerError, format!("a stored collection is malformed: {error}"))
}

/// Returns an element of a frozen collection with its type. `key` is the key in a map, the index in
/// a list, or the element itself in a set.
///
/// # Errors
/// The collection is malformed, or the type is not a list, set or map.
pub fn element(
    column_type: &CqlType,
    value: &Bytes,
    key: &[u8],
) -> Result<(CqlType, Option<Bytes>)> {
    Ok(match column_type {
        CqlType::Map { key: key_type, value: value_type, .. } => {
            let mut found = None;
            for entry in collection::entries(value).map_err(malformed)? {
                let (k, v) = entry.map_err(malformed)?;
                if key_type.compare(k, key).is_eq() {
                    found = Some(value.slice_ref(v));
                    break;
                }
            }
            (value_type.as_ref().clone(), found)
        }
        CqlType::List { element, .. } => {
            let index = <[u8; 4]>::try_from(key).map(i32::from_be_bytes).unwrap_or(-1);
            let Ok(index) = usize::try_from(index) else {
                return Ok((element.as_ref().clone(), None));
            };
            let mut elements = collection::elements(value).map_err(malformed)?;
            let found = elements.nth(index).transpose().map_err(malformed)?.flatten();
            (element.as_ref().clone(), found.map(|v| value.slice_ref(v)))
        }
        CqlType::Set { element, .. } => {
            let mut found = None;
            for candidate in collection::elements(value).map_err(malformed)? {
                let candidate = candidate.map_err(malformed)?;
                if let Some(candidate) = candidate.filter(|c| element.compare(c, key).is_eq()) {
                    found = Some(value.slice_ref(candidate));
                    break;
                }
            }
            (element.as_ref().clone(), found)
        }
        other => return Err(Error::invalid(format!("{} has no elements", other.cql_name()))),
    })
}

/// Returns whether a frozen collection has an element or value, or (`in_keys`) a key.
///
/// # Errors
/// The collection is malformed, or the type is not a list, set or map.
pub fn contains(
    column_type: &CqlType,
    value: &Bytes,
    wanted: &[u8],
    in_keys: bool,
) -> Result<bool> {
    contains_as(column_type, value, wanted, in_keys, TextAnalysis::default())
}

/// Returns whether a frozen collection has a value, as [`contains`] does, but compares the analysed
/// texts of the collection with `wanted`, an analysed text.
pub(super) fn contains_as(
    column_type: &CqlType,
    value: &Bytes,
    wanted: &[u8],
    in_keys: bool,
    analysis: TextAnalysis,
) -> Result<bool> {
    let is_wanted = |candidate_type: &CqlType, candidate: &[u8]| {
        if analysis.is_plain() {
            candidate_type.compare(candidate, wanted).is_eq()
        } else {
            *analysis.apply(candidate) == *wanted
        }
    };
    match column_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            for candidate in collection::elements(value).map_err(malformed)? {
                if candidate.map_err(malformed)?.is_some_and(|found| is_wanted(element, found)) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        CqlType::Map { key, value: value_type, .. } => {
            for entry in collection::entries(value).map_err(malformed)? {
                let (k, v) = entry.map_err(malformed)?;
                let found = if in_keys { is_wanted(key, k) } else { is_wanted(value_type, v) };
                if found {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        other => Err(Error::invalid(format!(
            "CONTAINS cannot be used on a column of type {}",
            other.cql_name()
        ))),
    }
}
