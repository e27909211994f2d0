//! Encodes a cell. Format: docs/formats/data.md.

use espalier_mutation::{CellRef, Liveness};
use espalier_types::vint;

use super::super::{
    input::MAX_VALUE_LENGTH,
    layout::{
        Baselines, CELL_DELETED, CELL_EMPTY, CELL_EXPIRING, CELL_ROW_TIMESTAMP, CELL_ROW_TTL,
    },
    values::{ValueForm, write_value},
};

#[inline]
pub(super) fn write_cell(
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
