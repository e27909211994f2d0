//! The walk over the body of a row. Only this code implements the order of liveness, deletions,
//! columns and cells. A visitor receives each part in place, in the order of the bytes.
//!
//! | visitor | what it makes of a row |
//! | --- | --- |
//! | `RowBuilder` of [`row`](super::row) | a [`Row`](crate::Row), for reads, merges and messages |
//! | `RowRef` of `espalier_sstable` | ranges of cells, to pack, copy, scan or print it |
//! | `UniformRow` of `espalier_sstable` | the ranges that a copy takes over |
//!
//! The walk is generic over its visitor and compiled for each: it makes no object, allocates only
//! if the header has 64 columns or more, and leaves out the parts that a visitor refuses.

use super::{
    baselines::Baselines,
    cell::{CellSpan, read_cell, read_element, read_positive_ttl},
    column::EncodedColumn,
    column_subset::{BITMAP_LIMIT, ColumnSubset},
    flags::{
        EXTENDED_SHADOWABLE, EXTENDED_SHADOWABLE_FOLLOWS, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION,
        HAS_DELETION, HAS_TIMESTAMP, HAS_TTL,
    },
    input::{DataInput, Decoded, Malformed, Span},
};
use crate::{DeletionTime, Liveness, NO_DELETION_TIME};

/// The error of a visitor that refuses a row that another visitor may accept.
pub const REFUSED: Malformed = Malformed::Wrong("a row that is not read in place");

/// The parts of a row's body before its columns.
#[derive(Clone, Copy, Debug)]
pub struct RowStart {
    /// The flags of the row.
    pub flags: u8,
    /// The liveness of the primary key.
    pub liveness: Liveness,
    /// The deletion of the row.
    pub deletion: DeletionTime,
    /// The shadowable deletion of the row.
    pub shadowable_deletion: DeletionTime,
    /// The offset after these parts.
    pub end: usize,
}

/// A reader of one row, which [`walk_row_body`] calls.
///
/// An error ends the walk. A visitor returns [`REFUSED`] for a row that it does not handle.
pub trait RowVisitor {
    /// True if the visitor accepts only uniform rows, in the form of this node's writer: all cells
    /// have the row's timestamp, no number is longer than it must be, and flags mark empty values.
    /// The header then has fewer than 64 columns, all of them simple.
    const IS_UNIFORM: bool = false;

    /// Begins the row. Returns the number of the header's first columns that the visitor reads. The
    /// walk ends before the cell of any other column.
    fn begin(&mut self, row: &RowStart) -> Decoded<usize>;

    /// Receives the set of the row's columns, a bit for each, and their number. The walk does not
    /// call it if the header has 64 columns or more, or if [`Self::begin`] returned 0 for a header
    /// that has columns.
    #[inline]
    fn subset(&mut self, _present: u64, _count: u32) {}

    /// Receives the cell of a simple column.
    fn cell(&mut self, column: &EncodedColumn, cell: CellSpan) -> Decoded<()>;

    /// Begins a complex column.
    #[inline]
    fn begin_complex(&mut self) -> Decoded<()> {
        Err(REFUSED)
    }

    /// Receives a cell of the complex column and the range of its path.
    #[inline]
    fn element(&mut self, _column: &EncodedColumn, _path: Span, _cell: CellSpan) {}

    /// Ends the complex column.
    #[inline]
    fn end_complex(&mut self, _column: &EncodedColumn, _deletion: DeletionTime) {}
}

