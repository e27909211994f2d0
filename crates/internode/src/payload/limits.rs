//! The limits of a read: rows, rows of a partition, groups, and the place where a page continues.

use bytes::Bytes;
use espalier_mutation::{Clustering, schema::TableMetadata};
use espalier_types::vint;

use super::clusterings::{read_clustering, write_values_of};
use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::{put_boolean, put_vint_bytes},
};

/// The limits of a read. `i32::MAX` means that there is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataLimits {
    /// The counted rows or groups.
    pub counted: Counted,
    /// The last partition of the previous page, and the number of its rows or groups that the read
    /// may still return.
    pub paging: Option<(Bytes, u32)>,
}

/// The rows or groups that limits count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Rows.
    Rows {
        /// `LIMIT`, or the length of the page.
        limit: u32,
        /// `PER PARTITION LIMIT`
        per_partition: u32,
        /// `SELECT DISTINCT`: one row of each partition counts.
        is_distinct: bool,
    },
    /// Groups of `GROUP BY`, or of an aggregate.
    Groups {
        /// `LIMIT`
        limit: u32,
        /// `PER PARTITION LIMIT`
        per_partition: u32,
        /// The maximum number of rows that the read counts.
        rows: u32,
        /// The rows that make a group.
        grouping: Grouping,
        /// The group in which the previous page ended.
        state: GroupingState,
    },
}

/// The rows that make a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// All rows.
    Everything,
    /// The rows of a partition with equal values in this number of leading clustering columns.
    PrimaryKeyPrefix(u32),
}

/// The group in which the previous page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupingState {
    /// No group.
    Empty,
    /// A group of this partition, and the clustering of the group's last row.
    Begun(Bytes, Option<Clustering>),
}

const ROWS: u8 = 0;
const ROWS_PAGING: u8 = 1;
/// 4, because Thrift had the kinds 2 and 3.
const GROUPS: u8 = 4;
const GROUPS_PAGING: u8 = 5;

impl DataLimits {
    pub(crate) fn decode(input: &mut Input<'_>, table: &TableMetadata) -> Result<Self> {
        let kind = input.u8()?;
        let counted = match kind {
            ROWS | ROWS_PAGING => Counted::Rows {
                limit: input.count()?,
                per_partition: input.count()?,
                is_distinct: input.boolean()?,
            },
            GROUPS | GROUPS_PAGING => Counted::Groups {
                limit: input.count()?,
                per_partition: input.count()?,
                rows: input.count()?,
                grouping: Grouping::decode(input)?,
                state: GroupingState::decode(input, table)?,
            },
            _ => return Err(DecodeError::Malformed("limits of unknown kind")),
        };
        let is_paging = matches!(kind, ROWS_PAGING | GROUPS_PAGING);
        let paging = if is_paging { Some((input.vint_bytes()?, input.count()?)) } else { None };
        Ok(Self { counted, paging })
    }

    pub(crate) fn encode(&self, table: &TableMetadata, out: &mut Vec<u8>) -> Result<(), String> {
        let is_paging = u8::from(self.paging.is_some());
        match &self.counted {
            Counted::Rows { limit, per_partition, is_distinct } => {
                out.push(ROWS + is_paging);
                vint::write_unsigned((*limit).into(), out);
                vint::write_unsigned((*per_partition).into(), out);
                put_boolean(*is_distinct, out);
            }
            Counted::Groups { limit, per_partition, rows, grouping, state } => {
                out.push(GROUPS + is_paging);
                for limit in [limit, per_partition, rows] {
                    vint::write_unsigned((*limit).into(), out);
                }
                grouping.encode(out);
                state.encode(table, out)?;
            }
        }
        if let Some((key, remaining)) = &self.paging {
            put_vint_bytes(key, out);
            vint::write_unsigned((*remaining).into(), out);
        }
        Ok(())
    }
}

impl Grouping {
    fn decode(input: &mut Input<'_>) -> Result<Self> {
        match input.u8()? {
            0 => Ok(Self::Everything),
            1 => Ok(Self::PrimaryKeyPrefix(input.count()?)),
            // The function's arguments follow without a length.
            2 => Err(DecodeError::Unsupported("GROUP BY a function of a clustering column")),
            _ => Err(DecodeError::Malformed("groups of unknown kind")),
        }
    }

    fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Everything => out.push(0),
            Self::PrimaryKeyPrefix(columns) => {
                out.push(1);
                vint::write_unsigned(columns.into(), out);
            }
        }
    }
}

impl GroupingState {
    fn decode(input: &mut Input<'_>, table: &TableMetadata) -> Result<Self> {
        if !input.boolean()? {
            return Ok(Self::Empty);
        }
        let key = input.vint_bytes()?;
        let has_clustering = input.boolean()?;
        let clustering = has_clustering.then(|| read_clustering(input, table)).transpose()?;
        Ok(Self::Begun(key, clustering))
    }

    fn encode(&self, table: &TableMetadata, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Empty => put_boolean(false, out),
            Self::Begun(key, clustering) => {
                put_boolean(true, out);
                put_vint_bytes(key, out);
                put_boolean(clustering.is_some(), out);
                if let Some(clustering) = clustering {
                    write_values_of(&clustering.values, table, out)?;
                }
            }
        }
        Ok(())
    }
}
