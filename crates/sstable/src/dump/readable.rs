//! Prints the stored content by names and types.
//!
//! ```text
//! {"kind":"partition","key":{"id":1},"token":-4069959284402364209,"position":0}
//! {"kind":"static","key":{"id":1},"values":{"name":"one"},"cells":{"name":{"ts":1000}}}
//! {"kind":"row","key":{"id":1},"clustering":{"at":5},"live":{"ts":1000},"values":{"v":"hello"}}
//! {"kind":"marker","key":{"id":1},"bound":"INCL_START_BOUND","clustering":{"at":7},
//!  "deleted":{"ts":3000,"ldt":1795210853}} (all in one line)
//! ```
//! Every line names its partition, so that lines can be filtered one by one. `values` holds live
//! cells and expiring ones, whether expired or not, as `SELECT JSON` would print them. A cell was
//! written as `live` says, unless `cells` says otherwise: `ts` (µs), `ttl` and `ldt` (seconds), and
//! `dead` if it is a tombstone. In a multi-cell column, `deleted` is the deletion of its earlier
//! content, and `cells` lists the elements that differ from `live`, each with its `path`. Positions
//! of list elements (timeuuids) and shards of counters are not shown; [`Dump`](super::Dump) shows
//! them.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    Cell, CellRef, ColumnRef, ComplexColumn, Liveness, PartitionHeader, RangeTombstoneMarker,
    RowContent, Unfiltered, counter,
    schema::{ColumnDefinition, ColumnId, TableMetadata},
    split_composite,
};
use espalier_types::CqlType;

use super::{
    raw::{
        MAX_SHOWN, bound_name, write_deletion, write_expiry, write_length_and_checksum,
        write_liveness, write_marker_deletions, write_row_deletions,
    },
    text::{push_i64, push_u64},
    value::{by_column, write_field_name, write_json, write_key},
};
use crate::data::{clustering_values::values_in, decode::RawRowContent};

/// Prints lines of a table's content, partition after partition.
#[derive(Clone, Debug)]
pub struct ReadableDump {
    table: Arc<TableMetadata>,
    full_values: bool,
    /// `"name":` of each column, by id.
    names: Vec<Vec<u8>>,
    /// `,"key":{...}` of the current partition.
    key: Vec<u8>,
    /// `{"kind":"row"` with the key.
    row_start: Vec<u8>,
}

impl ReadableDump {
    /// Makes a printer for a table. If `full_values` is set, values longer than [`MAX_SHOWN`]
    /// are shown in full, else as length and CRC-32.
    pub fn new(table: Arc<TableMetadata>, full_values: bool) -> Self {
        let names = by_column(&table, write_field_name);
        Self { table, full_values, names, key: Vec::new(), row_start: Vec::new() }
    }

    /// Appends the line of a partition, to which the following lines belong, and the line of its
    /// static row, if it has one. `position` is the partition's position in Data.db before
    /// compression, if it is known.
    pub fn write_header(
        &mut self,
        header: &PartitionHeader,
        position: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        self.set_key(&header.key.key);
        out.extend_from_slice(b"{\"kind\":\"partition\"");
        out.extend_from_slice(&self.key);
        out.extend_from_slice(b",\"token\":");
        push_i64(header.key.token.0, out);
        if let Some(position) = position {
            out.extend_from_slice(b",\"position\":");
            push_u64(position, out);
        }
        if !header.deletion.is_live() {
            write_deletion("deleted", header.deletion, out);
        }
        out.extend_from_slice(b"}\n");
        if let Some(row) = &header.static_row {
            out.extend_from_slice(b"{\"kind\":\"static\"");
            out.extend_from_slice(&self.key);
            self.content(row, out);
        }
    }

    /// Appends the line of a row or marker of the last partition.
    pub fn write_unfiltered(&self, unfiltered: &Unfiltered, out: &mut Vec<u8>) {
        match unfiltered {
            Unfiltered::Row(row) => {
                out.extend_from_slice(&self.row_start);
                self.clustering(row.clustering.values.iter().map(Option::as_deref), out);
                self.content(row, out);
            }
            Unfiltered::Marker(marker) => self.marker(marker, out),
        }
    }

    /// Sets the partition to which the following lines belong.
    pub(super) fn set_key(&mut self, key: &Bytes) {
        let mut text = std::mem::take(&mut self.key);
        text.clear();
        text.extend_from_slice(b",\"key\":");
        let columns = self.table.partition_key_columns();
        let values = match columns.len() {
            1 => Some(vec![key.clone()]),
            count => split_composite(key, count).ok(),
        };
        match values {
            Some(values) => {
                let pairs = columns.iter().zip(values.iter().map(|value| Some(&value[..])));
                self.columns(pairs, &mut text);
            }
            // The key does not fit its types: only its bytes can be shown.
            None => write_json(&CqlType::Blob, key, &mut text),
        }
        self.row_start.clear();
        self.row_start.extend_from_slice(b"{\"kind\":\"row\"");
        self.row_start.extend_from_slice(&text);
        self.key = text;
    }

