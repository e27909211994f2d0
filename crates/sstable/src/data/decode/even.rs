//! A row all of whose cells were written together with it, looked at as far as one must know to copy it.
//!
//! It stands in the file as a writer of today would write it, but for what depends on the file: the length of what is before it, and
//! its timestamp, which is a difference to the file's least. So a copy is its flags, its clustering and all that is behind the
//! timestamp as they are, and those two numbers anew. Of everything else, and of everything that is wrong, [`EvenRow::read`]
//! says that it cannot tell, and [`RowView`](super::RowView) or the decoder is to be asked.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_mutation::{ClusteringComparator, Liveness};
use espalier_types::vint::unsigned_length;

use super::{
    super::{
        clustering_values::{EMPTY, GROUP, NULL, ValueSpans, values_in},
        column_map::{FileColumn, FileLayout},
        cursor::Cursor,
        input::MAXIMUM_VALUE_LENGTH,
        layout::{
            CELL_EMPTY, CELL_ROW_TIMESTAMP, END_OF_PARTITION, HAS_ALL_COLUMNS, HAS_TIMESTAMP,
        },
        values::ValueForm,
    },
    view::Span,
};

/// Columns are the bits of an integer, one bit of which stays free.
const MAXIMUM_COLUMNS: usize = 63;

/// The row that was read last. A place of its own for each scan: the values' places are kept from row to row.
#[derive(Clone, Debug, Default)]
pub(crate) struct EvenRow {
    pub(crate) flags: u8,
    pub(crate) timestamp: i64,
    /// A bit for each column of the file that it has.
    pub(crate) columns: u64,
    /// The clustering, with what stands before its values.
    pub(crate) clustering: Span,
    /// The clustering's values; `None` is null.
    pub(crate) values: ValueSpans,
    /// What is behind the timestamp: columns and cells.
    pub(crate) rest: Span,
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvenStep {
    /// An even row, up to this offset.
    Row(usize),
    /// The byte that ends the partition.
    End,
}

/// Whether rows of a file can be even at all: each cell of theirs belongs to the table and is a simple one.
pub(crate) fn may_have_even_rows(layout: &FileLayout) -> bool {
    let is_simple = |column: &FileColumn| {
        let is_whole = column.target.is_some() && column.dropped_time_us == i64::MIN;
        is_whole && !column.is_complex && !column.is_counter
    };
    layout.regulars.len() <= MAXIMUM_COLUMNS && layout.regulars.iter().all(is_simple)
}

impl EvenRow {
    /// Looks at what begins at `start`; `None`: ask somebody else. The layout must be one that may have such rows.
    #[inline]
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        start: usize,
        layout: &FileLayout,
    ) -> Option<EvenStep> {
        let mut cursor = Cursor::new(bytes, start);
        self.flags = cursor.u8()?;
        if self.flags & !HAS_ALL_COLUMNS != HAS_TIMESTAMP {
            return (self.flags == END_OF_PARTITION).then_some(EvenStep::End);
        }
        let clustering = cursor.at;
        self.read_clustering(&mut cursor, &layout.clustering)?;
        self.clustering = (clustering, cursor.at);
        let body_length = usize::try_from(cursor.vint()?).ok()?;
        let end = cursor.at.checked_add(body_length)?;
        cursor.vint()?; // the length of what is before it
        self.timestamp = layout.baselines.timestamp(cursor.vint()?);
        if Liveness::live(self.timestamp).is_none() {
            return None;
        }
        let rest = cursor.at;
        let all = (1u64 << layout.regulars.len()) - 1;
        self.columns = all;
        if self.flags & HAS_ALL_COLUMNS != 0 {
            for column in &layout.regulars {
                pass_cell(&mut cursor, column)?;
            }
        } else {
            let missing = shortest_vint(&mut cursor)?;
            if missing == 0 || missing & !all != 0 {
                return None;
            }
            self.columns &= !missing;
            let mut present = self.columns;
            while present != 0 {
                pass_cell(&mut cursor, layout.regulars.get(present.trailing_zeros() as usize)?)?;
                present &= present - 1;
            }
        }
        self.rest = (rest, cursor.at);
        (cursor.at == end).then_some(EvenStep::Row(end))
    }

