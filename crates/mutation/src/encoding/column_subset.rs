//! The set of the header's columns that a row has. Format: docs/formats/data.md.
//!
//! If the header has fewer than 64 columns, the set is a vint, and bit i is set if column i is
//! *missing*. Otherwise the set is a list: a vint with the number of missing columns, then a vint
//! for each listed index. The list has the present columns if fewer than half (rounded down) are
//! present, and the missing columns if not.

use espalier_types::vint;
use smallvec::SmallVec;

use super::input::{DataInput, Decoded, Malformed};

/// The number of columns from which on the set is a list.
pub(super) const BITMAP_LIMIT: usize = 64;

/// The columns of a row, as ascending indices into the header's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnSubset {
    /// All columns, with their number.
    All(usize),
    /// The columns whose bit is set.
    Bits(u64),
    /// The columns with these indices.
    Indices(SmallVec<[u32; 16]>),
}

impl ColumnSubset {
    /// Reads the subset of `count` columns.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end inside the subset or do not follow the format.
    #[inline]
    pub fn read(input: &mut DataInput<'_>, count: usize) -> Decoded<Self> {
        if count < BITMAP_LIMIT {
            return Self::read_bits(input, count, false).map(Self::Bits);
        }
        let first = input.vint()?;
        let missing = usize::try_from(first).ok().filter(|&missing| missing <= count);
        let missing = missing.ok_or(Malformed::Wrong("more columns are missing than there are"))?;
        let present = count - missing;
        if missing == 0 {
            return Ok(Self::All(count));
        }
        let lists_present = present < count / 2;
        let listed = if lists_present { present } else { missing };
        let mut indices = SmallVec::with_capacity(if lists_present { present } else { 0 });
        // The next index that is not decided yet.
        let mut next = 0u32;
        for _ in 0..listed {
            let index = input.vint()?;
            let index = u32::try_from(index).ok().filter(|&i| (i as usize) < count && i >= next);
            let index = index.ok_or(Malformed::Wrong("column indices do not ascend"))?;
            if lists_present {
                indices.push(index)
            } else {
                indices.extend(next..index)
            }
            next = index + 1;
        }
        if !lists_present {
            indices.extend(next..count as u32);
        }
        Ok(Self::Indices(indices))
    }

    /// Reads the subset of `count` columns, fewer than 64, as the bits of the columns that are
    /// present. If `is_exact`, refuses a subset that a writer does not write, such as the subset of
    /// all columns.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end inside the subset or do not follow the format.
    #[inline(always)]
    pub(super) fn read_bits(
        input: &mut DataInput<'_>,
        count: usize,
        is_exact: bool,
    ) -> Decoded<u64> {
        let all = (1u64 << count) - 1;
        let missing = input.number(is_exact)?;
        if missing & !all != 0 {
            return Err(Malformed::Wrong("a column is missing that the header does not have"));
        }
        if is_exact && missing == 0 {
            return Err(Malformed::Wrong("a subset of all columns without its flag"));
        }
        Ok(!missing & all)
    }

    /// Returns an iterator over the indices.
    #[inline]
    pub fn iter(&self) -> SubsetIterator<'_> {
        match self {
            Self::All(count) => SubsetIterator::Range(0, *count),
            Self::Bits(bits) => SubsetIterator::Bits(*bits),
            Self::Indices(indices) => SubsetIterator::Indices(indices.iter()),
        }
    }
}

/// Iterates over a subset.
pub enum SubsetIterator<'a> {
    /// All indices from the first to before the second.
    Range(usize, usize),
    /// The set bits.
    Bits(u64),
    /// These indices.
    Indices(std::slice::Iter<'a, u32>),
}

impl Iterator for SubsetIterator<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        match self {
            Self::Range(next, end) => {
                let index = *next;
                *next += 1;
                (index < *end).then_some(index)
            }
            Self::Bits(0) => None,
            Self::Bits(bits) => {
                let index = bits.trailing_zeros() as usize;
                *bits &= *bits - 1;
                Some(index)
            }
            Self::Indices(indices) => indices.next().map(|&index| index as usize),
        }
    }
}

/// Appends the subset of `count` columns that holds the indices `present`, which ascend.
#[inline]
pub fn write(count: usize, present: &[u32], out: &mut Vec<u8>) {
    if count < BITMAP_LIMIT {
        let all = (1u64 << count) - 1;
        let bits = present.iter().fold(0u64, |bits, &index| bits | 1 << index);
        vint::write_unsigned(all & !bits, out);
        return;
    }
    vint::write_unsigned((count - present.len()) as u64, out);
    if present.len() == count {
    } else if present.len() < count / 2 {
        present.iter().for_each(|&index| vint::write_unsigned(u64::from(index), out));
    } else {
        let mut present = present.iter().peekable();
        for index in 0..count as u32 {
            match present.next_if_eq(&&index) {
                Some(_) => {}
                None => vint::write_unsigned(u64::from(index), out),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn subsets_round_trip(count in prop::sample::select(vec![0usize, 1, 2, 63, 64, 65, 130]), seed in any::<u64>(), density in 0u64..=8) {
            let present: Vec<u32> = (0..count as u32)
                .filter(|&i| seed.wrapping_mul(u64::from(i) * 2 + 1).rotate_left(i) % 8 < density)
                .collect();
            let mut out = Vec::new();
            write(count, &present, &mut out);
            let bytes = Bytes::from(out);
            let mut input = DataInput::new(&bytes, 0);
            let subset = ColumnSubset::read(&mut input, count).unwrap();
            prop_assert_eq!(input.offset(), bytes.len());
            let read: Vec<u32> = subset.iter().map(|index| index as u32).collect();
            prop_assert_eq!(read, present);
        }

        #[test]
        fn garbage_gives_ascending_indices_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40), count in 0usize..150) {
            let bytes = Bytes::from(bytes);
            if let Ok(subset) = ColumnSubset::read(&mut DataInput::new(&bytes, 0), count) {
                let indices: Vec<_> = subset.iter().collect();
                prop_assert!(indices.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(indices.iter().all(|&index| index < count));
            }
        }
    }
}
