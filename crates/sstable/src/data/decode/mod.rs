//! Decoding of partition heads, rows and markers from bytes in memory.

mod cell;
mod even;
mod head;
mod marker;
mod partition;
mod row;
pub(crate) mod view;
mod viewed_row;

pub(crate) use even::{EvenOrder, EvenPlace, EvenRow, EvenStep, may_have_even_rows};
pub(crate) use head::{HeadKind, HeadPosition, UnfilteredHead, read_head, read_static_head};
pub(crate) use marker::read_marker;
pub(crate) use partition::read_partition_head;
pub(crate) use row::RowDecoder;
pub(crate) use view::{CellView, NoStep, RowView, Span, Step, step};
pub(crate) use viewed_row::{ViewedRow, target_of};
