//! The head of a partition: key and deletion.

use bytes::Bytes;
use espalier_mutation::DeletionTime;

use super::super::{
    column_map::FileLayout,
    deletion_time,
    input::{DataInput, Decoded},
};

/// Key and deletion of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionHead {
    pub(crate) key: Bytes,
    pub(crate) deletion: DeletionTime,
    /// Length of both in bytes.
    pub(crate) length: usize,
}

pub(crate) fn read_partition_head(
    input: &mut DataInput<'_>,
    layout: &FileLayout,
) -> Decoded<PartitionHead> {
    let start = input.offset();
    let length = input.u16()?;
    let key = input.take(usize::from(length))?;
    let deletion = deletion_time::read(input, layout.deletion_time)?;
    Ok(PartitionHead { key, deletion, length: input.offset() - start })
}
