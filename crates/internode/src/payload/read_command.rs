//! Reads of one partition, and of a range of partitions.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use espalier_mutation::{
    encoding::value::{ValueForm, write_value},
    schema::{TableId, TableMetadata},
};
use espalier_types::vint;
use uuid::Uuid;

use super::{ClusteringFilter, ColumnFilter, DataLimits, DataRange, RowFilter, Tables};
use crate::{
    error::{DecodeError, Result},
    input::Input,
};

const IS_DIGEST: u8 = 0x01;
const IS_FOR_THRIFT: u8 = 0x02;
const HAS_INDEX: u8 = 0x04;
const ACCEPTS_TRANSIENT: u8 = 0x08;
const NEEDS_RECONCILIATION: u8 = 0x10;

/// A read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadCommand {
    /// The table at the time of decoding.
    pub table: Arc<TableMetadata>,
    /// The version of the digest to answer with; `None` if the answer is data.
    pub digest_version: Option<u32>,
    /// True if a transient replica may answer.
    pub accepts_transient: bool,
    /// True if the coordinator filters the rows of several replicas again.
    pub needs_reconciliation: bool,
    /// The time of the read in seconds since 1970. Version 12 sends 31 bits.
    pub now_s: u32,
    /// The columns.
    pub columns: ColumnFilter,
    /// The conditions on rows.
    pub filter: RowFilter,
    /// The limits.
    pub limits: DataLimits,
    /// The id of the index that the coordinator has chosen.
    pub index: Option<Uuid>,
    /// The partitions and rows.
    pub selection: Selection,
}

/// The partitions and rows of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Rows of one partition.
    Partition {
        /// The serialised key.
        key: Bytes,
        /// The rows.
        filter: ClusteringFilter,
    },
    /// Rows of a range of partitions.
    Range(DataRange),
}

impl ReadCommand {
    pub(crate) fn decode(input: &mut Input<'_>, tables: &dyn Tables) -> Result<Self> {
        let kind = input.u8()?;
        let flags = input.u8()?;
        if flags & IS_FOR_THRIFT != 0 {
            return Err(DecodeError::Unsupported("a read of Thrift"));
        }
        if flags
            & !(IS_DIGEST | HAS_INDEX | ACCEPTS_TRANSIENT | NEEDS_RECONCILIATION | IS_FOR_THRIFT)
            != 0
        {
            return Err(DecodeError::Malformed("unknown flags of a read"));
        }
        let is_digest = flags & IS_DIGEST != 0;
        let digest_version = is_digest.then(|| input.count()).transpose()?;
        let id = TableId(input.uuid()?);
        let table = tables.table(id).ok_or(DecodeError::UnknownTable(id))?;
        let now_s = input.u32()?;
        let columns = ColumnFilter::decode(input, &table)?;
        let filter = RowFilter::decode(input, &table)?;
        let limits = DataLimits::decode(input, &table)?;
        let index = (flags & HAS_INDEX != 0).then(|| input.uuid()).transpose()?;
        let selection = match kind {
            0 => Selection::Partition {
                key: read_key(input, &table)?,
                filter: ClusteringFilter::decode(input, &table)?,
            },
            1 => Selection::Range(DataRange::decode(input, &table)?),
            _ => return Err(DecodeError::Malformed("a read of unknown kind")),
        };
        Ok(Self {
            digest_version,
            accepts_transient: flags & ACCEPTS_TRANSIENT != 0,
            needs_reconciliation: flags & NEEDS_RECONCILIATION != 0,
            now_s,
            columns,
            filter,
            limits,
            index,
            selection,
            table,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
        out.push(u8::from(matches!(self.selection, Selection::Range(_))));
        out.push(
            flag(self.digest_version.is_some(), IS_DIGEST)
                | flag(self.index.is_some(), HAS_INDEX)
                | flag(self.accepts_transient, ACCEPTS_TRANSIENT)
                | flag(self.needs_reconciliation, NEEDS_RECONCILIATION),
        );
        if let Some(version) = self.digest_version {
            vint::write_unsigned(version.into(), out);
        }
        out.extend_from_slice(self.table.id.0.as_bytes());
        out.put_u32(self.now_s);
        self.columns.encode(out)?;
        self.filter.encode(out)?;
        self.limits.encode(&self.table, out)?;
        if let Some(index) = self.index {
            out.extend_from_slice(index.as_bytes());
        }
        match &self.selection {
            Selection::Partition { key, filter } => {
                write_value(key_form(&self.table), key, out)?;
                filter.encode(&self.table, out)
            }
            Selection::Range(range) => range.encode(&self.table, out),
        }
    }
}

/// Returns the form of a partition key. A key of one column of fixed length has no length prefix.
fn key_form(table: &TableMetadata) -> ValueForm {
    match table.partition_key_columns() {
        [single] => ValueForm::of(&single.column_type),
        _ => ValueForm::Prefixed,
    }
}

fn read_key(input: &mut Input<'_>, table: &TableMetadata) -> Result<Bytes> {
    match key_form(table) {
        ValueForm::Fixed(length) => input.take(length),
        ValueForm::Prefixed => input.vint_bytes(),
    }
}
