//! Encoding of partition heads, rows and markers, byte for byte as Cassandra writes them.

mod cell;
mod marker;
mod row;

pub(crate) use marker::write_marker;
pub(crate) use row::RowEncoder;

/// A body's length and the length of the unfiltered before, which is part of the body. Then the caller appends the rest.
fn write_lengths(rest: usize, previous: u64, out: &mut Vec<u8>) {
    use espalier_types::vint::{unsigned_length, write_unsigned};
    write_unsigned((unsigned_length(previous) + rest) as u64, out);
    write_unsigned(previous, out);
}
