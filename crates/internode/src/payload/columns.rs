//! Lists of static or regular columns by name, and subsets of them.
//!
//! A list is in Cassandra's order: simple columns first, then multi-cell ones, both sorted by name.
//! A message with another order is refused.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    encoding::{
        column::{EncodedColumn, EncodedColumns, compare_names},
        column_subset::{self, ColumnSubset},
        value::ValueForm,
    },
    schema::{ColumnDefinition, ColumnKind, TableMetadata},
};
use espalier_types::{CqlType, vint};

use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::put_vint_bytes,
};

/// A list of columns of one kind, as a message has it.
#[derive(Clone, Debug)]
pub struct ColumnList {
    names: Arc<[Bytes]>,
    encoded: EncodedColumns,
}

impl PartialEq for ColumnList {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.encoded.columns() == other.encoded.columns()
    }
}

impl Default for ColumnList {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new())
    }
}

impl ColumnList {
    fn new(names: Vec<Bytes>, columns: Vec<EncodedColumn>) -> Self {
        Self { names: names.into(), encoded: EncodedColumns::new(columns) }
    }

    /// Makes a list of a table's columns, in Cassandra's order.
    pub fn of<'a>(columns: impl IntoIterator<Item = &'a ColumnDefinition>) -> Self {
        let mut columns: Vec<_> = columns.into_iter().collect();
        columns.sort_by(|left, right| {
            let by_kind = left.is_complex().cmp(&right.is_complex());
            by_kind.then_with(|| compare_names(&left.name, &right.name))
        });
        let name = |column: &&ColumnDefinition| Bytes::copy_from_slice(column.name.as_bytes());
        let names = columns.iter().map(name).collect();
        let encode =
            |column: &ColumnDefinition| encode_column(&column.column_type, Some(column), i64::MIN);
        Self::new(names, columns.into_iter().map(encode).collect())
    }

    /// Returns the names.
    pub fn names(&self) -> &[Bytes] {
        &self.names
    }

    /// Returns the columns as the codec of rows takes them.
    pub fn encoded(&self) -> &EncodedColumns {
        &self.encoded
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Reads a list of names, which may include dropped columns.
    pub(crate) fn decode(
        input: &mut Input<'_>,
        table: &TableMetadata,
        kind: ColumnKind,
    ) -> Result<Self> {
        let count = input.count()?;
        let (mut names, mut columns) = (Vec::<Bytes>::new(), Vec::new());
        for _ in 0..count {
            let name = input.vint_bytes()?;
            let column = find(table, &name, kind)?;
            if names.last().zip(columns.last()).is_some_and(|last| !ascends(last, (&name, &column)))
            {
                return Err(DecodeError::Malformed("the columns of a message do not ascend"));
            }
            columns.push(column);
            names.push(name);
        }
        Ok(Self::new(names, columns))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        vint::write_unsigned(self.names.len() as u64, out);
        self.names.iter().for_each(|name| put_vint_bytes(name, out));
    }

    /// Reads a subset of this list.
    pub(crate) fn decode_subset(&self, input: &mut Input<'_>) -> Result<Self> {
        let subset = ColumnSubset::read(&mut input.data, self.len())?;
        let columns = self.encoded.columns();
        let picked = subset.iter().filter_map(|index| {
            Some((self.names.get(index)?.clone(), columns.get(index)?.clone()))
        });
        let (names, columns) = picked.unzip();
        Ok(Self::new(names, columns))
    }

    /// Appends this list as a subset of `superset`, which has its columns in the same order.
    pub(crate) fn encode_subset(&self, superset: &Self, out: &mut Vec<u8>) -> Result<(), String> {
        let mut rest = superset.names.iter().zip(0u32..);
        let mut indices = Vec::with_capacity(self.len());
        for name in &*self.names {
            let found = rest.find(|(other, _)| *other == name).map(|(_, index)| index);
            let missing = || format!("column {} is not selected", String::from_utf8_lossy(name));
            indices.push(found.ok_or_else(missing)?);
        }
        column_subset::write(superset.len(), &indices, out);
        Ok(())
    }
}

/// Returns whether a column follows another one in Cassandra's order.
fn ascends(left: (&Bytes, &EncodedColumn), right: (&Bytes, &EncodedColumn)) -> bool {
    // All names are those of columns, so they are UTF-8.
    let name = |name: &Bytes| String::from_utf8_lossy(name).into_owned();
    let by_kind = left.1.is_complex.cmp(&right.1.is_complex);
    by_kind.then_with(|| compare_names(&name(left.0), &name(right.0))).is_lt()
}

/// Finds a column of the table by the name in a message.
pub(crate) fn named<'t>(table: &'t TableMetadata, name: &[u8]) -> Option<&'t ColumnDefinition> {
    table.column(std::str::from_utf8(name).ok()?)
}

/// Returns the error for a name that no column of the table has.
pub(crate) fn unknown(table: &TableMetadata, name: &[u8]) -> DecodeError {
    DecodeError::UnknownColumn {
        column: String::from_utf8_lossy(name).into_owned(),
        table: format!("{}.{}", table.keyspace, table.name),
    }
}

fn find(table: &TableMetadata, name: &[u8], kind: ColumnKind) -> Result<EncodedColumn> {
    if let Some(column) = named(table, name) {
        if column.kind == kind {
            let dropped = table.former_drop(column).map(|dropped| dropped.dropped_time_us);
            return Ok(encode_column(
                &column.column_type,
                Some(column),
                dropped.unwrap_or(i64::MIN),
            ));
        }
        return Err(DecodeError::Malformed("a static column among regular ones, or the reverse"));
    }
    let dropped = std::str::from_utf8(name).ok().and_then(|name| table.dropped_columns.get(name));
    let dropped = dropped.ok_or_else(|| unknown(table, name))?;
    Ok(encode_column(&dropped.column_type, None, i64::MIN))
}

fn encode_column(
    column_type: &CqlType,
    target: Option<&ColumnDefinition>,
    dropped_time_us: i64,
) -> EncodedColumn {
    let is_complex = column_type.is_multi_cell();
    EncodedColumn {
        is_complex,
        // Counter shards stay in the order of the message: Cassandra's coordinator has sorted them.
        is_counter: false,
        keeps_empty: true,
        form: if is_complex { ValueForm::Prefixed } else { ValueForm::of(column_type) },
        target: target.map(|column| column.id),
        dropped_time_us,
    }
}
