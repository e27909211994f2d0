//! Merges a row with an older write of the same row.

use bytes::Bytes;
use espalier_mutation::{
    Clustering, DeletionTime, PackError, PackedColumn, PackedRow, pack_row,
    reconcile::{apply_deletion, merge_counters, merge_rows},
    schema::TableMetadata,
    unpack_row,
};

/// Returns whether `new` stays as it is and replaces all of `old`: the usual overwrite of the same
/// simple columns by a later write. Returns `false` in all cases that need a closer look.
#[inline]
pub fn replaces(table: &TableMetadata, old: &[u8], new: &[u8]) -> bool {
    if table.is_counter() {
        return false;
    }
    let (Ok(old), Ok(new)) = (PackedRow::new(old), PackedRow::new(new)) else { return false };
    if !old.deletion.is_live() || !new.deletion.is_live() {
        return false;
    }
    if !old.shadowable_deletion.is_live() || !new.shadowable_deletion.is_live() {
        return false;
    }
    if !old.liveness.is_none() && new.liveness.timestamp <= old.liveness.timestamp {
        return false;
    }
    let mut news = new.columns();
    for column in old.columns() {
        let Ok(PackedColumn::Simple(old_id, old_cell)) = column else { return false };
        loop {
            let Some(Ok(PackedColumn::Simple(new_id, new_cell))) = news.next() else {
                return false;
            };
            if new_id == old_id && new_cell.timestamp > old_cell.timestamp {
                break;
            }
            if new_id >= old_id {
                return false;
            }
        }
    }
    true
}

/// Reconciles two packed rows and packs the result into `out`. Drops the shares of a counter that
/// `active`, the deletion over the row, covers: in a merged cell, a deleted share would get the
/// timestamp of a newer one and come back.
///
/// # Errors
///
/// Fails if one of the rows is damaged.
pub fn merge_packed(
    table: &TableMetadata,
    old: &[u8],
    new: &[u8],
    active: DeletionTime,
    out: &mut Vec<u8>,
) -> Result<(), PackError> {
    let unpacked = |packed: &[u8]| unpack_row(Clustering::empty(), &Bytes::copy_from_slice(packed));
    let mut merged = if table.is_counter() {
        merge_counters(table, unpacked(old)?, vec![unpacked(new)?], active)
    } else {
        merge_rows(table, unpacked(old)?, unpacked(new)?)
    };
    if !merged.shadowable_deletion.is_live() {
        // Otherwise a later liveness would bring back rows from the row cache that a compaction has
        // removed from the files.
        let deletion = merged.deletion;
        apply_deletion(&mut merged, DeletionTime::LIVE);
        merged.deletion = deletion;
    }
    out.clear();
    pack_row(&merged, out);
    Ok(())
}

/// Returns whether a deletion leaves nothing of a packed row. Returns `false` for counters, which
/// stay.
pub fn is_covered(table: &TableMetadata, packed: &[u8], deletion: DeletionTime) -> bool {
    !table.is_counter()
        && unpack_row(Clustering::empty(), &Bytes::copy_from_slice(packed))
            .is_ok_and(|mut row| !apply_deletion(&mut row, deletion))
}
