//! Encodes rows and range tombstone markers with the bytes that Cassandra writes.

mod marker;
mod row;

use super::input::MAX_WRITTEN_ROW_LENGTH;

pub(crate) use marker::write_marker;
pub(crate) use row::RowEncoder;

/// Checks that readers will accept the length of the row. The files from which a row was copied may
/// be deleted later. If the copy could not be read, the row would then be lost.
fn check_row_length(body: usize) -> Result<(), String> {
    if body as u64 <= MAX_WRITTEN_ROW_LENGTH {
        Ok(())
    } else {
        Err(format!("a row of {body} bytes exceeds the limit of {MAX_WRITTEN_ROW_LENGTH} bytes"))
    }
}

/// Appends the length of the body, and then its first field, the length in bytes of the preceding
/// row or marker. `rest` is the length of the other fields, which the caller appends.
fn write_lengths(rest: usize, previous: u64, out: &mut Vec<u8>) {
    use espalier_types::vint::{unsigned_length, write_unsigned};
    write_unsigned((unsigned_length(previous) + rest) as u64, out);
    write_unsigned(previous, out);
}
