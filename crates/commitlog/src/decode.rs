//! This module decodes the body of a mutation's record. See `encode` for the bytes.

use espalier_mutation::{
    Clustering, DecoratedKey, Mutation, PartitionUpdate, RangeTombstone, Row,
    encoding::body::{BodyError, BodyReader},
    unpack_row,
};

use super::{
    columns::Translation,
    encode::{UPDATE_DELETION, UPDATE_RANGES, UPDATE_ROWS, UPDATE_STATIC},
};

/// Decodes a mutation. The reader must stand after the byte of the kind. Skips updates of dropped
/// tables, and returns their number as the second value.
///
/// # Errors
///
/// Fails if the body is malformed, or if `translation` lacks a mapping that the body names.
pub fn decode_mutation<'a>(
    reader: &mut BodyReader,
    translation: impl Fn(u32) -> Option<&'a Translation>,
) -> Result<(Mutation, usize), BodyError> {
    let count = reader.count()?;
    let mut mutation = Mutation::default();
    let mut skipped = 0;
    for _ in 0..count {
        let number = reader.vint_u32()?;
        let translation = translation(number).ok_or_else(|| {
            reader.error("a number of a table version that the segment does not define")
        })?;
        let update = decode_update(reader, translation)?;
        if translation.metadata.is_some() {
            mutation.updates.push(update);
        } else {
            skipped += 1;
        }
    }
    if !reader.is_at_end() {
        return Err(reader.error("bytes after the last update"));
    }
    Ok((mutation, skipped))
}

fn decode_update(
    reader: &mut BodyReader,
    translation: &Translation,
) -> Result<PartitionUpdate, BodyError> {
    let key = DecoratedKey::new(reader.bytes()?);
    let mut update = PartitionUpdate::new(translation.table, key);
    let flags = reader.byte()?;
    if flags & UPDATE_DELETION != 0 {
        update.deletion = reader.deletion()?;
    }
    if flags & UPDATE_STATIC != 0 {
        update.static_row = Some(decode_row(reader, Clustering::empty(), translation)?);
    }
    if flags & UPDATE_ROWS != 0 {
        for _ in 0..reader.count()? {
            let clustering = reader.clustering()?;
            update.rows.push(decode_row(reader, clustering, translation)?);
        }
    }
    if flags & UPDATE_RANGES != 0 {
        for _ in 0..reader.count()? {
            let (start, end) = (reader.bound()?, reader.bound()?);
            update.range_tombstones.push(RangeTombstone {
                start,
                end,
                deletion: reader.deletion()?,
            });
        }
    }
    Ok(update)
}

fn decode_row(
    reader: &mut BodyReader,
    clustering: Clustering,
    translation: &Translation,
) -> Result<Row, BodyError> {
    let length = reader.u32()? as usize;
    let packed = reader.take(length)?;
    let mut row =
        unpack_row(clustering, &packed).map_err(|_| reader.error("a malformed packed row"))?;
    translation.translate(&mut row);
    Ok(row)
}