    fn columns<'c, 'v>(
        &self,
        columns: impl Iterator<Item = (&'c ColumnDefinition, Option<&'v [u8]>)>,
        out: &mut Vec<u8>,
    ) {
        out.push(b'{');
        for (index, (column, value)) in columns.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(self.name(column.id));
            match value {
                Some(value) => self.value(&column.column_type, value, out),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b'}');
    }

    /// Appends the line of a raw row.
    pub(super) fn write_raw(&self, row: &RawRowContent<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.row_start);
        self.clustering(values_in(row.bytes, &row.view.clustering), out);
        self.content(row, out);
    }

    fn clustering<'a>(&self, values: impl Iterator<Item = Option<&'a [u8]>>, out: &mut Vec<u8>) {
        if self.table.clustering_columns().is_empty() {
            return;
        }
        out.extend_from_slice(b",\"clustering\":");
        self.columns(self.table.clustering_columns().iter().zip(values), out);
    }

    /// Appends the parts of a row behind its clustering.
    fn content(&self, row: &impl RowContent, out: &mut Vec<u8>) {
        let liveness = row.liveness();
        write_liveness(&liveness, push_i64, out);
        write_row_deletions(row, out);
        let mut are_plain = true;
        let mut object = Object::open("values");
        for (id, data) in row.columns() {
            are_plain &= is_plain(&data, &liveness);
            let Some(column) = self.table.column_by_id(id) else { continue };
            match data {
                ColumnRef::Simple(cell) if cell.is_tombstone() => {}
                ColumnRef::Simple(cell) => {
                    object.member(self.name(id), out);
                    self.cell_value(&column.column_type, cell.value, out);
                }
                ColumnRef::Complex(complex) if complex.cells.iter().all(is_dead) => {}
                ColumnRef::Complex(complex) => {
                    object.member(self.name(id), out);
                    self.complex_value(&column.column_type, complex, out);
                }
            }
        }
        object.close(out);
        if !are_plain {
            self.cells(row, &liveness, out);
        }
        out.extend_from_slice(b"}\n");
    }

    /// Appends the cells that differ from the row's liveness.
    fn cells(&self, row: &impl RowContent, liveness: &Liveness, out: &mut Vec<u8>) {
        let mut object = Object::open("cells");
        for (id, data) in row.columns().filter(|(_, data)| !is_plain(data, liveness)) {
            let Some(column) = self.table.column_by_id(id) else { continue };
            object.member(self.name(id), out);
            match data {
                ColumnRef::Simple(cell) => {
                    out.push(b'{');
                    write_written(cell, out);
                    out.push(b'}');
                }
                ColumnRef::Complex(complex) => {
                    self.complex_cells(&column.column_type, complex, liveness, out);
                }
            }
        }
        object.close(out);
    }

    fn complex_cells(
        &self,
        ty: &CqlType,
        complex: &ComplexColumn,
        liveness: &Liveness,
        out: &mut Vec<u8>,
    ) {
        out.push(b'{');
        let start = out.len();
        if !complex.deletion.is_live() {
            write_deletion("deleted", complex.deletion, out);
            out.remove(start); // the comma before it
        }
        let mut is_open = false;
        for (path, cell) in
            complex.cells.iter().filter(|(_, cell)| !CellRef::from(cell).is_like(liveness))
        {
            let between: &[u8] = match (is_open, out.len() > start) {
                (true, _) => b",{\"path\":",
                (false, true) => b",\"cells\":[{\"path\":",
                (false, false) => b"\"cells\":[{\"path\":",
            };
            is_open = true;
            out.extend_from_slice(between);
            write_path(ty, path, out);
            out.push(b',');
            write_written(cell.into(), out);
            out.push(b'}');
        }
        out.extend_from_slice(if is_open { b"]}" } else { b"}" });
    }

    fn complex_value(&self, ty: &CqlType, complex: &ComplexColumn, out: &mut Vec<u8>) {
        let live = complex.cells.iter().filter(|entry| !is_dead(entry));
        let is_array = matches!(ty, CqlType::List { .. } | CqlType::Set { .. });
        out.push(if is_array { b'[' } else { b'{' });
        for (index, (path, cell)) in live.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match ty {
                CqlType::Set { element, .. } => self.value(element, path, out),
                CqlType::List { element, .. } => self.value(element, &cell.value, out),
                CqlType::Map { key, value, .. } => {
                    write_key(key, path, out);
                    self.value(value, &cell.value, out);
                }
                CqlType::UserDefined { definition, .. } => {
                    let field = <[u8; 2]>::try_from(&path[..]).ok();
                    let field = field.and_then(|index| {
                        definition.fields.get(u16::from_be_bytes(index) as usize)
                    });
                    match field {
                        Some((name, ty)) => {
                            write_field_name(name, out);
                            self.value(ty, &cell.value, out);
                        }
                        None => {
                            write_key(&CqlType::Blob, path, out);
                            self.value(&CqlType::Blob, &cell.value, out);
                        }
                    }
                }
                _ => {
                    write_key(&CqlType::Blob, path, out);
                    self.value(&CqlType::Blob, &cell.value, out);
                }
            }
        }
        out.push(if is_array { b']' } else { b'}' });
    }

    fn marker(&self, marker: &RangeTombstoneMarker, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"marker\"");
        out.extend_from_slice(&self.key);
        out.extend_from_slice(b",\"bound\":\"");
        out.extend_from_slice(bound_name(marker.position.kind).as_bytes());
        out.push(b'"');
        self.clustering(marker.position.values.iter().map(Option::as_deref), out);
        write_marker_deletions(marker, out);
        out.extend_from_slice(b"}\n");
    }

    fn cell_value(&self, ty: &CqlType, value: &[u8], out: &mut Vec<u8>) {
        match ty {
            // A counter's value is the total of the shards in the cell: 0 if there are none.
            CqlType::Counter if counter::is_well_formed(value) => {
                push_i64(counter::total(value), out);
            }
            _ => self.value(ty, value, out),
        }
    }

    fn value(&self, ty: &CqlType, value: &[u8], out: &mut Vec<u8>) {
        if value.len() > MAX_SHOWN && !self.full_values {
            write_length_and_checksum(value, out)
        } else {
            write_json(ty, value, out)
        }
    }

    fn name(&self, id: ColumnId) -> &[u8] {
        self.names.get(id.0 as usize).map_or(b"\"?\":", Vec::as_slice)
    }
}

