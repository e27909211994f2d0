//! The partitions and rows that a read selects: a key or a range of keys, and slices or
//! clusterings.

use bytes::{BufMut, Bytes};
use espalier_mutation::{Clustering, ClusteringSlice, Direction, Token, schema::TableMetadata};
use espalier_types::vint;

use super::clusterings::{read_clustering, read_slice, write_slice, write_values_of};
use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::{put_boolean, put_short_bytes, put_token},
};

/// The rows that a read selects in each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringFilter {
    /// True if the answer is in reversed clustering order.
    pub is_reversed: bool,
    /// The rows.
    pub rows: SelectedRows,
}

/// Rows of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedRows {
    /// The rows in these slices, which are in clustering order.
    Slices(Vec<ClusteringSlice>),
    /// The rows with these clusterings, which are in clustering order. An empty list selects only
    /// the static row.
    Names(Vec<Clustering>),
}

impl ClusteringFilter {
    /// Returns the direction in which the answer walks the clustering order.
    pub(crate) fn direction(&self) -> Direction {
        if self.is_reversed { Direction::Reverse } else { Direction::Forward }
    }

    pub(crate) fn decode(input: &mut Input<'_>, table: &TableMetadata) -> Result<Self> {
        let kind = input.u8()?;
        let is_reversed = input.boolean()?;
        let count = input.count()?;
        let rows = match kind {
            0 => SelectedRows::Slices(input.list(count, |input| read_slice(input, table))?),
            1 => {
                // A table without clustering columns has one clustering, which takes no bytes.
                if count > 1 && table.comparator().types.is_empty() {
                    return Err(DecodeError::Malformed("the one row is selected several times"));
                }
                SelectedRows::Names(input.list(count, |input| read_clustering(input, table))?)
            }
            _ => return Err(DecodeError::Malformed("a selection of rows of unknown kind")),
        };
        Ok(Self { is_reversed, rows })
    }

    pub(crate) fn encode(&self, table: &TableMetadata, out: &mut Vec<u8>) -> Result<(), String> {
        let (kind, count) = match &self.rows {
            SelectedRows::Slices(slices) => (0, slices.len()),
            SelectedRows::Names(names) => (1, names.len()),
        };
        out.push(kind);
        put_boolean(self.is_reversed, out);
        vint::write_unsigned(count as u64, out);
        match &self.rows {
            SelectedRows::Slices(slices) => {
                slices.iter().try_for_each(|slice| write_slice(slice, table, out))
            }
            SelectedRows::Names(names) => {
                names.iter().try_for_each(|name| write_values_of(&name.values, table, out))
            }
        }
    }
}

/// An end of a range of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// A partition.
    Key(Bytes),
    /// Before all partitions of the token.
    BeforeToken(Token),
    /// After all partitions of the token.
    AfterToken(Token),
}

/// A range of partitions, with the rows that a read selects in each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRange {
    /// The first position.
    pub start: Position,
    /// True if the partition at the first position belongs to the range.
    pub is_start_included: bool,
    /// The last position. A range that ends at the minimum token goes to the end of the ring.
    pub end: Position,
    /// True if the partition at the last position belongs to the range.
    pub is_end_included: bool,
    /// The rows of each partition.
    pub filter: ClusteringFilter,
    /// The place where a page continues inside its first partition: the last row of the previous
    /// page, and whether to return that row again.
    pub paging: Option<(Clustering, bool)>,
}

const IS_TOKEN: u8 = 0x01;
const START_INCLUDED: u8 = 0x02;
const END_INCLUDED: u8 = 0x04;

impl DataRange {
    pub(crate) fn decode(input: &mut Input<'_>, table: &TableMetadata) -> Result<Self> {
        let flags = input.u8()?;
        if flags & !(START_INCLUDED | END_INCLUDED) != 0 {
            let reason = match flags & IS_TOKEN {
                0 => "a range of unknown kind",
                _ => "a range of tokens instead of partitions",
            };
            return Err(DecodeError::Malformed(reason));
        }
        let (start, end) = (Position::decode(input)?, Position::decode(input)?);
        let filter = ClusteringFilter::decode(input, table)?;
        let mut paging = None;
        if input.boolean()? {
            paging = Some((read_clustering(input, table)?, input.boolean()?));
        }
        Ok(Self {
            start,
            is_start_included: flags & START_INCLUDED != 0,
            end,
            is_end_included: flags & END_INCLUDED != 0,
            filter,
            paging,
        })
    }

    pub(crate) fn encode(&self, table: &TableMetadata, out: &mut Vec<u8>) -> Result<(), String> {
        let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
        out.push(
            flag(self.is_start_included, START_INCLUDED) | flag(self.is_end_included, END_INCLUDED),
        );
        self.start.encode(out)?;
        self.end.encode(out)?;
        self.filter.encode(table, out)?;
        put_boolean(self.paging.is_some(), out);
        if let Some((last, is_included)) = &self.paging {
            write_values_of(&last.values, table, out)?;
            put_boolean(*is_included, out);
        }
        Ok(())
    }
}

impl Position {
    fn decode(input: &mut Input<'_>) -> Result<Self> {
        match input.u8()? {
            0 => Ok(Self::Key(input.short_bytes()?)),
            1 => Ok(Self::BeforeToken(input.token()?)),
            2 => Ok(Self::AfterToken(input.token()?)),
            _ => Err(DecodeError::Malformed("a position of unknown kind")),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Key(key) => {
                out.put_u8(0);
                put_short_bytes(key, out)?;
            }
            Self::BeforeToken(token) => {
                out.put_u8(1);
                put_token(*token, out);
            }
            Self::AfterToken(token) => {
                out.put_u8(2);
                put_token(*token, out);
            }
        }
        Ok(())
    }
}