/// Walks over the body of a row, after its clustering and the lengths of an SSTable. `flags` and
/// `extended` are the flags of its head. Returns whether the visitor reads all columns, so that
/// `input` is at the end of the body.
///
/// # Errors
///
/// Fails if the bytes end inside the body or do not follow the format, or if the visitor refuses
/// the row.
#[inline(always)]
pub fn walk_row_body<V: RowVisitor>(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    (flags, extended): (u8, u8),
    columns: &[EncodedColumn],
    visitor: &mut V,
) -> Decoded<bool> {
    let mut liveness = Liveness::NONE;
    if flags & HAS_TIMESTAMP != 0 {
        liveness = Liveness::live(baselines.read_timestamp(input)?);
        if flags & HAS_TTL != 0 {
            liveness.ttl = read_positive_ttl(input, baselines)?;
            liveness.local_expiration = baselines.read_local_deletion_time(input)?;
        }
    }
    let (mut deletion, mut shadowable_deletion) = (DeletionTime::LIVE, DeletionTime::LIVE);
    if flags & HAS_DELETION != 0 {
        deletion = baselines.read_deletion(input)?;
    }
    if extended != 0 {
        shadowable_deletion = read_shadowable(input, baselines, extended, &mut deletion)?;
    }
    let end = input.offset();
    let row = RowStart { flags, liveness, deletion, shadowable_deletion, end };
    let taken = visitor.begin(&row)?;
    let takes_all = taken >= columns.len();
    if taken == 0 && !takes_all {
        return Ok(false);
    }
    if flags & HAS_ALL_COLUMNS != 0 {
        if columns.len() < BITMAP_LIMIT {
            visitor.subset((1 << columns.len()) - 1, columns.len() as u32);
        }
        for (index, column) in columns.iter().enumerate().take(taken) {
            walk_column(input, baselines, &row, (index, column), visitor)?;
        }
    } else if columns.len() < BITMAP_LIMIT {
        let mut present = ColumnSubset::read_bits(input, columns.len(), V::IS_UNIFORM)?;
        visitor.subset(present, present.count_ones());
        if !takes_all {
            present &= (1 << taken) - 1;
        }
        while present != 0 {
            let index = present.trailing_zeros() as usize;
            let Some(column) = columns.get(index) else { break };
            walk_column(input, baselines, &row, (index, column), visitor)?;
            present &= present - 1;
        }
    } else {
        walk_listed(input, baselines, &row, columns, taken, visitor)?;
    }
    Ok(takes_all)
}

/// Walks over the columns of a row whose header has 64 columns or more.
#[cold]
#[inline(never)]
fn walk_listed<V: RowVisitor>(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    row: &RowStart,
    columns: &[EncodedColumn],
    taken: usize,
    visitor: &mut V,
) -> Decoded<()> {
    let subset = ColumnSubset::read(input, columns.len())?;
    for index in subset.iter().take_while(|index| *index < taken) {
        let Some(column) = columns.get(index) else { break };
        walk_column(input, baselines, row, (index, column), visitor)?;
    }
    Ok(())
}

#[inline(always)]
fn walk_column<V: RowVisitor>(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    row: &RowStart,
    (index, column): (usize, &EncodedColumn),
    visitor: &mut V,
) -> Decoded<()> {
    if !V::IS_UNIFORM && column.is_complex {
        visitor.begin_complex()?;
        return walk_complex(input, baselines, row, (index, column), visitor);
    }
    let form = (index, column.form);
    let cell = read_cell(input, baselines, &row.liveness, form, V::IS_UNIFORM)?;
    visitor.cell(column, cell)
}

#[inline]
fn walk_complex<V: RowVisitor>(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    row: &RowStart,
    (index, column): (usize, &EncodedColumn),
    visitor: &mut V,
) -> Decoded<()> {
    let mut deletion = DeletionTime::LIVE;
    if row.flags & HAS_COMPLEX_DELETION != 0 {
        deletion = baselines.read_deletion(input)?;
        if !deletion.is_live() && deletion.local_deletion_time == NO_DELETION_TIME {
            return Err(Malformed::Wrong("a collection's deletion without a time"));
        }
    }
    for _ in 0..input.vint()? {
        let (path, cell) = read_element(input, baselines, &row.liveness, index)?;
        visitor.element(column, path, cell);
    }
    visitor.end_complex(column, deletion);
    Ok(())
}

/// Reads a shadowable deletion, which a newer liveness of the row cancels. Cassandra's flag says
/// that the row deletion, which was read before, is the shadowable one. ScyllaDB's flag says that a
/// shadowable deletion follows.
#[cold]
fn read_shadowable(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    extended: u8,
    deletion: &mut DeletionTime,
) -> Decoded<DeletionTime> {
    let mut shadowable = DeletionTime::LIVE;
    if extended & EXTENDED_SHADOWABLE != 0 {
        shadowable = std::mem::take(deletion);
    }
    if extended & EXTENDED_SHADOWABLE_FOLLOWS != 0 {
        shadowable = shadowable.max(baselines.read_deletion(input)?);
    }
    Ok(shadowable)
}
