//! Restrictions of clustering columns, and the slices that they select.

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringComparator, ClusteringSlice, ClusteringSlices,
    schema::TableMetadata,
};
use espalier_types::{CqlType, collection};

use super::{
    Alternatives,
    exclusion::{self, Exclusion},
    filter::null_value,
    partition::{check_product, null_in_condition, product},
};
use crate::{
    Error, Result,
    term::{Evaluation, Term},
};

/// A restriction of one clustering column, or of several neighbours at once.
#[derive(Clone, Debug)]
pub enum ClusteringRestriction {
    /// `c = v`, `c IN (...)`.
    Values(Alternatives),
    /// `(c, d) = (v, w)`, `(c, d) IN (...)`: each a tuple of `columns` parts.
    Tuples {
        /// The number of columns.
        columns: usize,
        /// The tuples.
        alternatives: Alternatives,
    },
    /// `c > v AND c <= w`, `(c, d) > (v, w)`, `c NOT IN (...)`. It is always the last restriction.
    Range {
        /// Lower bound.
        lower: Option<RangeBound>,
        /// Upper bound.
        upper: Option<RangeBound>,
        /// The values that NOT IN leaves out.
        excluded: Vec<Exclusion>,
    },
}

/// One side of a range: the value of one column, or a tuple of the values of several.
#[derive(Clone, Debug)]
pub struct RangeBound {
    /// The number of columns.
    pub columns: usize,
    /// The value of the one column, or a tuple of values.
    pub term: Term,
    /// True if `term` is a tuple, also in `(c) > (v)`.
    pub is_tuple: bool,
    /// True if the bound is part of the range (`>=` or `<=`).
    pub inclusive: bool,
}

impl ClusteringRestriction {
    /// Returns the number of columns that it restricts to values, or `None` for a range.
    pub fn equal_column_count(&self) -> Option<usize> {
        match self {
            Self::Values(_) => Some(1),
            Self::Tuples { columns, .. } => Some(*columns),
            Self::Range { .. } => None,
        }
    }
}

/// Number of pairs of slices that count as one combination against the limit on combinations
/// (arbitrary). A comparison of tuples has a slice for each column. Below each prefix, each slice
/// of the lower bound is intersected with each slice of the upper bound.
const PAIRS_OF_A_PREFIX: usize = 16;

pub(super) type Prefix = Vec<Option<Bytes>>;

/// Returns the slices that the restrictions select, in clustering order.
///
/// # Errors
/// A value is null, unset or malformed, or the INs name more than 65,535 combinations.
pub fn slices(
    table: &TableMetadata,
    restrictions: &[ClusteringRestriction],
    evaluation: &Evaluation<'_>,
) -> Result<ClusteringSlices> {
    if restrictions.is_empty() {
        return Ok(ClusteringSlices::all());
    }
    let columns = table.clustering_columns();
    let mut prefixes: Vec<Prefix> = vec![Vec::with_capacity(columns.len())];
    let mut slices = Vec::new();
    let mut at = 0;
    for restriction in restrictions {
        let name_at = |at: usize| columns.get(at).map_or("", |column| column.name.as_str());
        let name = name_at(at);
        match restriction {
            ClusteringRestriction::Values(alternatives) => {
                let values = alternatives.evaluate(name, evaluation)?;
                let values: Prefix = values.into_iter().map(Some).collect();
                prefixes = product(&prefixes, values.iter().map(std::slice::from_ref))?;
                at += 1;
            }
            ClusteringRestriction::Tuples { columns: count, alternatives } => {
                let null = |index: usize| {
                    if !alternatives.is_in() {
                        return null_value(name_at(at + index));
                    }
                    let names: Vec<&str> = (at..at + count).map(name_at).collect();
                    Error::invalid(format!(
                        "Invalid null value in condition for columns: [{}]",
                        names.join(", ")
                    ))
                };
                let tuples = alternatives
                    .evaluate(name, evaluation)?
                    .iter()
                    .map(|tuple| tuple_values(tuple, *count, || malformed_tuple(name), null))
                    .collect::<Result<Vec<_>>>()?;
                prefixes = product(&prefixes, tuples.iter().map(Vec::as_slice))?;
                at += count;
            }
            ClusteringRestriction::Range { lower, upper, excluded } => {
                let null = |index: usize| null_in_condition(name_at(at + index));
                let values = |bound: &RangeBound| bound.values(name, evaluation, null);
                let lower = lower.as_ref().map(values).transpose()?;
                let upper = upper.as_ref().map(values).transpose()?;
                let excluded = exclusion::values(table, at, excluded, evaluation)?;
                check_product(prefixes.len(), excluded.len() + 1)?;
                let parts = |bound: &Option<(Prefix, bool)>| {
                    bound.as_ref().map_or(1, |(values, _)| values.len())
                };
                let pairs = parts(&lower) * parts(&upper);
                check_product(prefixes.len(), pairs.div_ceil(PAIRS_OF_A_PREFIX))?;
                for prefix in &prefixes {
                    let begin = slices.len();
                    range_slices(table, at, prefix, lower.as_ref(), upper.as_ref(), &mut slices);
                    if !excluded.is_empty() {
                        let range = slices.split_off(begin);
                        exclusion::subtract(table, prefix, &excluded, range, &mut slices);
                    }
                }
                return Ok(ClusteringSlices::normalise(slices, table.comparator()));
            }
        }
    }
    slices.extend(prefixes.into_iter().map(|prefix| ClusteringSlice::prefix(prefix.into())));
    Ok(ClusteringSlices::normalise(slices, table.comparator()))
}

