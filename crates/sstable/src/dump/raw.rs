//! Prints the stored bytes in hex.
//!
//! ```text
//! {"kind":"partition","key":"0004","token":5,"deleted":{"ts":3000,"ldt":1795210853}}
//! {"kind":"row","ck":["00000001"],"live":{"ts":1000},"cells":[{"n":"v","v":"68","ts":1000}]}
//! {"kind":"marker","bound":"INCL_START_BOUND","ck":["02"],"deleted":{"ts":3000,"ldt":1795210853}}
//! ```
//! Cells carry `ttl` and `ldt` if they expire, `dead` if they are tombstones, and `p` for the path
//! in a collection or UDT. An entry with only `n` and `deleted` deletes a whole collection. A
//! boundary has `closes` and `opens`. `shadowable` says that a row's deletion is void once the row
//! has a newer liveness; beside an ordinary deletion it is `shadowable_deleted`.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, ColumnData, DeletionTime, Liveness, PartitionHeader, RangeTombstoneMarker,
    Row, Unfiltered,
    schema::{ColumnDefinition, ColumnId, TableMetadata},
};
use smallvec::SmallVec;

use super::text::{Remembered, push_hex, push_i64, push_u64};
use crate::{
    data::{
        column_map::{FileColumn, FileLayout},
        decode::{RowRef, Span},
    },
    statistics::serialization_header::compare_names,
};

/// The longest value that is shown, in bytes. Longer values are shown as length and CRC-32, unless
/// the caller wants all bytes.
pub const MAX_SHOWN: usize = 4096;

/// Prints lines of a table's content.
#[derive(Clone, Copy, Debug)]
pub struct Dump<'table> {
    /// The table that names the columns.
    pub table: &'table TableMetadata,
    /// True if values longer than [`MAX_SHOWN`] are shown in full.
    pub full_values: bool,
}

/// The parts of a cell that are printed.
struct Written<'a> {
    timestamp: i64,
    /// The time to live in seconds; 0 if the cell does not expire.
    ttl: u32,
    local_deletion_time: u32,
    /// The value; `None` for a tombstone.
    value: Option<&'a [u8]>,
}

type Column<'a> = (Option<&'a ColumnDefinition>, &'a ColumnData);

