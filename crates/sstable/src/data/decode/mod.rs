//! Reads partition heads, rows and markers from bytes in memory.
//!
//! All readers share one walk over the format: [`walk_head`] reads the head of a row or marker, and
//! [`walk_row`] passes the body of a row to a visitor; see [`espalier_mutation::encoding::walk`]
//! and docs/decisions/0045.
//!
//! | reader | result |
//! | --- | --- |
//! | [`RowDecoder`] | a row as an object, with the reason if it is damaged |
//! | [`RowRef`] | ranges of a row's cells, to pack, copy, scan or print it |
//! | [`UniformRow`] | the ranges of a row that a writer copies |
//! | [`step`] | the end of a row or marker |

mod head;
mod marker;
mod partition;
mod row;
mod row_content;
mod row_ref;
#[cfg(test)]
mod tests;
mod uniform;

pub(crate) use espalier_mutation::encoding::{cell::CellSpan, input::Span};
pub(crate) use head::{
    Head, HeadKind, HeadPosition, UnfilteredHead, read_head, walk_head, walk_static_head,
};
pub(crate) use marker::{Step, read_marker, step};
pub(crate) use partition::read_partition_head;
pub(crate) use row::{RowDecoder, walk_row};
pub(crate) use row_content::{RawRowContent, target_of};
pub(crate) use row_ref::RowRef;
pub(crate) use uniform::{
    UniformOrder, UniformPlace, UniformRow, UniformStep, may_have_uniform_rows,
};
