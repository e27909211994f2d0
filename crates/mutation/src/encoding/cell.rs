//! Reads and writes cells. Format: docs/formats/data.md.

use espalier_types::vint;

use super::{
    baselines::Baselines,
    flags::{
        CELL_DELETED, CELL_EMPTY, CELL_EXPIRING, CELL_FLAGS, CELL_ROW_TIMESTAMP, CELL_ROW_TTL,
    },
    input::{DataInput, Decoded, MAX_VALUE_LENGTH, Malformed, Span},
    value::{ValueForm, read_value, write_value},
};
use crate::{CellRef, Liveness, NO_DELETION_TIME};

/// A cell that is read in place: its value is a range of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellSpan {
    /// The index of the column in the header.
    pub column: usize,
    /// The write timestamp (µs).
    pub timestamp: i64,
    /// The time to live in seconds; 0 if the cell does not expire.
    pub ttl: u32,
    /// The second of the deletion or of the expiry; [`NO_DELETION_TIME`] if neither applies.
    pub local_deletion_time: u32,
    /// The range of the value.
    pub value: Span,
}

impl CellSpan {
    /// Returns whether the cell is a tombstone.
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.without_value().is_tombstone()
    }

    /// Returns whether the cell has the timestamp, TTL and expiry of the row and is no tombstone,
    /// as a cell that was written together with the row.
    #[inline]
    pub fn is_like(&self, liveness: &Liveness) -> bool {
        self.without_value().is_like(liveness)
    }

    #[inline(always)]
    fn without_value(&self) -> CellRef<'static> {
        let Self { timestamp, ttl, local_deletion_time, .. } = *self;
        CellRef { timestamp, ttl, local_deletion_time, value: &[] }
    }
}

/// Returns whether the flags are those of a cell of a uniform row: it has the row's timestamp, and
/// neither expires nor is deleted.
#[inline(always)]
fn is_uniform(flags: u8) -> bool {
    flags & !CELL_EMPTY == CELL_ROW_TIMESTAMP
}

/// Reads a cell without a path, of the column with this index. If `must_be_uniform`, refuses a
/// cell that no uniform row has; see [`RowVisitor`](super::walk::RowVisitor).
///
/// # Errors
///
/// Fails if the bytes end inside the cell or do not follow the format, or if the cell is refused.
#[inline(always)]
pub(super) fn read_cell(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    row: &Liveness,
    (column, form): (usize, ValueForm),
    must_be_uniform: bool,
) -> Decoded<CellSpan> {
    let flags = input.u8()?;
    // Most cells are written together with the row.
    let times = if is_uniform(flags) && !row.is_none() {
        (row.timestamp, 0, NO_DELETION_TIME)
    } else if must_be_uniform {
        return Err(Malformed::Wrong("a cell that is not uniform with its row"));
    } else {
        read_times(input, baselines, row, flags)?
    };
    let value = read_cell_value(input, flags, form, must_be_uniform)?;
    let (timestamp, ttl, local_deletion_time) = times;
    Ok(CellSpan { column, timestamp, ttl, local_deletion_time, value })
}

/// Reads a cell of a complex column. Also returns the range of its path.
///
/// # Errors
///
/// Fails if the bytes end inside the cell or do not follow the format.
#[inline]
pub(super) fn read_element(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    row: &Liveness,
    column: usize,
) -> Decoded<(Span, CellSpan)> {
    let flags = input.u8()?;
    let (timestamp, ttl, local_deletion_time) = read_times(input, baselines, row, flags)?;
    let length = input.value_length(false)?;
    let path = input.span(length)?;
    let value = read_cell_value(input, flags, ValueForm::Prefixed, false)?;
    Ok((path, CellSpan { column, timestamp, ttl, local_deletion_time, value }))
}

