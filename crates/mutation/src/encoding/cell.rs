//! Cells. Format: docs/formats/data.md.

use bytes::Bytes;
use espalier_types::vint;

use super::{
    baselines::Baselines,
    flags::{
        CELL_DELETED, CELL_EMPTY, CELL_EXPIRING, CELL_FLAGS, CELL_ROW_TIMESTAMP, CELL_ROW_TTL,
    },
    input::{DataInput, Decoded, MAX_VALUE_LENGTH, Malformed},
    value::{ValueForm, write_value},
};
use crate::{Cell, CellRef, Liveness, NO_DELETION_TIME};

/// Reads a cell. Returns its path separately, if it belongs to a complex column.
///
/// # Errors
///
/// Fails if the bytes end inside the cell or do not follow the format.
#[inline]
pub fn read_cell(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    row: &Liveness,
    form: ValueForm,
    has_path: bool,
    is_wanted: bool,
) -> Decoded<(Bytes, Cell)> {
    let flags = input.u8()?;
    if flags & !CELL_FLAGS != 0 {
        return Err(Malformed::Wrong("unknown flags of a cell"));
    }
    let is_deleted = flags & CELL_DELETED != 0;
    let is_expiring = flags & CELL_EXPIRING != 0;
    if is_deleted && is_expiring {
        return Err(Malformed::Wrong("a cell is both deleted and expiring"));
    }
    let timestamp = match flags & CELL_ROW_TIMESTAMP != 0 {
        true if row.is_none() => {
            return Err(Malformed::Wrong("a cell has the timestamp of no row"));
        }
        true => row.timestamp,
        false => baselines.read_timestamp(input)?,
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
    let path = if has_path {
        let length = input.value_length()?;
        input.take(length)?
    } else {
        Bytes::new()
    };
    let mut value = Bytes::new();
    if flags & CELL_EMPTY == 0 {
        let length = match form {
            ValueForm::Fixed(length) => length,
            ValueForm::Prefixed => input.value_length()?,
        };
        if is_wanted {
            value = input.take(length)?;
        } else {
            input.span(length)?;
        }
    }
    Ok((path, Cell { timestamp, ttl, local_deletion_time, value }))
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
/// Fails if the cell is longer than a reader accepts, or does not have the form of its column.
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
