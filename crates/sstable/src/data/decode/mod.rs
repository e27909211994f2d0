//! Decoding of partition heads, rows and markers from bytes in memory.

mod head;
mod marker;
mod partition;
mod row;
mod row_content;
pub(crate) mod row_ref;
mod uniform;

pub(crate) use head::{HeadKind, HeadPosition, UnfilteredHead, read_head, read_static_head};
pub(crate) use marker::read_marker;
pub(crate) use partition::read_partition_head;
pub(crate) use row::RowDecoder;
pub(crate) use row_content::{RawRowContent, target_of};
pub(crate) use row_ref::{CellSpan, NoStep, RowRef, Span, Step, step};
pub(crate) use uniform::{
    UniformOrder, UniformPlace, UniformRow, UniformStep, may_have_uniform_rows,
};
