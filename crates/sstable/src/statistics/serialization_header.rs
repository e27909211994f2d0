//! The serialization header describes how Data.db is decoded. It is the part of Statistics.db with
//! the number 3. Format: docs/formats/statistics.md.
//!
//! A file is decoded with the columns and types of its own header. The columns are then mapped to
//! the table's by name.

use std::sync::Arc;

pub(crate) use espalier_mutation::encoding::column::compare_names;
use espalier_mutation::schema::{ColumnDefinition, ColumnId, TableBuilder, TableId, TableMetadata};
use espalier_types::{CqlType, vint};
use hashbrown::HashSet;
use uuid::Uuid;

use super::encoding_stats::{DELETION_TIME_EPOCH_S, EncodingStats, TIMESTAMP_EPOCH_US};
use crate::{error::Result, input::Input};

/// A static or regular column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderColumn {
    /// Name in its stored case.
    pub name: String,
    /// Type with which its values were written.
    pub column_type: CqlType,
}

/// The header: baselines of deltas, types of keys, and columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerializationHeader {
    /// Baseline of timestamps in µs.
    pub min_timestamp: i64,
    /// Baseline of deletion times in seconds.
    pub min_local_deletion_time: u32,
    /// Baseline of TTLs in seconds.
    pub min_ttl: u32,
    /// Type of the partition key; a `Composite` if it has several columns.
    pub key_type: CqlType,
    /// Types of the clustering columns, each with a flag that is true if the column is in
    /// descending order.
    pub clustering_types: Vec<(CqlType, bool)>,
    /// Static columns in the order of Data.db: simple columns first, then multi-cell columns, and
    /// both by name.
    pub static_columns: Vec<HeaderColumn>,
    /// Regular columns in the same order.
    pub regular_columns: Vec<HeaderColumn>,
}

/// Sorts columns into the order of Data.db, whatever their order in the header
/// (docs/formats/statistics.md).
fn sort_columns(columns: &mut [HeaderColumn]) {
    columns.sort_by(|a, b| {
        let is_complex = |column: &HeaderColumn| column.column_type.is_multi_cell();
        is_complex(a).cmp(&is_complex(b)).then_with(|| compare_names(&a.name, &b.name))
    });
}

impl SerializationHeader {
    /// Returns the type of a table's partition key.
    pub fn key_type_of(table: &TableMetadata) -> CqlType {
        match table.partition_key_columns() {
            [single] => single.column_type.clone(),
            several => CqlType::Composite(several.iter().map(|c| c.column_type.clone()).collect()),
        }
    }

    /// Creates the header for an SSTable of `table` with the columns for which `present` is true.
    pub fn for_table(
        table: &TableMetadata,
        present: impl Fn(ColumnId) -> bool,
        stats: &EncodingStats,
    ) -> Self {
        let columns = |definitions: &[ColumnDefinition]| {
            let mut columns: Vec<_> = definitions
                .iter()
                .filter(|column| present(column.id))
                .map(|column| HeaderColumn {
                    name: column.name.clone(),
                    column_type: column.column_type.clone(),
                })
                .collect();
            sort_columns(&mut columns);
            columns
        };
        Self {
            min_timestamp: stats.min_timestamp(),
            min_local_deletion_time: stats.min_local_deletion_time(),
            min_ttl: stats.min_ttl(),
            key_type: Self::key_type_of(table),
            clustering_types: table.comparator().types.to_vec(),
            static_columns: columns(table.static_columns()),
            regular_columns: columns(table.regular_columns()),
        }
    }

    /// Returns the baselines, for the header of an SSTable into which the SSTable of this header is
    /// compacted.
    pub fn encoding_stats(&self) -> EncodingStats {
        EncodingStats::from_baselines(
            self.min_timestamp,
            self.min_local_deletion_time,
            self.min_ttl,
        )
    }

    /// Returns a table with the columns of the file. Files do not name key columns, so they are
    /// called `key`, `key2`, ... and `column1`, `column2`, ...
    pub fn to_table(&self, keyspace: &str, name: &str) -> Arc<TableMetadata> {
        let mut builder = TableBuilder::new(keyspace, name, TableId(Uuid::nil()));
        let single = std::slice::from_ref(&self.key_type);
        let key_types = match &self.key_type {
            CqlType::Composite(types) => types,
            _ => single,
        };
        let columns = self.static_columns.iter().chain(&self.regular_columns);
        let taken: HashSet<&str> = columns.map(|column| column.name.as_str()).collect();
        // A column of the file may already have the invented name.
        let invent = |prefix: &str, number: usize| {
            let plain = match (prefix, number) {
                ("key", 1) => "key".to_string(),
                _ => format!("{prefix}{number}"),
            };
            std::iter::successors(Some(plain), |name| Some(format!("{name}_")))
                .find(|name| !taken.contains(name.as_str()))
                .unwrap_or_default()
        };
        for (index, key_type) in key_types.iter().enumerate() {
            builder = builder.partition_key(&invent("key", index + 1), key_type.clone());
        }
        for (index, (column_type, reversed)) in self.clustering_types.iter().enumerate() {
            let name = invent("column", index + 1);
            builder = builder.clustering(&name, column_type.clone(), *reversed);
        }
        for column in &self.static_columns {
            builder = builder.static_column(&column.name, column.column_type.clone());
        }
        for column in &self.regular_columns {
            builder = builder.regular(&column.name, column.column_type.clone());
        }
        Arc::new(builder.build())
    }