/// Reads timestamp, TTL and second of deletion or expiry of a cell with these flags.
#[inline]
fn read_times(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    row: &Liveness,
    flags: u8,
) -> Decoded<(i64, u32, u32)> {
    if flags & !CELL_FLAGS != 0 {
        return Err(Malformed::Wrong("unknown flags of a cell"));
    }
    let is_deleted = flags & CELL_DELETED != 0;
    let is_expiring = flags & CELL_EXPIRING != 0;
    if is_deleted && is_expiring {
        return Err(Malformed::Wrong("a cell is both deleted and expiring"));
    }
    let timestamp = if flags & CELL_ROW_TIMESTAMP == 0 {
        baselines.read_timestamp(input)?
    } else if row.is_none() {
        return Err(Malformed::Wrong("a cell has the timestamp of no row"));
    } else {
        row.timestamp
    };
    let (mut local_deletion_time, mut ttl) = (NO_DELETION_TIME, 0);
    if flags & CELL_ROW_TTL != 0 {
        if !is_expiring || !row.is_expiring() {
            return Err(Malformed::Wrong("a cell has the ttl of a row that does not expire"));
        }
        (local_deletion_time, ttl) = (row.local_expiration, row.ttl);
    } else if is_deleted || is_expiring {
        local_deletion_time = baselines.read_local_deletion_time(input)?;
        if is_expiring {
            ttl = read_positive_ttl(input, baselines)?;
        }
    }
    if is_deleted && local_deletion_time == NO_DELETION_TIME {
        return Err(Malformed::Wrong("a deleted cell without a deletion time"));
    }
    Ok((timestamp, ttl, local_deletion_time))
}

#[inline(always)]
fn read_cell_value(
    input: &mut DataInput<'_>,
    flags: u8,
    form: ValueForm,
    is_exact: bool,
) -> Decoded<Span> {
    if flags & CELL_EMPTY != 0 {
        return Ok((input.offset(), input.offset()));
    }
    read_value(input, form, is_exact)
}

/// Reads a ttl, and rejects a ttl that is not positive. A ttl of 0 would turn a value into a
/// tombstone. A negative ttl is the result of an overflow.
///
/// # Errors
///
/// Fails if the bytes end inside the ttl, or if it is not positive.
#[inline]
pub fn read_positive_ttl(input: &mut DataInput<'_>, baselines: &Baselines) -> Decoded<u32> {
    match baselines.read_ttl(input)? {
        ttl @ 1..=0x7FFF_FFFF => Ok(ttl),
        _ => Err(Malformed::Wrong("a ttl that is not positive")),
    }
}

/// Appends a cell, with its path if it belongs to a complex column.
///
/// # Errors
///
/// Fails if the value, path or TTL is larger than a reader accepts, or if the value does not have
/// the form of its column.
#[inline]
pub fn write_cell(
    cell: CellRef<'_>,
    path: Option<&[u8]>,
    form: ValueForm,
    row: &Liveness,
    baselines: &Baselines,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let is_deleted = cell.is_tombstone();
    let has_row_ttl = cell.is_expiring()
        && row.is_expiring()
        && cell.ttl == row.ttl
        && cell.local_deletion_time == row.local_expiration;
    let has_row_timestamp = !row.is_none() && cell.timestamp == row.timestamp;
    if cell.is_expiring() && (cell.ttl > i32::MAX as u32) {
        return Err(format!("a ttl of {} s", cell.ttl));
    }
    let length = cell.value.len().max(path.unwrap_or_default().len());
    if length as u64 > MAX_VALUE_LENGTH {
        return Err(format!("a value of {length} bytes exceeds {MAX_VALUE_LENGTH}"));
    }
    let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
    out.push(
        flag(is_deleted, CELL_DELETED)
            | flag(cell.is_expiring(), CELL_EXPIRING)
            | flag(cell.value.is_empty(), CELL_EMPTY)
            | flag(has_row_timestamp, CELL_ROW_TIMESTAMP)
            | flag(has_row_ttl, CELL_ROW_TTL),
    );
    if !has_row_timestamp {
        baselines.write_timestamp(cell.timestamp, out);
    }
    if (is_deleted || cell.is_expiring()) && !has_row_ttl {
        baselines.write_local_deletion_time(cell.local_deletion_time, out);
        if cell.is_expiring() {
            baselines.write_ttl(cell.ttl, out);
        }
    }
    if let Some(path) = path {
        vint::write_unsigned(path.len() as u64, out);
        out.extend_from_slice(path);
    }
    if cell.value.is_empty() { Ok(()) } else { write_value(form, cell.value, out) }
}
