//! Decodes a cell. Format: docs/formats/data.md.

use bytes::Bytes;
use espalier_mutation::{Cell, Liveness, NO_DELETION_TIME};

use super::super::{
    input::{DataInput, Decoded, Malformed},
    layout::{
        Baselines, CELL_DELETED, CELL_EMPTY, CELL_EXPIRING, CELL_FLAGS, CELL_ROW_TIMESTAMP,
        CELL_ROW_TTL,
    },
    values::ValueForm,
};

/// Reads a cell. Returns its path separately, if it belongs to a complex column.
#[inline]
pub(super) fn read_cell(
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
pub(super) fn read_positive_ttl(input: &mut DataInput<'_>, baselines: &Baselines) -> Decoded<u32> {
    match baselines.read_ttl(input)? {
        ttl @ 1..=0x7FFF_FFFF => Ok(ttl),
        _ => Err(Malformed::Wrong("a ttl that is not positive")),
    }
}
