//! A uniform row: all its cells carry the row's timestamp. The reader reads only the parts that a
//! copy needs.
//!
//! This node's writer would write a uniform row with the same bytes, except for three numbers. Two
//! of them depend on the file: the length of the preceding item, and the timestamp, which is stored
//! as the difference to the file's least timestamp. The third one, the length of the row's body,
//! includes these two. So a copy takes over the flags, the clustering and all bytes after the
//! timestamp, and encodes the three numbers again.
//!
//! [`UniformRow::read`] returns `None` for any other row, and for a damaged one. The caller then
//! uses [`RowRef`](super::RowRef) or the decoder.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_mutation::{ClusteringComparator, Liveness};
use espalier_types::vint::unsigned_length;

use super::{
    super::{
        clustering_values::{EMPTY, GROUP, NULL},
        column_map::{FileColumn, FileLayout},
        cursor::Cursor,
        input::MAX_VALUE_LENGTH,
        layout::{
            CELL_EMPTY, CELL_ROW_TIMESTAMP, END_OF_PARTITION, HAS_ALL_COLUMNS, HAS_TIMESTAMP,
        },
        ranking::Ranking,
        values::ValueForm,
    },
    row_ref::Span,
};

/// Maximum number of columns in a file with uniform rows. Columns are the bits of an integer, one
/// bit of which stays free.
const MAX_COLUMNS: usize = 63;

/// A uniform row in the bytes from which it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UniformRow {
    pub(crate) timestamp: i64,
    /// A bit for each column of the file, set if the row has the column.
    columns: u64,
    /// The number of its cells.
    pub(crate) cells: u32,
    /// See [`Ranking`].
    rank: Option<i64>,
    /// Range of its flags and its clustering, with the clustering's headers.
    pub(crate) start: Span,
    /// Range of the bytes after the timestamp, up to the row's end: columns and cells.
    pub(crate) rest: Span,
}

/// The position of a row: its clustering, in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UniformPlace<'a> {
    pub(crate) bytes: &'a Bytes,
    clustering: Span,
    forms: &'a [ValueForm],
}

/// The data by which rows are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UniformOrder<'a> {
    /// The value forms of the files that hold the rows.
    pub(crate) forms: &'a [ValueForm],
    pub(crate) ranking: Ranking,
    pub(crate) comparator: &'a ClusteringComparator,
}

/// The kind of the item at which a reader of uniform rows stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UniformStep {
    /// A uniform row.
    Row,
    /// The byte that ends the partition.
    End,
}

/// Returns whether rows of a file can be uniform: each column maps to a simple column of the table.
pub(crate) fn may_have_uniform_rows(layout: &FileLayout) -> bool {
    let is_simple = |column: &FileColumn| {
        let is_whole = column.target.is_some() && column.dropped_time_us == i64::MIN;
        is_whole && !column.is_complex && !column.is_counter
    };
    layout.regulars.len() <= MAX_COLUMNS && layout.regulars.iter().all(is_simple)
}

impl UniformRow {
    /// Reads the row that begins at `start`. Returns `None` if it is no uniform row; the caller
    /// then uses the decoder. The layout must allow uniform rows.
    #[inline]
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        start: usize,
        layout: &FileLayout,
    ) -> Option<UniformStep> {
        let mut cursor = Cursor::new(bytes, start);
        let flags = cursor.u8()?;
        if flags & !HAS_ALL_COLUMNS != HAS_TIMESTAMP {
            return (flags == END_OF_PARTITION).then_some(UniformStep::End);
        }
        let first = pass_clustering(&mut cursor, &layout.clustering)?;
        let rank = first
            .and_then(|(from, to)| bytes.get(from..to))
            .and_then(|first| layout.ranking.rank(first));
        let clustering_end = cursor.at;
        let body_length = usize::try_from(cursor.vint()?).ok()?;
        let end = cursor.at.checked_add(body_length)?;
        cursor.vint()?; // the length of the preceding item
        let timestamp = layout.baselines.timestamp(cursor.vint()?);
        if Liveness::live(timestamp).is_none() {
            return None;
        }
        let rest = cursor.at;
        let all = (1u64 << layout.regulars.len()) - 1;
        let (mut columns, mut cells) = (all, layout.regulars.len() as u32);
        if flags & HAS_ALL_COLUMNS != 0 {
            for column in &layout.regulars {
                pass_cell(&mut cursor, column)?;
            }
        } else {
            let missing = shortest_vint(&mut cursor)?;
            if missing == 0 || missing & !all != 0 {
                return None;
            }
            columns &= !missing;
            cells = columns.count_ones();
            let mut present = columns;
            while present != 0 {
                pass_cell(&mut cursor, layout.regulars.get(present.trailing_zeros() as usize)?)?;
                present &= present - 1;
            }
        }
        if cursor.at != end {
            return None;
        }
        let (start, rest) = ((start, clustering_end), (rest, end));
        *self = Self { timestamp, columns, cells, rank, start, rest };
        Some(UniformStep::Row)
    }

    /// Returns the row's position. The row was read from `bytes`, and `forms` are the value forms
    /// of the file.
    #[inline]
    pub(crate) fn place<'a>(&self, bytes: &'a Bytes, forms: &'a [ValueForm]) -> UniformPlace<'a> {
        let (flags, end) = self.start;
        UniformPlace { bytes, clustering: (flags + 1, end), forms }
    }

    /// Compares the clusterings of this row and of another row of the same table. Each row comes
    /// with the bytes from which it was read.
    #[inline(always)]
    pub(crate) fn compare(
        &self,
        bytes: &Bytes,
        (other, its_bytes): (&Self, &Bytes),
        by: UniformOrder<'_>,
    ) -> Ordering {
        by.ranking.order(self.rank, other.rank).unwrap_or_else(|| {
            let (place, other) = (self.place(bytes, by.forms), other.place(its_bytes, by.forms));
            place.compare(&other, by.comparator)
        })
    }

    /// Returns whether this row is the result of its merge with `other`, which has the same
    /// clustering and lies in a file with the same columns.
    #[inline]
    pub(crate) fn hides(&self, other: &Self) -> bool {
        self.timestamp > other.timestamp && other.columns & !self.columns == 0
    }
}

