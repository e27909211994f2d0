//! A uniform row: all its cells carry the row's timestamp, and nothing in it expires or is deleted.
//! The reader reads only the parts that a copy needs.
//!
//! This node's writer would write a uniform row with the same bytes, except for three numbers. Two
//! of them depend on the file: the length of the preceding item, and the timestamp, which is stored
//! as the difference to the file's least timestamp. The third one is the length of the row's body,
//! which includes the lengths of these two. So a writer copies the flags, the clustering and all
//! bytes after the timestamp, and encodes the three numbers again.
//!
//! [`UniformRow::read`] returns `None` for any other row, and for a damaged one. The caller then
//! uses [`RowRef`](super::RowRef) or the decoder.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_mutation::{
    ClusteringComparator,
    encoding::walk::{REFUSED, RowStart, RowVisitor},
};

use super::{
    super::{
        clustering_values::ClusteringReader,
        column_map::{FileColumn, FileLayout},
        input::{DataInput, Decoded, Span},
        layout::{END_OF_PARTITION, HAS_ALL_COLUMNS, HAS_TIMESTAMP},
        ranking::Ranking,
        values::ValueForm,
    },
    CellSpan, walk_head, walk_row,
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
    /// The rank of the row; see [`Ranking`].
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

/// Returns whether rows of a file can be uniform: the file has at most [`MAX_COLUMNS`] regular
/// columns, and each maps to a simple column, no counter, that the table has never dropped.
pub(crate) fn may_have_uniform_rows(layout: &FileLayout) -> bool {
    let is_simple = |column: &FileColumn| {
        let is_whole = column.target.is_some() && column.dropped_time_us == i64::MIN;
        is_whole && !column.is_complex && !column.is_counter
    };
    layout.regulars.len() <= MAX_COLUMNS && layout.regulars.iter().all(is_simple)
}

impl UniformRow {
    /// Reads the uniform row, or the byte that ends the partition, at `start`. Returns `None` if
    /// neither is there; the caller then uses the decoder. The layout must allow uniform rows.
    #[inline]
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        start: usize,
        layout: &FileLayout,
    ) -> Option<UniformStep> {
        let flags = *bytes.get(start)?;
        if flags & !HAS_ALL_COLUMNS != HAS_TIMESTAMP {
            return (flags == END_OF_PARTITION).then_some(UniformStep::End);
        }
        let mut input = DataInput::new(bytes, start);
        let (mut first, mut is_first) = (None, true);
        let note_first = |span: Option<Span>| {
            if std::mem::take(&mut is_first) {
                first = span.filter(|(from, to)| from < to);
            }
        };
        let head = walk_head(&mut input, layout, true, note_first).ok()??;
        let rank = first
            .and_then(|(from, to)| bytes.get(from..to))
            .and_then(|first| layout.ranking.rank(first));
        let mut copied = Copied { timestamp: 0, columns: 0, cells: 0, start: 0 };
        walk_row(&mut input, &head, layout, &mut copied).ok()?;
        let Copied { timestamp, columns, cells, start: rest } = copied;
        let (start, rest) = ((start, head.values_end), (rest, head.end));
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

    /// Returns true only if this row is the result of its merge with `other`, which has the same
    /// clustering and lies in a file with the same columns.
    #[inline]
    pub(crate) fn hides(&self, other: &Self) -> bool {
        self.timestamp > other.timestamp && other.columns & !self.columns == 0
    }
}

impl<'a> UniformPlace<'a> {
    /// Returns the length of the clustering with its headers, in bytes.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.clustering.1 - self.clustering.0
    }

    /// Returns the values, in place.
    #[inline]
    pub(crate) fn values(&self) -> UniformValues<'a> {
        let input = DataInput::new(self.bytes, self.clustering.0);
        UniformValues { bytes: self.bytes, input, reader: ClusteringReader::new(self.forms) }
    }

    /// Returns the values, which share the memory of the row.
    pub(crate) fn shared_values(&self) -> impl ExactSizeIterator<Item = Option<Bytes>> + 'a {
        let bytes = self.bytes;
        self.values().map(|value| value.map(|value| bytes.slice_ref(value)))
    }

    /// Returns the value, if there is exactly one and it is neither empty nor null.
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

    /// Compares the clustering with the clustering of another position in the same table.
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
    bytes: &'a [u8],
    input: DataInput<'a>,
    reader: ClusteringReader<'a>,
}

impl<'a> Iterator for UniformValues<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.left() == 0 {
            return None;
        }
        let span = self.reader.read(&mut self.input, false).ok().flatten();
        Some(span.and_then(|(from, to)| self.bytes.get(from..to)))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.reader.left(), Some(self.reader.left()))
    }
}

impl ExactSizeIterator for UniformValues<'_> {}

/// The visitor that reads a uniform row.
struct Copied {
    timestamp: i64,
    columns: u64,
    cells: u32,
    /// The offset after the timestamp.
    start: usize,
}

impl RowVisitor for Copied {
    const IS_UNIFORM: bool = true;

    #[inline(always)]
    fn begin(&mut self, row: &RowStart) -> Decoded<usize> {
        if row.liveness.is_none() {
            return Err(REFUSED);
        }
        (self.timestamp, self.start) = (row.liveness.timestamp, row.end);
        Ok(usize::MAX)
    }

    #[inline(always)]
    fn subset(&mut self, present: u64, count: u32) {
        (self.columns, self.cells) = (present, count);
    }

    #[inline(always)]
    fn cell(&mut self, _: &FileColumn, _: CellSpan) -> Decoded<()> {
        Ok(())
    }
}
