//! The columns of a result or of a statement's bind variables in wire form, encoded once and copied
//! into each response.

use espalier_types::CqlType;

use super::super::version::ProtocolVersion;
use super::super::writer::WireWrite;
use super::type_option;

/// One column of a result, or one bind variable.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec<'a> {
    /// Keyspace of the table.
    pub keyspace: &'a str,
    /// The table.
    pub table: &'a str,
    /// The column or variable.
    pub name: &'a str,
    /// Its type.
    pub cql_type: &'a CqlType,
}

/// The wire form of a list of columns: the table (once if all share it), then names and types.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EncodedColumns {
    count: u32,
    one_table: bool,
    bytes: Vec<u8>,
}

impl EncodedColumns {
    /// Encodes `columns` for `version`. The bytes depend on the version, because older versions
    /// lack some types.
    pub fn new<'a>(
        version: ProtocolVersion,
        columns: impl IntoIterator<Item = ColumnSpec<'a>, IntoIter: Clone>,
    ) -> Self {
        let columns = columns.into_iter();
        let mut encoded = Self::default();
        let table_of = |column: ColumnSpec<'a>| (column.keyspace, column.table);
        let first = columns.clone().next().map(table_of);
        let out = &mut encoded.bytes;
        if let Some((keyspace, table)) = first
            && columns.clone().all(|column| table_of(column) == (keyspace, table))
        {
            encoded.one_table = true;
            out.put_string(keyspace);
            out.put_string(table);
        }
        for column in columns {
            encoded.count += 1;
            if !encoded.one_table {
                out.put_string(column.keyspace);
                out.put_string(column.table);
            }
            out.put_string(column.name);
            type_option::encode(version, column.cql_type, out);
        }
        encoded
    }

    /// Returns the number of columns.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the wire form. Equal columns have equal bytes, so that a digest of the bytes can
    /// serve as their id.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether the wire form has the table only once, at the front.
    pub(super) fn one_table(&self) -> bool {
        self.one_table
    }
}
