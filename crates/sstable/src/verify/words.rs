//! Formats statistics for people.

use std::{collections::BTreeMap, fmt::Write};

use bytes::Bytes;
use espalier_mutation::{BoundKind, ClusteringBound};
use espalier_types::{CqlType, literal::to_cql_literal};

use crate::statistics::CoveredClustering;

/// The counts of a histogram, by the upper end of each bin; the bin beyond all ends comes last.
#[derive(Debug)]
pub(super) struct Bins(BTreeMap<(bool, u64), u64>);

impl Bins {
    /// Makes bins from pairs of upper end and count. The bin beyond all ends has no upper end.
    pub(super) fn new(counts: impl Iterator<Item = (Option<u64>, u64)>) -> Self {
        let mut bins = BTreeMap::new();
        for (end, count) in counts {
            let sum: &mut u64 = bins.entry((end.is_none(), end.unwrap_or(0))).or_default();
            *sum = sum.saturating_add(count);
        }
        Self(bins)
    }

    /// Describes the first bin that differs, and the number of others that differ; `ends` is the
    /// word before an end.
    pub(super) fn difference(&self, other: &Self, ends: &str) -> Option<String> {
        let count = |bins: &Self, end| bins.0.get(end).copied().unwrap_or(0);
        let mut all: Vec<_> = self.0.keys().chain(other.0.keys()).collect();
        all.sort();
        all.dedup();
        let mut differing = all.into_iter().filter(|end| count(self, end) != count(other, end));
        let first = differing.next()?;
        let place = match first {
            (true, _) => "beyond all bins".to_owned(),
            (false, end) => format!("{ends} {end}"),
        };
        let (here, there) = (count(self, first), count(other, first));
        let mut text = format!("counts {here} {place}, the data makes {there}");
        match differing.count() {
            0 => {}
            1 => text.push_str(", and 1 more differs"),
            more => {
                let _ = write!(text, ", and {more} more differ");
            }
        }
        Some(text)
    }
}

/// Formats a clustering as `(5, 'x')`.
pub(super) fn clustering_in_words(types: &[(CqlType, bool)], values: &[Option<Bytes>]) -> String {
    let value = |(index, value): (usize, &Option<Bytes>)| match (value, types.get(index)) {
        (None, _) => "null".to_owned(),
        (Some(value), Some((ty, _))) => to_cql_literal(ty, value),
        (Some(value), None) => to_cql_literal(&CqlType::Blob, value),
    };
    let values: Vec<_> = values.iter().enumerate().map(value).collect();
    format!("({})", values.join(", "))
}

/// Formats a slice as `from (5) to (8)`; both ends are included unless the text says otherwise.
pub(super) fn slice_in_words(covered: &CoveredClustering) -> String {
    let CoveredClustering { types, start, end } = covered;
    let bound = |bound: &ClusteringBound, otherwise: &str| {
        if bound.is_unbounded() {
            otherwise.to_owned()
        } else {
            let text = clustering_in_words(types, &bound.values);
            match bound.kind {
                BoundKind::ExclusiveStart | BoundKind::ExclusiveEnd => format!("{text} excluded"),
                _ => text,
            }
        }
    };
    let is_nothing = CoveredClustering::nothing(types.clone()) == *covered;
    if is_nothing {
        "nothing".to_owned()
    } else {
        format!("from {} to {}", bound(start, "the start"), bound(end, "the end"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(counts: &[(Option<u64>, u64)]) -> Bins {
        Bins::new(counts.iter().copied())
    }

    #[test]
    fn the_first_differing_histogram_bin_is_reported() {
        let all = bins(&[(Some(5), 1), (Some(7), 2), (None, 3)]);
        assert_eq!(all.difference(&all, "up to"), None);
        let other = bins(&[(Some(5), 1), (Some(6), 2), (None, 3)]);
        let text = all.difference(&other, "up to").unwrap();
        assert_eq!(text, "counts 0 up to 6, the data makes 2, and 1 more differs");
        let fewer = bins(&[(Some(5), 1), (Some(7), 2)]);
        let text = all.difference(&fewer, "up to").unwrap();
        assert_eq!(text, "counts 3 beyond all bins, the data makes 0");
    }

    #[test]
    fn covered_slices_are_printed_as_literals() {
        let types = vec![(CqlType::Int, false), (CqlType::Text, true)];
        let value = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
        let bound =
            |kind, values: Vec<Option<Bytes>>| ClusteringBound { kind, values: values.into() };
        let covered = CoveredClustering {
            start: bound(BoundKind::InclusiveStart, vec![value(&[0, 0, 0, 5]), value(b"x")]),
            end: bound(BoundKind::ExclusiveEnd, vec![value(&[0, 0, 0, 8])]),
            types: types.clone(),
        };
        assert_eq!(slice_in_words(&covered), "from (5, 'x') to (8) excluded");
        assert_eq!(slice_in_words(&CoveredClustering::nothing(types.clone())), "nothing");
        let open = CoveredClustering { end: ClusteringBound::top(), ..covered };
        assert_eq!(slice_in_words(&open), "from (5, 'x') to the end");
        assert_eq!(clustering_in_words(&types, &[None]), "(null)");
    }
}