    #[inline]
    fn read_clustering(&mut self, cursor: &mut Cursor<'_>, forms: &[ValueForm]) -> Option<()> {
        self.values.clear();
        let mut rest = forms;
        while !rest.is_empty() {
            let (group, behind) = rest.split_at(rest.len().min(GROUP));
            let header = shortest_vint(cursor)?;
            if group.len() < GROUP && header >> (2 * group.len()) != 0 {
                return None;
            }
            for (index, form) in group.iter().enumerate() {
                self.values.push(match header >> (2 * index) & 3 {
                    0 => Some(pass_value(cursor, *form)?),
                    EMPTY => Some((cursor.at, cursor.at)),
                    NULL => None,
                    _ => return None,
                });
            }
            rest = behind;
        }
        Some(())
    }

    /// How many cells it has.
    #[inline]
    pub(crate) fn cell_count(&self) -> u32 {
        self.columns.count_ones()
    }

    /// Clustering values, where they stand in `bytes`.
    #[inline]
    pub(crate) fn values_in<'a>(
        &'a self,
        bytes: &'a [u8],
    ) -> impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone {
        values_in(bytes, &self.values)
    }

    /// Clustering values that share the memory of `bytes`.
    pub(crate) fn shared_values<'a>(
        &'a self,
        bytes: &'a Bytes,
    ) -> impl ExactSizeIterator<Item = Option<Bytes>> + 'a {
        self.values.iter().map(|span| span.map(|(from, to)| bytes.slice(from..to)))
    }

    /// In clustering order, with a row of the same table that was read from other bytes.
    #[inline]
    pub(crate) fn compare(
        &self,
        bytes: &[u8],
        (other, other_bytes): (&Self, &[u8]),
        comparator: &ClusteringComparator,
    ) -> Ordering {
        let value =
            |bytes, span: Option<Span>| span.and_then(|(from, to)| <[u8]>::get(bytes, from..to));
        for (index, (left, right)) in self.values.iter().zip(&other.values).enumerate() {
            let (left, right) = (value(bytes, *left), value(other_bytes, *right));
            let order = comparator.compare_value(index, left, right);
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    /// Whether a merge of both, at the same place and of files with the same columns, is this one as it is.
    #[inline]
    pub(crate) fn hides(&self, other: &Self) -> bool {
        self.timestamp > other.timestamp && other.columns & !self.columns == 0
    }
}

#[inline(always)]
fn pass_cell(cursor: &mut Cursor<'_>, column: &FileColumn) -> Option<()> {
    match cursor.u8()? {
        CELL_ROW_TIMESTAMP => pass_value(cursor, column.form).map(|_| ()),
        flags => (flags == CELL_ROW_TIMESTAMP | CELL_EMPTY).then_some(()),
    }
}

/// A value that is not empty: one that is has a flag instead.
#[inline(always)]
fn pass_value(cursor: &mut Cursor<'_>, form: ValueForm) -> Option<Span> {
    let length = match form {
        ValueForm::Fixed(length) => length,
        ValueForm::Prefixed => match shortest_vint(cursor)? {
            length if length <= MAXIMUM_VALUE_LENGTH => length as usize,
            _ => return None,
        },
    };
    if length == 0 {
        return None;
    }
    cursor.span(length)
}

/// An integer in the form in which it would be written.
#[inline(always)]
fn shortest_vint(cursor: &mut Cursor<'_>) -> Option<u64> {
    let start = cursor.at;
    let value = cursor.vint()?;
    (value < 0x80 && cursor.at == start + 1 || cursor.at - start == unsigned_length(value))
        .then_some(value)
}
