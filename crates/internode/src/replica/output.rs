//! Turns the partitions of the answer into data or a digest.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    DeletionTime, Row, Unfiltered, encoding::stats::EncodingStats, schema::TableMetadata,
};

use super::ReadFailure;
use crate::{
    digest::ReadDigest,
    payload::{
        ColumnList, Minima, Partition, PartitionContent, ReadCommand, ReadResponse,
        read_response::DataWriter,
    },
};

/// The head of a partition of the answer.
pub(super) struct Head {
    pub key: Bytes,
    pub deletion: DeletionTime,
    /// The static row with the columns that the answer lists for it.
    pub static_row: Option<(ColumnList, Row)>,
    /// The columns that the answer lists for rows.
    pub regulars: ColumnList,
}

/// The answer so far.
pub(super) enum Output {
    Data {
        /// The partitions that have ended.
        partitions: Vec<Partition>,
        /// The rows and markers of the current partition.
        unfiltered: Vec<Unfiltered>,
        stats: EncodingStats,
    },
    Digest(Box<ReadDigest>),
}

impl Output {
    pub fn new(command: &ReadCommand) -> Self {
        if command.digest_version.is_some() {
            return Self::Digest(Box::new(ReadDigest::new(Arc::clone(&command.table))));
        }
        let (partitions, unfiltered) = (Vec::new(), Vec::new());
        Self::Data { partitions, unfiltered, stats: EncodingStats::default() }
    }

    pub fn begin(&mut self, head: &Head, is_reversed: bool) {
        match self {
            Self::Data { unfiltered, stats, .. } => {
                unfiltered.clear();
                *stats = EncodingStats::default();
                stats.add_deletion(head.deletion);
                head.static_row.iter().for_each(|(_, row)| stats.add_row(row));
            }
            Self::Digest(digest) => {
                let static_row = head.static_row.as_ref().map(|(columns, row)| (columns, row));
                digest.begin(&head.key, head.deletion, &head.regulars, static_row, is_reversed);
            }
        }
    }

    pub fn take(&mut self, fragment: Unfiltered, head: &Head) {
        match self {
            Self::Data { unfiltered, stats, .. } => {
                match &fragment {
                    Unfiltered::Row(row) => stats.add_row(row),
                    Unfiltered::Marker(marker) => {
                        stats.add_deletion(marker.before);
                        stats.add_deletion(marker.after);
                    }
                }
                unfiltered.push(fragment);
            }
            Self::Digest(digest) => digest.add(&fragment, &head.regulars),
        }
    }

    pub fn end(&mut self, head: Head, is_reversed: bool) {
        let Self::Data { partitions, unfiltered, stats } = self else { return };
        let Head { key, deletion, static_row, regulars } = head;
        let unfiltered = std::mem::take(unfiltered);
        let is_empty = deletion.is_live() && static_row.is_none() && unfiltered.is_empty();
        let content = PartitionContent {
            minima: Minima::from(&*stats),
            static_row,
            regulars,
            deletion,
            row_estimate: None,
            unfiltered,
        };
        let content = (!is_empty).then_some(content);
        partitions.push(Partition { key, is_reversed, content });
    }

    /// Returns whether the fragments stay in memory until the answer is complete.
    pub fn keeps_fragments(&self) -> bool {
        matches!(self, Self::Data { .. })
    }

    /// Returns the answer. Yields between rows.
    pub async fn finish(
        self,
        command: &ReadCommand,
        is_conclusive: bool,
    ) -> Result<ReadResponse, ReadFailure> {
        match self {
            Self::Data { partitions, .. } => {
                let mut writer = DataWriter::default();
                for partition in partitions {
                    let added = writer.add_and_yield(command, partition).await;
                    added.map_err(ReadFailure::refused)?;
                }
                let (repaired_digest, data) = (Bytes::new(), writer.finish().into());
                Ok(ReadResponse::Data { repaired_digest, is_conclusive, data })
            }
            Self::Digest(digest) => {
                Ok(ReadResponse::Digest(Bytes::copy_from_slice(&digest.finish())))
            }
        }
    }
}

/// Returns the columns of the static row, which an answer lists if its command selects no columns
/// of rows.
pub(super) fn columns_of(table: &TableMetadata, row: &Row) -> ColumnList {
    ColumnList::of(row.columns.iter().filter_map(|(id, _)| table.column_by_id(*id)))
}