    pub(super) fn read(input: &mut Input<'_>) -> Result<Self> {
        let min_timestamp = TIMESTAMP_EPOCH_US.wrapping_add(input.vint("min timestamp")? as i64);
        // The arithmetic has 32 bits, because the vint may be a negative difference that is
        // sign-extended to 64 bits (docs/formats/statistics.md).
        let min_local_deletion_time =
            DELETION_TIME_EPOCH_S.wrapping_add(input.vint("min local deletion time")? as u32);
        let min_ttl = input.vint("min ttl")? as u32;
        let (key_type, reversed) = read_type(input, "type of the partition key")?;
        if reversed {
            return Err(input.corrupt("the partition key has a reversed type"));
        }
        let count = input.vint("number of clustering columns")?;
        let count = input.checked_count(count, 1, "clustering columns")?;
        let mut clustering_types = Vec::with_capacity(count);
        for _ in 0..count {
            clustering_types.push(read_type(input, "type of a clustering column")?);
        }
        Ok(Self {
            min_timestamp,
            min_local_deletion_time,
            min_ttl,
            key_type,
            clustering_types,
            static_columns: read_columns(input, "static columns")?,
            regular_columns: read_columns(input, "regular columns")?,
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let timestamp = self.min_timestamp.wrapping_sub(TIMESTAMP_EPOCH_US);
        vint::write_unsigned(timestamp as u64, out);
        let deletion_time = self.min_local_deletion_time.wrapping_sub(DELETION_TIME_EPOCH_S);
        vint::write_unsigned(deletion_time as i32 as u64, out);
        vint::write_unsigned(self.min_ttl as i32 as u64, out);
        write_bytes(self.key_type.marshal_name().as_bytes(), out);
        vint::write_unsigned(self.clustering_types.len() as u64, out);
        for (column_type, reversed) in &self.clustering_types {
            write_bytes(type_name(column_type, *reversed).as_bytes(), out);
        }
        for columns in [&self.static_columns, &self.regular_columns] {
            vint::write_unsigned(columns.len() as u64, out);
            for column in columns {
                write_bytes(column.name.as_bytes(), out);
                write_bytes(column.column_type.marshal_name().as_bytes(), out);
            }
        }
    }
}

pub(super) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    vint::write_unsigned(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Returns the marshal name of a clustering column's type.
pub(crate) fn type_name(column_type: &CqlType, reversed: bool) -> String {
    let name = column_type.marshal_name();
    if reversed { format!("org.apache.cassandra.db.marshal.ReversedType({name})") } else { name }
}

pub(super) fn read_type(input: &mut Input<'_>, what: &str) -> Result<(CqlType, bool)> {
    let bytes = input.vint_bytes(what)?;
    let text = std::str::from_utf8(bytes)
        .map_err(|_| input.corrupt(format!("the {what} is not UTF-8")))?;
    CqlType::parse_marshal_maybe_reversed(text)
        .map_err(|error| input.corrupt(format!("the {what}: {error}")))
}

fn read_columns(input: &mut Input<'_>, what: &str) -> Result<Vec<HeaderColumn>> {
    let count = input.vint(what)?;
    let count = input.checked_count(count, 2, what)?;
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        let name = input.vint_bytes("column name")?;
        let name = String::from_utf8(name.to_vec())
            .map_err(|_| input.corrupt("a column name is not UTF-8"))?;
        let (column_type, reversed) = read_type(input, "type of a column")?;
        if reversed {
            return Err(input.corrupt(format!("column '{name}' has a reversed type")));
        }
        columns.push(HeaderColumn { name, column_type });
    }
    sort_columns(&mut columns);
    // The sort puts equal names of one kind next to each other. Sorting by name finds a simple and
    // a complex column of the same name too.
    let mut names: Vec<_> = columns.iter().map(|column| &column.name).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(input.corrupt(format!("column '{}' is listed twice", pair[0]))),
        None => Ok(columns),
    }
}
