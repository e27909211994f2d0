//! Vectors with very many components.

use super::*;

#[test]
fn the_longest_vectors_of_a_column_have_a_description() {
    let (mut longest, position) = description();
    longest.segments.clear();
    // The types allow values of 2^31-1 bytes.
    longest.dimension = (i32::MAX / 4).cast_unsigned();
    assert_eq!(decoded(&longest, position).unwrap(), longest);
}
