//! Ranks: numbers by which most rows are ordered without comparing their values.
//!
//! The rank of a row is computed from its first clustering value. Of two rows, the row with the
//! lesser rank comes first. Two rows of equal rank may come in any order, unless
//! [`Ranking::is_exact`] is set.

use std::cmp::Ordering;

use espalier_mutation::ClusteringComparator;
use espalier_types::CqlType;

/// The rule by which the first clustering value of a table's rows becomes a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranking {
    kind: Kind,
    is_reversed: bool,
    /// True if rows of equal rank have equal clusterings.
    pub(crate) is_exact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    /// A value is a signed integer of eight bytes.
    Long,
    /// A value is a signed integer of four bytes.
    Int,
    /// Values are ordered by their bytes.
    Bytes,
}

impl Ranking {
    pub(crate) fn of(comparator: &ClusteringComparator) -> Self {
        let first = comparator.types.first();
        let kind = match first.map(|(column_type, _)| column_type) {
            Some(CqlType::Bigint | CqlType::Timestamp) => Kind::Long,
            Some(CqlType::Int) => Kind::Int,
            Some(CqlType::Text | CqlType::Ascii | CqlType::Blob) => Kind::Bytes,
            Some(CqlType::Date | CqlType::Time) => Kind::Bytes,
            _ => Kind::None,
        };
        let is_exact = comparator.types.len() == 1 && matches!(kind, Kind::Long | Kind::Int);
        Self { kind, is_reversed: first.is_some_and(|(_, is_reversed)| *is_reversed), is_exact }
    }

    /// Returns the rank of a row with this first value.
    #[inline(always)]
    pub(crate) fn rank(self, value: &[u8]) -> Option<i64> {
        let ascending = match self.kind {
            Kind::None => return None,
            Kind::Long => i64::from_be_bytes(value.try_into().ok()?),
            Kind::Int => i32::from_be_bytes(value.try_into().ok()?).into(),
            Kind::Bytes => {
                let first = value.first_chunk().map_or_else(|| padded(value), |first| *first);
                (u64::from_be_bytes(first) ^ 1 << 63) as i64
            }
        };
        Some(if self.is_reversed { !ascending } else { ascending })
    }

    /// Returns the order of two rows as far as their ranks decide it.
    #[inline(always)]
    pub(crate) fn order(self, left: Option<i64>, right: Option<i64>) -> Option<Ordering> {
        match (left, right) {
            (Some(left), Some(right)) if left != right || self.is_exact => Some(left.cmp(&right)),
            _ => None,
        }
    }
}

/// Returns the first eight bytes of a value, with zeros after a shorter one. If a value sorts
/// before another value by its bytes, its result is not greater than the result of the other value.
fn padded(value: &[u8]) -> [u8; 8] {
    let mut padded = [0; 8];
    padded.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
    padded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Vec<u8>> {
        let few = prop_oneof![Just(0u8), Just(1), Just(127), Just(128), Just(255), any::<u8>()];
        prop_oneof![
            prop::collection::vec(few.clone(), 0..12),
            prop::collection::vec(few.clone(), 4),
            prop::collection::vec(few, 8),
        ]
    }

    proptest! {
        #[test]
        fn the_order_of_ranks_is_the_order_of_values(
            column_type in prop::sample::select(vec![
                CqlType::Bigint, CqlType::Timestamp, CqlType::Int, CqlType::Text, CqlType::Ascii, CqlType::Blob,
                CqlType::Date, CqlType::Time, CqlType::Timeuuid, CqlType::Varint,
            ]),
            is_reversed: bool,
            left in values(),
            right in values(),
        ) {
            let types = Box::new([(column_type, is_reversed)]);
            let comparator = ClusteringComparator { types };
            let ranking = Ranking::of(&comparator);
            if let Some(order) = ranking.order(ranking.rank(&left), ranking.rank(&right)) {
                prop_assert_eq!(order, comparator.compare_value(0, Some(&left), Some(&right)));
            }
        }
    }

    #[test]
    fn ranks_of_numbers_decide_their_order() {
        let types = Box::new([(CqlType::Bigint, true)]);
        let ranking = Ranking::of(&ClusteringComparator { types });
        let rank = |number: i64| ranking.rank(&number.to_be_bytes());
        assert_eq!(ranking.order(rank(-1), rank(1)), Some(Ordering::Greater));
        assert_eq!(ranking.order(rank(1), rank(1)), Some(Ordering::Equal));
        assert_eq!(ranking.order(rank(1), ranking.rank(&[])), None);
        let types = Box::new([(CqlType::Bigint, false), (CqlType::Bigint, false)]);
        let ranking = Ranking::of(&ClusteringComparator { types });
        assert_eq!(ranking.order(rank(1), rank(1)), None, "the second column decides");
    }
}