impl Dump<'_> {
    /// Returns the line of a partition and the line of its static row, if it has one.
    pub fn header(&self, header: &PartitionHeader) -> Vec<String> {
        let mut text = Vec::new();
        self.write_header(header, &mut text);
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }

    /// Returns the line of a row or marker.
    pub fn unfiltered(&self, unfiltered: &Unfiltered) -> String {
        let mut text = Vec::new();
        self.write_unfiltered(unfiltered, &mut text);
        String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned()
    }

    /// Appends the line of a partition and the line of its static row, if it has one.
    pub fn write_header(&self, header: &PartitionHeader, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"partition\",\"key\":");
        self.value(&header.key.key, out);
        out.extend_from_slice(b",\"token\":");
        push_i64(header.key.token.0, out);
        if !header.deletion.is_live() {
            write_deletion("deleted", header.deletion, out);
        }
        out.extend_from_slice(b"}\n");
        if let Some(row) = &header.static_row {
            self.row(row, true, out);
        }
    }

    /// Appends the line of a row or marker.
    pub fn write_unfiltered(&self, unfiltered: &Unfiltered, out: &mut Vec<u8>) {
        match unfiltered {
            Unfiltered::Row(row) => self.row(row, false, out),
            Unfiltered::Marker(marker) => self.marker(marker, out),
        }
    }

    fn row(&self, row: &Row, is_static: bool, out: &mut Vec<u8>) {
        if is_static {
            out.extend_from_slice(b"{\"kind\":\"static\"");
        } else {
            out.extend_from_slice(b"{\"kind\":\"row\",");
            self.clustering(row.clustering.values.iter().map(Option::as_deref), out);
        }
        write_liveness(&row.liveness, push_i64, out);
        if !row.deletion.is_live() {
            write_deletion("deleted", row.deletion, out);
        }
        write_shadowable_deletion(row, out);
        out.extend_from_slice(b",\"cells\":[");
        let start = out.len();
        for (column, data) in self.in_file_order(row) {
            let name = column.map_or("?", |column| &column.name);
            match data {
                ColumnData::Simple(cell) => self.cell(name, None, cell, start, out),
                ColumnData::Complex(column) => {
                    if !column.deletion.is_live() {
                        open_cell(name, start, out);
                        write_deletion("deleted", column.deletion, out);
                        out.push(b'}');
                    }
                    for (path, cell) in &column.cells {
                        self.cell(name, Some(path), cell, start, out);
                    }
                }
            }
        }
        out.extend_from_slice(b"]}\n");
    }

    /// Returns the columns in the order of files: multi-cell columns come last. A table that was
    /// made from the file has this order itself.
    fn in_file_order<'a>(&'a self, row: &'a Row) -> SmallVec<[Column<'a>; 8]> {
        let mut columns: SmallVec<[Column<'a>; 8]> =
            row.columns.iter().map(|(id, data)| (self.column(*id), data)).collect();
        let compare = |(left, _): &Column<'_>, (right, _): &Column<'_>| match (left, right) {
            (Some(left), Some(right)) => file_order(left, right),
            _ => left.is_some().cmp(&right.is_some()),
        };
        if !columns.is_sorted_by(|left, right| compare(left, right).is_le()) {
            columns.sort_by(compare);
        }
        columns
    }

    fn cell(&self, name: &str, path: Option<&Bytes>, cell: &Cell, start: usize, out: &mut Vec<u8>) {
        open_cell(name, start, out);
        if let Some(path) = path {
            out.extend_from_slice(b",\"p\":");
            self.value(path, out);
        }
        let written = Written {
            timestamp: cell.timestamp,
            ttl: cell.ttl,
            local_deletion_time: cell.local_deletion_time,
            value: (!cell.is_tombstone()).then_some(&cell.value),
        };
        self.cell_body(&written, push_i64, out);
    }

    /// Appends the part of a cell that follows its name and path.
    fn cell_body(
        &self,
        cell: &Written<'_>,
        mut push_timestamp: impl FnMut(i64, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        match cell.value {
            Some(value) => {
                out.extend_from_slice(b",\"v\":");
                self.value(value, out);
            }
            None => out.extend_from_slice(b",\"dead\":true"),
        }
        out.extend_from_slice(b",\"ts\":");
        push_timestamp(cell.timestamp, out);
        if cell.ttl != 0 {
            write_expiry(cell.ttl, cell.local_deletion_time, out);
        } else if cell.value.is_none() {
            out.extend_from_slice(b",\"ldt\":");
            push_u64(cell.local_deletion_time.into(), out);
        }
        out.push(b'}');
    }

    fn marker(&self, marker: &RangeTombstoneMarker, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"marker\",\"bound\":\"");
        out.extend_from_slice(bound_name(marker.position.kind).as_bytes());
        out.extend_from_slice(b"\",");
        self.clustering(marker.position.values.iter().map(Option::as_deref), out);
        write_marker_deletions(marker, out);
        out.extend_from_slice(b"}\n");
    }

    fn clustering<'a>(&self, values: impl Iterator<Item = Option<&'a [u8]>>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"ck\":[");
        for (index, value) in values.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match value {
                Some(value) => self.value(value, out),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b']');
    }

    fn value(&self, value: &[u8], out: &mut Vec<u8>) {
        if value.len() > MAX_SHOWN && !self.full_values {
            return write_length_and_checksum(value, out);
        }
        out.push(b'"');
        push_hex(value, out);
        out.push(b'"');
    }

    fn column(&self, id: ColumnId) -> Option<&ColumnDefinition> {
        self.table.column_by_id(id)
    }
}

/// A [`Dump`] that owns its table and also prints raw rows.
#[derive(Clone, Debug)]
pub(crate) struct RawDump {
    table: Arc<TableMetadata>,
    full_values: bool,
    /// `{"n":"name"` of the file's regular columns.
    openings: Vec<Vec<u8>>,
    /// The timestamp that was printed last, since most cells have that of their row.
    timestamp: Remembered,
}

impl RawDump {
    pub(super) fn new(table: Arc<TableMetadata>, full_values: bool) -> Self {
        Self { table, full_values, openings: Vec::new(), timestamp: Remembered::default() }
    }

    pub(super) fn as_dump(&self) -> Dump<'_> {
        Dump { table: &self.table, full_values: self.full_values }
    }

    pub(super) fn prepare_views(&mut self, layout: &FileLayout) {
        let opening = |column: &FileColumn| {
            let definition = column.target.and_then(|id| self.table.column_by_id(id));
            let mut opening = Vec::new();
            open_first_cell(definition.map_or("?", |column| &column.name), &mut opening);
            opening
        };
        self.openings = layout.regulars.iter().map(opening).collect();
    }

    /// Appends the line of a raw row, which was read from `bytes`.
    pub(super) fn write_view(&mut self, row: &RowRef, bytes: &[u8], out: &mut Vec<u8>) {
        let dump = Dump { table: &self.table, full_values: self.full_values };
        let timestamp = &mut self.timestamp;
        let value = |(start, end): Span| bytes.get(start..end).unwrap_or_default();
        out.extend_from_slice(b"{\"kind\":\"row\",");
        dump.clustering(row.clustering.iter().map(|span| span.map(value)), out);
        write_liveness(&row.liveness, |value, out| timestamp.push(value, out), out);
        if !row.deletion.is_live() {
            write_deletion("deleted", row.deletion, out);
        }
        out.extend_from_slice(b",\"cells\":[");
        for (index, cell) in row.cells.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(self.openings.get(cell.column).map_or(b"", Vec::as_slice));
            let written = Written {
                timestamp: cell.timestamp,
                ttl: cell.ttl,
                local_deletion_time: cell.local_deletion_time,
                value: (!cell.is_tombstone()).then(|| value(cell.value)),
            };
            dump.cell_body(&written, |value, out| timestamp.push(value, out), out);
        }
        out.extend_from_slice(b"]}\n");
    }
}

