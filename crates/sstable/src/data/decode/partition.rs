//! The head of a partition: key and deletion.

use espalier_mutation::DeletionTime;

use super::super::{
    column_map::FileLayout,
    deletion_time,
    input::{DataInput, Decoded, Span},
};

/// The head of a partition, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionHead {
    /// The range of the key.
    pub(crate) key: Span,
    pub(crate) deletion: DeletionTime,
    /// The offset after the key and the deletion.
    pub(crate) end: usize,
}

#[inline]
pub(crate) fn read_partition_head(
    input: &mut DataInput<'_>,
    layout: &FileLayout,
) -> Decoded<PartitionHead> {
    let length = input.u16()?;
    let key = input.span(usize::from(length))?;
    let deletion = deletion_time::read(input, layout.deletion_time)?;
    Ok(PartitionHead { key, deletion, end: input.offset() })
}