/// A member of the line whose value is an object. The member is omitted if the object is empty.
struct Object {
    name: &'static str,
    is_open: bool,
}

impl Object {
    fn open(name: &'static str) -> Self {
        Self { name, is_open: false }
    }

    fn member(&mut self, name: &[u8], out: &mut Vec<u8>) {
        if self.is_open {
            out.push(b',');
        } else {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(self.name.as_bytes());
            out.extend_from_slice(b"\":{");
            self.is_open = true;
        }
        out.extend_from_slice(name);
    }

    fn close(self, out: &mut Vec<u8>) {
        if self.is_open {
            out.push(b'}');
        }
    }
}

fn is_dead((_, cell): &(Bytes, Cell)) -> bool {
    cell.is_tombstone()
}

fn is_plain(data: &ColumnRef<'_>, liveness: &Liveness) -> bool {
    match data {
        ColumnRef::Simple(cell) => cell.is_like(liveness),
        ColumnRef::Complex(complex) => {
            complex.deletion.is_live()
                && complex.cells.iter().all(|(_, cell)| CellRef::from(cell).is_like(liveness))
        }
    }
}

fn write_written(cell: CellRef<'_>, out: &mut Vec<u8>) {
    if cell.is_tombstone() {
        out.extend_from_slice(b"\"dead\":true,");
    }
    out.extend_from_slice(b"\"ts\":");
    push_i64(cell.timestamp, out);
    if cell.is_expiring() {
        write_expiry(cell.ttl, cell.local_deletion_time, out);
    } else if cell.is_tombstone() {
        out.extend_from_slice(b",\"ldt\":");
        push_u64(cell.local_deletion_time.into(), out);
    }
}

fn write_path(ty: &CqlType, path: &[u8], out: &mut Vec<u8>) {
    match ty {
        CqlType::Set { element: key, .. } | CqlType::Map { key, .. } => write_json(key, path, out),
        CqlType::List { .. } => write_json(&CqlType::Timeuuid, path, out),
        CqlType::UserDefined { definition, .. } => {
            let index =
                <[u8; 2]>::try_from(path).ok().map(|index| u16::from_be_bytes(index).into());
            match index.and_then(|index: usize| definition.fields.get(index)) {
                Some((name, _)) => write_json(&CqlType::Text, name.as_bytes(), out),
                None => write_json(&CqlType::Blob, path, out),
            }
        }
        _ => write_json(&CqlType::Blob, path, out),
    }
}
