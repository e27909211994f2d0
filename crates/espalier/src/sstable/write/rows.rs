//! Builds rows from records, as INSERT would write them.
//!
//! A column that is missing in the record, or null, is not written, not even as a tombstone. A
//! collection or UDT that is not frozen replaces the old value, because the row also deletes the
//! old value, with a timestamp one microsecond before the row's.
//!
//! Each list element of an input has a path of its own. If two records write the same list with the
//! same `$ts`, the list therefore has the elements of both, as after two INSERTs.

use std::cell::Cell as Counter;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, DecoratedKey, DeletionTime, Liveness,
    MAX_TTL_SECONDS, NO_DELETION_TIME, Row, build_composite,
};
use espalier_types::literal::{FieldCount, Json, from_json_value};
use espalier_types::{CqlType, collection, timeuuid};

use super::input::Record;
use super::json::column_name;
use crate::sstable::values::from_field;

/// The Unix epoch in units of 100 ns since 1582-10-15.
const UNIX_EPOCH_TICKS: u64 = 122_192_928_000_000_000;
/// Clock sequence and node in the paths of list elements (arbitrary).
const CLOCK_SEQUENCE_AND_NODE: u64 = 0x8000_4553_5041_4C49;

/// A row of a partition, and the static row of the same record.
#[derive(Debug, PartialEq)]
pub struct Built {
    pub key: DecoratedKey,
    pub static_row: Option<Row>,
    /// `None` if the record has no clustering and only static columns.
    pub row: Option<Row>,
}

/// Builds rows of a table.
pub struct RowBuilder {
    table: Arc<TableMetadata>,
    timestamp: i64,
    now_s: u32,
    latest_expiry_s: u32,
    /// Number of list elements so far.
    list_elements: Counter<u64>,
}

/// The times with which the cells of a record are written.
#[derive(Clone, Copy)]
struct Written {
    timestamp: i64,
    ttl: u32,
    expiry_s: u32,
    now_s: u32,
}

impl RowBuilder {
    /// Creates a builder. `timestamp`, in µs, is that of records without a timestamp.
    /// `latest_expiry_s` is the latest expiry that the SSTable's version can store.
    pub fn new(
        table: Arc<TableMetadata>,
        timestamp: i64,
        now_s: i64,
        latest_expiry_s: u32,
    ) -> Self {
        let now_s = u32::try_from(now_s).unwrap_or(0);
        Self { table, timestamp, now_s, latest_expiry_s, list_elements: Counter::new(0) }
    }