fn malformed_tuple(column: &str) -> Error {
    Error::invalid(format!("Invalid tuple value in condition for column {column}"))
}

/// Returns the `count` parts of a tuple. `malformed` creates the error for other bytes, `null` the
/// error for a null part from its index.
pub(super) fn tuple_values(
    tuple: &Bytes,
    count: usize,
    malformed: impl Fn() -> Error,
    null: impl Fn(usize) -> Error,
) -> Result<Prefix> {
    let fields =
        collection::fields(tuple).collect::<Result<Vec<_>, _>>().map_err(|_| malformed())?;
    if fields.len() != count {
        return Err(malformed());
    }
    fields
        .into_iter()
        .enumerate()
        .map(|(index, field)| {
            field.map(|bytes| Some(tuple.slice_ref(bytes))).ok_or_else(|| null(index))
        })
        .collect()
}

impl RangeBound {
    /// Evaluates the bound. `null` creates the error for a null value from the index of its column.
    fn values(
        &self,
        column: &str,
        evaluation: &Evaluation<'_>,
        null: impl Fn(usize) -> Error,
    ) -> Result<(Prefix, bool)> {
        let value = self.term.evaluate(evaluation)?.required(format_args!("column {column}"))?;
        let value = value.ok_or_else(|| null(0))?;
        let values = if self.is_tuple {
            tuple_values(&value, self.columns, || malformed_tuple(column), null)?
        } else {
            vec![Some(value)]
        };
        Ok((values, self.inclusive))
    }
}

/// Appends the slices for `lower < (c_at, ...) < upper` below a prefix.
///
/// A comparison of tuples is split: `(a, b) > (1, 2)` is `a = 1 AND b > 2` or `a > 1`. The bounds
/// of each slice differ in one column only, so ascending and descending columns may be mixed.
fn range_slices(
    table: &TableMetadata,
    at: usize,
    prefix: &Prefix,
    lower: Option<&(Prefix, bool)>,
    upper: Option<&(Prefix, bool)>,
    slices: &mut Vec<ClusteringSlice>,
) {
    let lower_parts =
        lower.map(|(values, inclusive)| parts(table, at, prefix, values, *inclusive, true));
    let upper_parts =
        upper.map(|(values, inclusive)| parts(table, at, prefix, values, *inclusive, false));
    match (lower_parts, upper_parts) {
        (Some(parts), None) | (None, Some(parts)) => slices.extend(parts),
        (Some(lowers), Some(uppers)) => {
            let comparator = table.comparator();
            for l in &lowers {
                let common = uppers.iter().map(|u| intersection(comparator, l, u));
                slices.extend(common.filter(|slice| !slice.is_empty(comparator)));
            }
        }
        (None, None) => slices.push(ClusteringSlice::prefix(prefix.clone().into())),
    }
}

/// Returns the common part of two slices, which may be empty.
pub(super) fn intersection(
    comparator: &ClusteringComparator,
    left: &ClusteringSlice,
    right: &ClusteringSlice,
) -> ClusteringSlice {
    let start = match comparator.compare(left.start.position(), right.start.position()) {
        std::cmp::Ordering::Less => &right.start,
        _ => &left.start,
    };
    let end = match comparator.compare(left.end.position(), right.end.position()) {
        std::cmp::Ordering::Less => &left.end,
        _ => &right.end,
    };
    ClusteringSlice { start: start.clone(), end: end.clone() }
}

