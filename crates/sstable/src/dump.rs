//! Content as lines of JSON, one for each partition, static row, row and marker, as stored. Bytes are in hex.
//!
//! ```text
//! {"kind":"partition","key":"0004","token":5,"deleted":{"ts":3000,"ldt":1795210853}}
//! {"kind":"row","ck":["00000001"],"live":{"ts":1000},"cells":[{"n":"v","v":"68","ts":1000}]}
//! {"kind":"marker","bound":"INCL_START_BOUND","ck":["02"],"deleted":{"ts":3000,"ldt":1795210853}}
//! ```
//! Cells carry `ttl` and `ldt` if they expire, `dead` if they are tombstones, `p` for the path in a collection or UDT; an
//! entry with only `n` and `deleted` deletes a whole collection. A boundary has `closes` and `opens`.

use std::fmt::Write;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, ColumnData, DeletionTime, PartitionHeader, RangeTombstoneMarker, Row,
    Unfiltered,
    schema::{ColumnDefinition, ColumnId, TableMetadata},
};

use crate::statistics::serialization_header::compare_names;

/// Longer values are shown as length and CRC-32, unless all bytes are asked for.
pub const LONGEST_SHOWN: usize = 4096;

/// Makes lines of a table's content.
#[derive(Clone, Copy, Debug)]
pub struct Dump<'table> {
    /// Names the columns.
    pub table: &'table TableMetadata,
    /// Whether values longer than [`LONGEST_SHOWN`] are shown in full.
    pub full_values: bool,
}

impl Dump<'_> {
    /// The line of a partition and the one of its static row, if it has one.
    pub fn header(&self, header: &PartitionHeader) -> Vec<String> {
        let mut line = String::from("{\"kind\":\"partition\",\"key\":");
        self.value(&header.key.key, &mut line);
        let _ = write!(line, ",\"token\":{}", header.key.token.0);
        if !header.deletion.is_live() {
            deletion("deleted", header.deletion, &mut line);
        }
        line.push('}');
        let static_row = header.static_row.as_ref().map(|row| self.row(row, true));
        [line].into_iter().chain(static_row).collect()
    }

    /// The line of a row or marker.
    pub fn unfiltered(&self, unfiltered: &Unfiltered) -> String {
        match unfiltered {
            Unfiltered::Row(row) => self.row(row, false),
            Unfiltered::Marker(marker) => self.marker(marker),
        }
    }

    fn row(&self, row: &Row, is_static: bool) -> String {
        let mut line = format!("{{\"kind\":\"{}\"", if is_static { "static" } else { "row" });
        if !is_static {
            line.push(',');
            self.clustering(&row.clustering.values, &mut line);
        }
        if !row.liveness.is_none() {
            let _ = write!(line, ",\"live\":{{\"ts\":{}", row.liveness.timestamp);
            if row.liveness.is_expiring() {
                expiry(row.liveness.ttl, row.liveness.local_expiration, &mut line);
            }
            line.push('}');
        }
        if !row.deletion.is_live() {
            deletion("deleted", row.deletion, &mut line);
        }
        line.push_str(",\"cells\":[");
        let start = line.len();
        let mut columns: Vec<_> =
            row.columns.iter().map(|(id, data)| (self.column(*id), data)).collect();
        // The order of files: multi-cell columns come last.
        columns.sort_by(|(left, _), (right, _)| match (left, right) {
            (Some(left), Some(right)) => left
                .is_complex()
                .cmp(&right.is_complex())
                .then_with(|| compare_names(&left.name, &right.name)),
            _ => left.is_some().cmp(&right.is_some()),
        });
        for (column, data) in columns {
            let name = column.map_or("?", |column| &column.name);
            match data {
                ColumnData::Simple(cell) => self.cell(name, None, cell, start, &mut line),
                ColumnData::Complex(column) => {
                    if !column.deletion.is_live() {
                        open_cell(name, start, &mut line);
                        deletion("deleted", column.deletion, &mut line);
                        line.push('}');
                    }
                    for (path, cell) in &column.cells {
                        self.cell(name, Some(path), cell, start, &mut line);
                    }
                }
            }
        }
        line.push_str("]}");
        line
    }

    fn cell(&self, name: &str, path: Option<&Bytes>, cell: &Cell, start: usize, line: &mut String) {
        open_cell(name, start, line);
        if let Some(path) = path {
            line.push_str(",\"p\":");
            self.value(path, line);
        }
        if cell.is_tombstone() {
            let (timestamp, time) = (cell.timestamp, cell.local_deletion_time);
            let _ = write!(line, ",\"dead\":true,\"ts\":{timestamp},\"ldt\":{time}");
        } else {
            line.push_str(",\"v\":");
            self.value(&cell.value, line);
            let _ = write!(line, ",\"ts\":{}", cell.timestamp);
            if cell.is_expiring() {
                expiry(cell.ttl, cell.local_deletion_time, line);
            }
        }
        line.push('}');
    }

    fn marker(&self, marker: &RangeTombstoneMarker) -> String {
        let kind = bound_name(marker.position.kind);
        let mut line = format!("{{\"kind\":\"marker\",\"bound\":\"{kind}\",");
        self.clustering(&marker.position.values, &mut line);
        match (marker.before.is_live(), marker.after.is_live()) {
            (false, false) => {
                deletion("closes", marker.before, &mut line);
                deletion("opens", marker.after, &mut line);
            }
            (true, _) => deletion("deleted", marker.after, &mut line),
            (false, true) => deletion("deleted", marker.before, &mut line),
        }
        line.push('}');
        line
    }

    fn clustering(&self, values: &[Option<Bytes>], line: &mut String) {
        line.push_str("\"ck\":[");
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            match value {
                Some(value) => self.value(value, line),
                None => line.push_str("null"),
            }
        }
        line.push(']');
    }

    fn value(&self, value: &[u8], line: &mut String) {
        if value.len() > LONGEST_SHOWN && !self.full_values {
            let (length, checksum) = (value.len(), crc32fast::hash(value));
            let _ = write!(line, "{{\"len\":{length},\"crc32\":\"{checksum:08x}\"}}");
            return;
        }
        line.push('"');
        for byte in value {
            let _ = write!(line, "{byte:02x}");
        }
        line.push('"');
    }

    fn column(&self, id: ColumnId) -> Option<&ColumnDefinition> {
        self.table.column_by_id(id)
    }
}

fn open_cell(name: &str, start: usize, line: &mut String) {
    if line.len() > start {
        line.push(',');
    }
    line.push_str("{\"n\":\"");
    for character in name.chars() {
        match character {
            '"' | '\\' => line.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(line, "\\u{:04x}", u32::from(control));
            }
            other => line.push(other),
        }
    }
    line.push('"');
}

fn deletion(field: &str, deletion: DeletionTime, line: &mut String) {
    let (timestamp, time) = (deletion.marked_for_delete_at, deletion.local_deletion_time);
    let _ = write!(line, ",\"{field}\":{{\"ts\":{timestamp},\"ldt\":{time}}}");
}

fn expiry(ttl: u32, time: u32, line: &mut String) {
    let _ = write!(line, ",\"ttl\":{ttl},\"ldt\":{time}");
}

/// Cassandra's name of a bound.
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