    /// Returns the timestamp, in µs, of records without a timestamp.
    pub fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// Builds the row and the static row of a record.
    ///
    /// # Errors
    /// Fails if a column is unknown or twice in the record, if a value does not fit its column, if
    /// `$ts` or `$ttl` is out of range, if the row would expire too late for the SSTable's version,
    /// if a part of the key is missing or too long, or if a compact table's only value is missing.
    pub fn build(&self, record: &Record) -> Result<Built, String> {
        let mut values: Vec<(&ColumnDefinition, Bytes)> = Vec::new();
        let (mut timestamp, mut ttl) = (self.timestamp, self.table.options.default_time_to_live);
        let mut seen: Vec<&str> = Vec::new();
        let mut take = |name: &str, value: Value<'_>| -> Result<(), String> {
            let (known, column) = match name {
                "$ts" => ("$ts", None),
                "$ttl" => ("$ttl", None),
                name => {
                    let column = self.column(name)?;
                    (column.name.as_str(), Some(column))
                }
            };
            // With two values it is unclear which one is meant.
            if seen.contains(&known) {
                return Err(format!("the row has '{known}' twice"));
            }
            seen.push(known);
            match column {
                Some(column) => {
                    if let Some(value) = value.of(column)? {
                        values.push((column, value));
                    }
                }
                None if known == "$ts" => timestamp = value.number(name)?.unwrap_or(timestamp),
                None => {
                    let given = value.number(name)?.unwrap_or(i64::from(ttl));
                    ttl = u32::try_from(given)
                        .ok()
                        .filter(|ttl| *ttl <= MAX_TTL_SECONDS)
                        .ok_or(format!("$ttl: {given} is not from 0 to {MAX_TTL_SECONDS}"))?;
                }
            }
            Ok(())
        };
        match record {
            Record::Json(members) => {
                members.iter().try_for_each(|(name, value)| take(name, Value::Json(value)))?;
            }
            Record::Text { names, fields } => names
                .iter()
                .zip(fields)
                .try_for_each(|(name, value)| take(name, Value::Text(value.as_deref())))?,
        }
        let expiry_s = match ttl {
            0 => NO_DELETION_TIME,
            ttl => self.now_s.saturating_add(ttl),
        };
        if ttl > 0 && expiry_s > self.latest_expiry_s {
            let latest_s = self.latest_expiry_s;
            return Err(format!(
                "it would expire at second {expiry_s}, but this version stores times up to {latest_s}"
            ));
        }
        self.assemble(values, Written { timestamp, ttl, expiry_s, now_s: self.now_s })
    }

    /// Checks that the table has all columns of a CSV header, and that the header names each column
    /// once.
    ///
    /// # Errors
    /// Fails if a column is unknown or twice in the header.
    pub fn check_header(&self, names: &[String]) -> Result<(), String> {
        let mut seen = HashSet::new();
        for name in names.iter().filter(|name| !matches!(name.as_str(), "$ts" | "$ttl")) {
            if !seen.insert(self.column(name)?.id) {
                return Err(format!("the header has column '{name}' twice"));
            }
        }
        Ok(())
    }

    /// Finds a column by its exact name, or else as CQL does: by the name without quotes, or in
    /// lower case.
    fn column(&self, name: &str) -> Result<&ColumnDefinition, String> {
        let column = self.table.visible_column(name);
        let as_cql = || self.table.visible_column(&column_name(name.to_owned()));
        column.or_else(as_cql).ok_or_else(|| {
            let known: Vec<_> = self.table.visible_columns().map(|c| c.name.as_str()).collect();
            format!(
                "{}.{} has no column '{name}', only {}",
                self.table.keyspace,
                self.table.name,
                known.join(", ")
            )
        })
    }

    fn assemble(
        &self,
        values: Vec<(&ColumnDefinition, Bytes)>,
        written: Written,
    ) -> Result<Built, String> {
        let key = self.partition_key(&values)?;
        let clustering = self.clustering(&values)?;
        let has_row = clustering.iter().all(Option::is_some);
        let mut static_row = Row::empty(Clustering::empty());
        let mut row = Row::empty(Clustering { values: clustering.into() });
        if written.timestamp == i64::MIN {
            return Err("the smallest 64-bit timestamp is reserved; give another one".to_owned());
        }
        if self.table.has_row_liveness() {
            row.liveness = Liveness {
                timestamp: written.timestamp,
                ttl: written.ttl,
                local_expiration: written.expiry_s,
            };
        }
        for (column, value) in values {
            let target = match column.kind {
                ColumnKind::Regular => &mut row,
                ColumnKind::Static => &mut static_row,
                _ => continue,
            };
            let data = self.column_data(column, value, written)?;
            *target.column_or_insert(column.id, || ColumnData::Complex(ComplexColumn::default())) =
                data;
        }
        if has_row && !self.table.has_row_liveness() && row.columns.is_empty() {
            self.add_compact_value(&mut row, written)?;
        }
        Ok(Built {
            key: DecoratedKey::new(key),
            static_row: (!static_row.is_empty()).then_some(static_row),
            row: has_row.then_some(row),
        })
    }

    /// Adds an empty value to a row without values. In a compact table without a declared value
    /// column, a row exists by this value.
    fn add_compact_value(&self, row: &mut Row, written: Written) -> Result<(), String> {
        let Some(column) = self.table.regular_columns().first() else { return Ok(()) };
        if !self.table.layout.hides(column) {
            return Err(missing(column));
        }
        row.set_cell(column.id, written.cell(Bytes::new()));
        Ok(())
    }

    fn partition_key(&self, values: &[(&ColumnDefinition, Bytes)]) -> Result<Bytes, String> {
        let key = self.table.partition_key_columns().iter();
        let key: Vec<_> = key
            .map(|column| value_of(values, column).ok_or_else(|| missing(column)))
            .collect::<Result<_, _>>()?;
        let key = match key.as_slice() {
            [one] => one.clone(),
            several if several.iter().any(|part| part.len() > 65_535) => {
                return Err("a part of the key is longer than 65535 bytes".to_owned());
            }
            several => build_composite(several),
        };
        if key.is_empty() || key.len() > 65_535 {
            return Err(format!(
                "the partition key has {} bytes; it must have 1 to 65535",
                key.len()
            ));
        }
        Ok(key)
    }

    /// Returns the clustering values, or only `None`s if the record has only static columns.
    fn clustering(
        &self,
        values: &[(&ColumnDefinition, Bytes)],
    ) -> Result<Vec<Option<Bytes>>, String> {
        let columns = self.table.clustering_columns();
        let clustering: Vec<_> = columns.iter().map(|column| value_of(values, column)).collect();
        if let Some(first) = clustering.iter().position(Option::is_none) {
            let has = |kind| values.iter().any(|(column, _)| column.kind == kind);
            let is_static_only = clustering.iter().all(Option::is_none)
                && !has(ColumnKind::Regular)
                && has(ColumnKind::Static);
            if !is_static_only {
                return Err(missing(&columns[first]));
            }
        }
        let length: usize = clustering.iter().flatten().map(Bytes::len).sum();
        if length > 65_535 {
            // As in Cassandra's INSERT: versions before oa cannot store more.
            return Err(format!(
                "the clustering columns have {length} bytes together; at most 65535 are possible"
            ));
        }
        Ok(clustering)
    }

    fn column_data(
        &self,
        column: &ColumnDefinition,
        value: Bytes,
        written: Written,
    ) -> Result<ColumnData, String> {
        if !column.is_complex() {
            return Ok(ColumnData::Simple(written.cell(value)));
        }
        let wrong = |error: espalier_types::ValueError| format!("{}: {error}", column.name);
        let share = |part: &[u8]| value.slice_ref(part);
        let mut cells = Vec::new();
        match &column.column_type {
            CqlType::Set { .. } => {
                for element in collection::elements(&value).map_err(wrong)? {
                    let element = element.map_err(wrong)?.unwrap_or_default();
                    cells.push((share(element), written.cell(Bytes::new())));
                }
            }
            CqlType::List { .. } => {
                for element in collection::elements(&value).map_err(wrong)? {
                    let element = element.map_err(wrong)?.unwrap_or_default();
                    let index = self.list_elements.replace(self.list_elements.get() + 1);
                    cells.push((written.list_path(index), written.cell(share(element))));
                }
            }
            CqlType::Map { .. } => {
                for entry in collection::entries(&value).map_err(wrong)? {
                    let (key, element) = entry.map_err(wrong)?;
                    cells.push((share(key), written.cell(share(element))));
                }
            }
            _ => {
                for (index, field) in collection::fields(&value).enumerate() {
                    let Some(field) = field.map_err(wrong)? else { continue };
                    let path = Bytes::copy_from_slice(&(index as u16).to_be_bytes());
                    cells.push((path, written.cell(share(field))));
                }
            }
        }
        let deletion = DeletionTime::new(written.timestamp.saturating_sub(1), written.now_s);
        Ok(ColumnData::Complex(ComplexColumn { deletion, cells }))
    }
}

