//! Reads and writes clusterings, bounds and slices in messages.

use bytes::{BufMut, Bytes};
use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, ClusteringSlice,
    encoding::{
        clustering_values::{borrowed, read_spans, to_values, write_values},
        value::ValueForm,
    },
    schema::TableMetadata,
};

use crate::{
    error::{DecodeError, Result},
    input::Input,
};

/// Reads a clustering, which has a value for each clustering column.
pub(crate) fn read_clustering(input: &mut Input<'_>, table: &TableMetadata) -> Result<Clustering> {
    let count = table.comparator().types.len();
    Ok(Clustering { values: read_values(input, table, count)? })
}

/// Reads the values of a bound after their number.
pub(crate) fn read_bound_values(
    input: &mut Input<'_>,
    table: &TableMetadata,
) -> Result<Box<[Option<Bytes>]>> {
    let count = input.u16()?;
    read_values(input, table, count.into())
}

fn read_values(
    input: &mut Input<'_>,
    table: &TableMetadata,
    count: usize,
) -> Result<Box<[Option<Bytes>]>> {
    let types = &table.comparator().types;
    let forms: Vec<_> = types.iter().map(|(column_type, _)| ValueForm::of(column_type)).collect();
    let spans = read_spans(&mut input.data, &forms, count)?;
    Ok(to_values(input.bytes, &spans))
}

/// Appends values of the first clustering columns.
pub(crate) fn write_values_of(
    values: &[Option<Bytes>],
    table: &TableMetadata,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    write_values(&table.comparator().types, borrowed(values), out)
}

/// Appends a bound: kind, be16 number of values, values.
pub(crate) fn write_bound(
    bound: &ClusteringBound,
    table: &TableMetadata,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    out.push(bound.kind as u8);
    out.put_u16(bound.values.len() as u16);
    write_values_of(&bound.values, table, out)
}

/// Reads a slice: a bound where it starts, and one where it ends.
pub(crate) fn read_slice(input: &mut Input<'_>, table: &TableMetadata) -> Result<ClusteringSlice> {
    let mut bound = |is_start: bool| {
        let kind = BoundKind::from_number(input.u8()?);
        let kind = kind.filter(|kind| !kind.is_boundary() && kind.is_start() == is_start);
        let kind = kind.ok_or(DecodeError::Malformed("a slice with a bound of another kind"))?;
        Ok::<_, DecodeError>(ClusteringBound { kind, values: read_bound_values(input, table)? })
    };
    Ok(ClusteringSlice { start: bound(true)?, end: bound(false)? })
}

/// Appends a slice.
pub(crate) fn write_slice(
    slice: &ClusteringSlice,
    table: &TableMetadata,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    write_bound(&slice.start, table, out)?;
    write_bound(&slice.end, table, out)
}
