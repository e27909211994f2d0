//! NOT IN on clustering columns: the gaps between the excluded values.

use espalier_mutation::{BoundKind, ClusteringBound, ClusteringSlice, schema::TableMetadata};

use super::{
    Alternatives,
    clustering::{Prefix, intersection, tuple_values},
};
use crate::{Error, Result, term::Evaluation};

/// The values of one NOT IN.
#[derive(Clone, Debug)]
pub struct Exclusion {
    /// The number of columns.
    pub columns: usize,
    /// True if each value is a tuple, also in `(c) NOT IN ((v))`.
    pub is_tuple: bool,
    /// The values.
    pub values: Alternatives,
}

/// Evaluates the values that `exclusions` leave out. The first column of each exclusion is the
/// clustering column at `at`.
///
/// # Errors
/// A value is null, unset or malformed.
pub(super) fn values(
    table: &TableMetadata,
    at: usize,
    exclusions: &[Exclusion],
    evaluation: &Evaluation<'_>,
) -> Result<Vec<Prefix>> {
    let mut excluded = Vec::new();
    for exclusion in exclusions {
        let columns = table.clustering_columns().iter().skip(at).take(exclusion.columns);
        let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
        let first = names.first().copied().unwrap_or_default();
        let all = || names.join(", ");
        let malformed = || Error::invalid(format!("Invalid tuple value for ({})", all()));
        let null = |index: usize| {
            let name = names[index];
            Error::invalid(format!("Invalid null value for {name} in tuple ({})", all()))
        };
        let values = exclusion.values.evaluate_excluded(first, evaluation)?;
        for value in values {
            excluded.push(if exclusion.is_tuple {
                tuple_values(&value, names.len(), malformed, null)?
            } else {
                vec![Some(value)]
            });
        }
    }
    Ok(excluded)
}

/// Adds the parts of `range` outside of the excluded values. All slices are below `prefix`.
///
/// The function sorts the values, finds the gaps between them in one pass, and walks through the
/// gaps and the disjoint slices of `range` together. So it adds fewer slices than the values and
/// `range` have together, and not one for each pair.
pub(super) fn subtract(
    table: &TableMetadata,
    prefix: &Prefix,
    excluded: &[Prefix],
    mut range: Vec<ClusteringSlice>,
    slices: &mut Vec<ClusteringSlice>,
) {
    let comparator = table.comparator();
    let bound = |kind, values: &Prefix| ClusteringBound {
        kind,
        values: prefix.iter().chain(values).cloned().collect::<Prefix>().into(),
    };
    let whole = ClusteringSlice::prefix(prefix.clone().into());
    let mut bounds: Vec<_> =
        excluded.iter().map(|values| (bound(BoundKind::ExclusiveEnd, values), values)).collect();
    bounds.sort_by(|(left, _), (right, _)| comparator.compare(left.position(), right.position()));
    let mut start = whole.start;
    let mut gaps = Vec::with_capacity(bounds.len() + 1);
    for (end, values) in bounds {
        let after = bound(BoundKind::ExclusiveStart, values);
        if comparator.compare(start.position(), after.position()).is_lt() {
            gaps.push(ClusteringSlice { start, end });
            start = after;
        }
    }
    gaps.push(ClusteringSlice { start, end: whole.end });
    // The slices of a comparison of tuples are disjoint, but in no order.
    range.sort_by(|left, right| comparator.compare(left.start.position(), right.start.position()));
    let (mut parts, mut gaps) = (range.iter().peekable(), gaps.iter().peekable());
    while let (Some(part), Some(gap)) = (parts.peek(), gaps.peek()) {
        let common = intersection(comparator, part, gap);
        if !common.is_empty(comparator) {
            slices.push(common);
        }
        if comparator.compare(part.end.position(), gap.end.position()).is_lt() {
            parts.next();
        } else {
            gaps.next();
        }
    }
}