impl Written {
    fn cell(&self, value: Bytes) -> Cell {
        match self.ttl {
            0 => Cell::live(self.timestamp, value),
            ttl => Cell::expiring(self.timestamp, ttl, self.expiry_s, value),
        }
    }

    /// Returns the path of a list element, a timeuuid. The paths of a list differ in their times.
    fn list_path(&self, index: u64) -> Bytes {
        let ticks = (self.timestamp.max(0) as u64).wrapping_mul(10);
        let ticks = UNIX_EPOCH_TICKS.wrapping_add(ticks).wrapping_add(index);
        Bytes::copy_from_slice(&timeuuid::from_ticks(ticks, CLOCK_SEQUENCE_AND_NODE))
    }
}

fn value_of(values: &[(&ColumnDefinition, Bytes)], column: &ColumnDefinition) -> Option<Bytes> {
    values.iter().find(|(other, _)| other.id == column.id).map(|(_, value)| value.clone())
}

fn missing(column: &ColumnDefinition) -> String {
    format!("'{}' is part of the key and has no value", column.name)
}

/// Returns true if an empty text is a value of the type.
fn has_empty_text(ty: &CqlType) -> bool {
    matches!(ty, CqlType::Text | CqlType::Ascii | CqlType::Blob)
}

/// A value in the form of the input.
enum Value<'record> {
    Json(&'record Json),
    Text(Option<&'record str>),
}

impl Value<'_> {
    fn number(&self, name: &str) -> Result<Option<i64>, String> {
        let text = match self {
            Self::Json(Json::Null) | Self::Text(None) => return Ok(None),
            Self::Json(Json::Number(text) | Json::String(text)) => text.as_str(),
            Self::Json(other) => return Err(format!("{name}: {other} is not a number")),
            Self::Text(Some(text)) => text,
        };
        text.parse().map(Some).map_err(|_| format!("{name}: '{text}' is not a whole number"))
    }

    fn of(&self, column: &ColumnDefinition) -> Result<Option<Bytes>, String> {
        let value = match self {
            Self::Json(json) => {
                from_json_value(&column.column_type, json, &mut FieldCount::default())
                    .map_err(|error| error.to_string())
            }
            Self::Text(None) => Ok(None),
            // A writer that quotes every field cannot express a missing value otherwise.
            Self::Text(Some("")) if !has_empty_text(&column.column_type) => Ok(None),
            Self::Text(Some(text)) => from_field(&column.column_type, text),
        };
        value.map_err(|error| format!("{}: {error}", column.name))
    }
}
