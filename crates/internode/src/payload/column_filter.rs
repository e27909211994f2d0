//! The columns and cells that a read fetches, and the columns and cells that it returns.

use bytes::Bytes;
use espalier_mutation::schema::{ColumnKind, TableMetadata};
use espalier_types::vint;

use super::{
    ColumnList, FetchedColumns,
    columns::{named, unknown},
};
use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::{put_short_bytes, put_vint_bytes},
};

const FETCH_ALL_REGULARS: u8 = 0x01;
const HAS_QUERIED: u8 = 0x02;
const HAS_SUB_SELECTIONS: u8 = 0x04;
const FETCH_ALL_STATICS: u8 = 0x08;

/// The columns that a read fetches, and the columns that it returns.
///
/// A read fetches more columns than it returns, because another column may be the reason why a row
/// without the returned columns exists.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnFilter {
    /// The fetched columns, if the read fetches all regular ones; otherwise the read fetches the
    /// queried columns.
    pub all_regulars: Option<FetchedColumns>,
    /// True if the read fetches all static columns.
    pub fetches_all_statics: bool,
    /// The queried columns; `None` if the read queries all fetched columns.
    pub queried: Option<FetchedColumns>,
    /// The elements of multi-cell columns that the read returns; `None` if it returns all.
    pub sub_selections: Option<Vec<SubSelection>>,
}

/// A part of a multi-cell column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubSelection {
    /// The name of the column.
    pub column: Bytes,
    /// The selected cells.
    pub cells: SelectedCells,
}

/// Cells of a multi-cell column, by their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedCells {
    /// The cells from the first path to the last one.
    Slice(Bytes, Bytes),
    /// One cell.
    Element(Bytes),
}

impl ColumnFilter {
    /// Returns the columns that the read fetches.
    pub fn fetched(&self) -> Option<&FetchedColumns> {
        self.all_regulars.as_ref().or(self.queried.as_ref())
    }

    pub(crate) fn decode(input: &mut Input<'_>, table: &TableMetadata) -> Result<Self> {
        let flags = input.u8()?;
        if flags & !(FETCH_ALL_REGULARS | HAS_QUERIED | HAS_SUB_SELECTIONS | FETCH_ALL_STATICS) != 0
        {
            return Err(DecodeError::Malformed("unknown flags of a column filter"));
        }
        let has = |flag: u8| flags & flag != 0;
        if !has(FETCH_ALL_REGULARS) && !has(HAS_QUERIED) {
            return Err(DecodeError::Malformed("a column filter without columns"));
        }
        let mut columns = || {
            let statics = ColumnList::decode(input, table, ColumnKind::Static)?;
            Ok::<_, DecodeError>((statics, ColumnList::decode(input, table, ColumnKind::Regular)?))
        };
        let all_regulars = has(FETCH_ALL_REGULARS).then(&mut columns).transpose()?;
        let queried = has(HAS_QUERIED).then(&mut columns).transpose()?;
        let mut sub_selections = None;
        if has(HAS_SUB_SELECTIONS) {
            let count = input.count()?;
            let decode = |input: &mut Input<'_>| SubSelection::decode(input, table);
            sub_selections = Some(input.list(count, decode)?);
        }
        let fetches_all_statics = has(FETCH_ALL_STATICS);
        Ok(Self { all_regulars, fetches_all_statics, queried, sub_selections })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
        out.push(
            flag(self.all_regulars.is_some(), FETCH_ALL_REGULARS)
                | flag(self.queried.is_some(), HAS_QUERIED)
                | flag(self.sub_selections.is_some(), HAS_SUB_SELECTIONS)
                | flag(self.fetches_all_statics, FETCH_ALL_STATICS),
        );
        for (statics, regulars) in self.all_regulars.iter().chain(&self.queried) {
            statics.encode(out);
            regulars.encode(out);
        }
        if let Some(selections) = &self.sub_selections {
            vint::write_unsigned(selections.len() as u64, out);
            selections.iter().try_for_each(|selection| selection.encode(out))?;
        }
        Ok(())
    }
}

impl SubSelection {
    fn decode(input: &mut Input<'_>, table: &TableMetadata) -> Result<Self> {
        let column = input.short_bytes()?;
        let is_known = named(table, &column).is_some()
            || std::str::from_utf8(&column)
                .is_ok_and(|column| table.dropped_columns.contains_key(column));
        if !is_known {
            return Err(unknown(table, &column));
        }
        let cells = match input.u8()? {
            0 => SelectedCells::Slice(input.vint_bytes()?, input.vint_bytes()?),
            1 => SelectedCells::Element(input.vint_bytes()?),
            _ => return Err(DecodeError::Malformed("a selection of cells of unknown kind")),
        };
        Ok(Self { column, cells })
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        put_short_bytes(&self.column, out)?;
        match &self.cells {
            SelectedCells::Slice(from, to) => {
                out.push(0);
                put_vint_bytes(from, out);
                put_vint_bytes(to, out);
            }
            SelectedCells::Element(path) => {
                out.push(1);
                put_vint_bytes(path, out);
            }
        }
        Ok(())
    }
}