impl<'a> UniformPlace<'a> {
    /// The length of the clustering with its headers, in bytes.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.clustering.1 - self.clustering.0
    }

    /// The values, in place.
    #[inline]
    pub(crate) fn values(&self) -> UniformValues<'a> {
        let cursor = Cursor::new(self.bytes, self.clustering.0);
        UniformValues { cursor, bytes: self.bytes, forms: self.forms, index: 0, header: 0 }
    }

    /// The values, sharing the memory.
    pub(crate) fn shared_values(&self) -> impl ExactSizeIterator<Item = Option<Bytes>> + 'a {
        let bytes = self.bytes;
        self.values().map(|value| value.map(|value| bytes.slice_ref(value)))
    }

    /// The value, if there is exactly one and it is neither empty nor null.
    #[inline(always)]
    fn only_value(&self) -> Option<&'a [u8]> {
        let [form] = self.forms else { return None };
        let (&header, value) =
            self.bytes.get(self.clustering.0..self.clustering.1)?.split_first()?;
        match (header, form) {
            (0, ValueForm::Fixed(_)) => Some(value),
            (0, ValueForm::Prefixed) => value.get(1 + value.first()?.leading_ones() as usize..),
            _ => None,
        }
    }

    /// Compares the clustering with that of another position in the same table.
    #[inline]
    pub(crate) fn compare(&self, other: &Self, comparator: &ClusteringComparator) -> Ordering {
        // Usually there is one clustering column.
        if let Some((left, right)) = self.only_value().zip(other.only_value()) {
            return comparator.compare_value(0, Some(left), Some(right));
        }
        for (index, (left, right)) in self.values().zip(other.values()).enumerate() {
            let order = comparator.compare_value(index, left, right);
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// The clustering values of a checked row. Reading them cannot fail.
#[derive(Clone, Debug)]
pub(crate) struct UniformValues<'a> {
    cursor: Cursor<'a>,
    bytes: &'a [u8],
    forms: &'a [ValueForm],
    index: usize,
    /// The header of the current group: two bits for each value.
    header: u64,
}

impl<'a> Iterator for UniformValues<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let form = *self.forms.get(self.index)?;
        if self.index.is_multiple_of(GROUP) {
            self.header = self.cursor.vint().unwrap_or_default();
        }
        let kind = self.header >> (2 * (self.index % GROUP)) & 3;
        self.index += 1;
        Some(match kind {
            0 => {
                let span = pass_value(&mut self.cursor, form);
                span.and_then(|(from, to)| self.bytes.get(from..to))
            }
            EMPTY => Some(self.bytes.get(self.cursor.at..self.cursor.at).unwrap_or_default()),
            _ => None,
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.forms.len() - self.index;
        (left, Some(left))
    }
}

impl ExactSizeIterator for UniformValues<'_> {}

/// Steps over the values of a clustering. Returns the range of the first value, unless it is empty
/// or null.
#[inline]
fn pass_clustering(cursor: &mut Cursor<'_>, forms: &[ValueForm]) -> Option<Option<Span>> {
    let (mut rest, mut first) = (forms, None);
    while !rest.is_empty() {
        let (group, behind) = rest.split_at(rest.len().min(GROUP));
        let header = shortest_vint(cursor)?;
        if group.len() < GROUP && header >> (2 * group.len()) != 0 {
            return None;
        }
        for (index, form) in group.iter().enumerate() {
            match header >> (2 * index) & 3 {
                0 => {
                    let span = pass_value(cursor, *form)?;
                    if index == 0 && rest.len() == forms.len() {
                        first = Some(span);
                    }
                }
                EMPTY | NULL => {}
                _ => return None,
            }
        }
        rest = behind;
    }
    Some(first)
}

#[inline(always)]
fn pass_cell(cursor: &mut Cursor<'_>, column: &FileColumn) -> Option<()> {
    match cursor.u8()? {
        CELL_ROW_TIMESTAMP => pass_value(cursor, column.form).map(|_| ()),
        flags => (flags == CELL_ROW_TIMESTAMP | CELL_EMPTY).then_some(()),
    }
}

/// Steps over a value that is not empty; a flag stands for an empty one.
#[inline(always)]
fn pass_value(cursor: &mut Cursor<'_>, form: ValueForm) -> Option<Span> {
    let length = match form {
        ValueForm::Fixed(length) => length,
        ValueForm::Prefixed => match shortest_vint(cursor)? {
            length if length <= MAX_VALUE_LENGTH => length as usize,
            _ => return None,
        },
    };
    if length == 0 {
        return None;
    }
    cursor.span(length)
}

/// Reads an integer that has its shortest form, as a writer would write it.
#[inline(always)]
fn shortest_vint(cursor: &mut Cursor<'_>) -> Option<u64> {
    let start = cursor.at;
    let value = cursor.vint()?;
    (value < 0x80 && cursor.at == start + 1 || cursor.at - start == unsigned_length(value))
        .then_some(value)
}
