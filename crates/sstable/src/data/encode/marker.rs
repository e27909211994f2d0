//! Encodes range tombstone markers. Format: docs/formats/data.md.

use bytes::BufMut;
use espalier_mutation::{RangeTombstoneMarker, encoding::marker::write_marker_body};
use espalier_types::CqlType;

use super::{
    super::{
        clustering_values::{borrowed, write_values},
        layout::{Baselines, IS_MARKER},
    },
    write_lengths,
};

/// Appends a marker. `previous` is the length in bytes of the row or marker before it.
pub(crate) fn write_marker(
    marker: &RangeTombstoneMarker,
    types: &[(CqlType, bool)],
    baselines: &Baselines,
    previous: u64,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let position = &marker.position;
    out.push(IS_MARKER);
    out.push(position.kind as u8);
    out.put_u16(position.values.len() as u16);
    write_values(types, borrowed(&position.values), out)?;
    scratch.clear();
    write_marker_body(marker, baselines, scratch);
    write_lengths(scratch.len(), previous, out);
    out.extend_from_slice(scratch);
    Ok(())
}