fn parts(
    table: &TableMetadata,
    at: usize,
    prefix: &Prefix,
    values: &Prefix,
    inclusive: bool,
    is_lower: bool,
) -> Vec<ClusteringSlice> {
    let columns = table.clustering_columns();
    let mut result = Vec::with_capacity(values.len());
    for last in 0..values.len() {
        let common: Prefix = prefix.iter().chain(&values[..last]).cloned().collect();
        let bounded: Prefix = prefix.iter().chain(&values[..=last]).cloned().collect();
        let reversed = columns.get(at + last).is_some_and(|column| column.reversed);
        let inclusive = inclusive && last + 1 == values.len();
        // In a descending column greater values come first, so a lower bound is the end of the
        // slice.
        let slice = if is_lower != reversed {
            let kind =
                if inclusive { BoundKind::InclusiveStart } else { BoundKind::ExclusiveStart };
            ClusteringSlice {
                start: ClusteringBound { kind, values: bounded.into() },
                end: ClusteringBound { kind: BoundKind::InclusiveEnd, values: common.into() },
            }
        } else {
            let kind = if inclusive { BoundKind::InclusiveEnd } else { BoundKind::ExclusiveEnd };
            ClusteringSlice {
                start: ClusteringBound { kind: BoundKind::InclusiveStart, values: common.into() },
                end: ClusteringBound { kind, values: bounded.into() },
            }
        };
        result.push(slice);
    }
    result
}

/// Returns the type of a tuple of `count` columns from `at`.
pub fn tuple_type(table: &TableMetadata, at: usize, count: usize) -> CqlType {
    let columns = table.clustering_columns();
    CqlType::Tuple(
        columns[at..at + count].iter().map(|column| column.column_type.clone()).collect(),
    )
}

#[cfg(test)]
mod tests {
    use espalier_mutation::{
        Clustering,
        schema::{TableBuilder, TableId},
    };
    use uuid::Uuid;

    use super::*;

    fn table(columns: usize) -> TableMetadata {
        let id = TableId(Uuid::from_u128(1));
        let builder = TableBuilder::new("ks", "t", id).partition_key("k", CqlType::Int);
        let add = |builder: TableBuilder, number| {
            builder.clustering(&format!("c{number}"), CqlType::Int, number % 3 == 1)
        };
        (0..columns).fold(builder, add).build()
    }

    fn prefix(values: &[i32]) -> Prefix {
        values.iter().map(|value| Some(Bytes::copy_from_slice(&value.to_be_bytes()))).collect()
    }

    /// Returns the slices of a range without the excluded values, and asserts that they are few.
    fn subtracted(
        table: &TableMetadata,
        bounds: [Option<&(Prefix, bool)>; 2],
        excluded: &[Prefix],
    ) -> (Vec<ClusteringSlice>, ClusteringSlices) {
        let (mut range, mut slices) = (Vec::new(), Vec::new());
        range_slices(table, 0, &Prefix::new(), bounds[0], bounds[1], &mut range);
        exclusion::subtract(table, &Prefix::new(), excluded, range.clone(), &mut slices);
        assert!(slices.len() <= range.len() + excluded.len(), "{}", slices.len());
        (range, ClusteringSlices::normalise(slices, table.comparator()))
    }

    #[test]
    fn excluded_values_leave_the_other_rows_of_a_range() {
        let table = table(3);
        let lists: [&[&[i32]]; 4] =
            [&[&[1]], &[&[0], &[1, 1], &[3]], &[&[2, 2, 2], &[1, 1, 1], &[1, 1]], &[&[2, 1], &[2]]];
        let bounds: [Option<&[i32]>; 5] =
            [None, Some(&[1]), Some(&[2]), Some(&[1, 2]), Some(&[2, 1, 2])];
        // Each combination of a list, two bounds, and whether the bounds are inclusive.
        for case in 0..4 * 5 * 5 * 2 {
            let excluded: Vec<_> = lists[case / 50].iter().map(|values| prefix(values)).collect();
            let bound =
                |number: usize| bounds[number % 5].map(|values| (prefix(values), case % 2 == 0));
            let (lower, upper) = (bound(case / 10), bound(case / 2));
            let (range, slices) = subtracted(&table, [lower.as_ref(), upper.as_ref()], &excluded);
            for number in 0..64 {
                let row = prefix(&[number / 16, number / 4 % 4, number % 4]);
                let is_excluded = excluded.iter().any(|values| row.starts_with(values));
                let row = Clustering { values: row.into() };
                let comparator = table.comparator();
                let is_in_range =
                    range.iter().any(|slice| slice.contains(comparator, row.position()));
                let wanted = is_in_range && !is_excluded;
                let case = (&lower, &upper, &excluded, &row);
                assert_eq!(slices.contains(comparator, row.position()), wanted, "{case:?}");
            }
        }
    }

    #[test]
    fn a_comparison_of_tuples_without_many_values_has_few_slices() {
        let table = table(100);
        let [lower, upper] = [1, 1000].map(|value| (prefix(&[value; 100]), true));
        let excluded: Vec<_> = (1..1000).map(|value| prefix(&[value])).collect();
        subtracted(&table, [Some(&lower), Some(&upper)], &excluded);
    }
}