/// Appends length and checksum of a value that is too long to be shown.
pub(super) fn write_length_and_checksum(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"len\":");
    push_u64(value.len() as u64, out);
    out.extend_from_slice(b",\"crc32\":\"");
    push_hex(&crc32fast::hash(value).to_be_bytes(), out);
    out.extend_from_slice(b"\"}");
}

/// Compares columns in the order of files.
pub(super) fn file_order(left: &ColumnDefinition, right: &ColumnDefinition) -> std::cmp::Ordering {
    let by_kind = left.is_complex().cmp(&right.is_complex());
    by_kind.then_with(|| compare_names(&left.name, &right.name))
}

fn open_cell(name: &str, start: usize, out: &mut Vec<u8>) {
    if out.len() > start {
        out.push(b',');
    }
    open_first_cell(name, out);
}

fn open_first_cell(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"n\":\"");
    let is_plain = |byte: &u8| (0x20..0x7F).contains(byte) && *byte != b'"' && *byte != b'\\';
    if name.as_bytes().iter().all(is_plain) {
        out.extend_from_slice(name.as_bytes());
    } else {
        for character in name.chars() {
            match character {
                '"' | '\\' => out.extend_from_slice(&[b'\\', character as u8]),
                control if control.is_control() => {
                    out.extend_from_slice(format!("\\u{:04x}", u32::from(control)).as_bytes());
                }
                other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
    out.push(b'"');
}

/// Appends the liveness of a row, if it has one; `push_timestamp` prints the timestamp.
pub(super) fn write_liveness(
    liveness: &Liveness,
    push_timestamp: impl FnOnce(i64, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    if liveness.is_none() {
        return;
    }
    out.extend_from_slice(b",\"live\":{\"ts\":");
    push_timestamp(liveness.timestamp, out);
    if liveness.is_expiring() {
        write_expiry(liveness.ttl, liveness.local_expiration, out);
    }
    out.push(b'}');
}

/// Appends the deletions that end and begin at a marker.
pub(super) fn write_marker_deletions(marker: &RangeTombstoneMarker, out: &mut Vec<u8>) {
    match (marker.before.is_live(), marker.after.is_live()) {
        (false, false) => {
            write_deletion("closes", marker.before, out);
            write_deletion("opens", marker.after, out);
        }
        (true, _) => write_deletion("deleted", marker.after, out),
        (false, true) => write_deletion("deleted", marker.before, out),
    }
}

/// Appends a shadowable deletion: marked as such in place of the row's deletion, and under a name
/// of its own beside an ordinary one.
pub(super) fn write_shadowable_deletion(row: &Row, out: &mut Vec<u8>) {
    if row.shadowable_deletion.is_live() {
        return;
    }
    if row.deletion.is_live() {
        write_deletion("deleted", row.shadowable_deletion, out);
        out.extend_from_slice(b",\"shadowable\":true");
    } else {
        write_deletion("shadowable_deleted", row.shadowable_deletion, out);
    }
}

pub(super) fn write_deletion(field: &str, deletion: DeletionTime, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(field.as_bytes());
    out.extend_from_slice(b"\":{\"ts\":");
    push_i64(deletion.marked_for_delete_at, out);
    out.extend_from_slice(b",\"ldt\":");
    push_u64(deletion.local_deletion_time.into(), out);
    out.push(b'}');
}

pub(super) fn write_expiry(ttl: u32, time: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"ttl\":");
    push_u64(ttl.into(), out);
    out.extend_from_slice(b",\"ldt\":");
    push_u64(time.into(), out);
}

/// Returns Cassandra's name of a bound.
pub fn bound_name(kind: BoundKind) -> &'static str {
    match kind {
        BoundKind::ExclusiveEnd => "EXCL_END_BOUND",
        BoundKind::InclusiveStart => "INCL_START_BOUND",
        BoundKind::ExclusiveEndInclusiveStart => "EXCL_END_INCL_START_BOUNDARY",
        BoundKind::InclusiveEndExclusiveStart => "INCL_END_EXCL_START_BOUNDARY",
        BoundKind::InclusiveEnd => "INCL_END_BOUND",
        BoundKind::ExclusiveStart => "EXCL_START_BOUND",
    }
}
