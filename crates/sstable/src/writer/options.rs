//! This module defines the options of the writer.

use std::{collections::BTreeSet, sync::Arc};

use espalier_mutation::{
    PartitionUpdate, Row,
    schema::{ColumnId, TableMetadata},
};

use crate::{
    components::Descriptor,
    data::writer::ChunkFormat,
    error::Result,
    statistics::{EncodingStats, SerializationHeader, collector::WriterFacts},
};

/// The columns with data in an SSTable. Only these columns are in the SSTable's header, and the
/// writer rejects a row with another column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PresentColumns {
    /// All columns of the table.
    #[default]
    All,
    /// These columns.
    Only(BTreeSet<ColumnId>),
}

impl PresentColumns {
    /// Creates an empty set, to be filled by [`PresentColumns::add_row`] and
    /// [`PresentColumns::add_update`].
    pub fn none() -> Self {
        Self::Only(BTreeSet::new())
    }

    /// Adds the columns of a row.
    pub fn add_row(&mut self, row: &Row) {
        if let Self::Only(ids) = self {
            ids.extend(row.columns.iter().map(|(id, _)| *id));
        }
    }

    /// Adds the columns of an update.
    pub fn add_update(&mut self, update: &PartitionUpdate) {
        update.static_row.iter().chain(&update.rows).for_each(|row| self.add_row(row));
    }

    /// Adds the columns of an SSTable's header that the table still has.
    pub fn add_header(&mut self, header: &SerializationHeader, table: &TableMetadata) {
        if let Self::Only(ids) = self {
            let columns = header.static_columns.iter().chain(&header.regular_columns);
            ids.extend(columns.filter_map(|column| table.column(&column.name)).map(|c| c.id));
        }
    }

    /// Returns whether the set contains the column.
    pub fn contains(&self, id: ColumnId) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.contains(&id),
        }
    }
}

/// Options for writing an SSTable.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Directory, version and id of the SSTable.
    pub descriptor: Descriptor,
    /// The table.
    pub table: Arc<TableMetadata>,
    /// Columns of the header.
    pub columns: PresentColumns,
    /// Baselines of the header: the minima of the data to be written. They may be inexact; the
    /// deltas only take more bytes then.
    pub encoding_stats: EncodingStats,
    /// Expected number of partitions, for the size of the filter.
    pub estimated_partitions: u64,
    /// False positive chance of the filter; 1 for no filter.
    pub bloom_filter_fp_chance: f64,
    /// Chunks of Data.db.
    pub chunks: ChunkFormat,
    /// Number of bytes of rows at which a block of the row index ends.
    pub column_index_size: u32,
    /// Minimum length in bytes of a partition up to the end of its first block in a trie index. A
    /// shorter partition has no entry in Rows.db. 0 means that only `column_index_size` applies.
    pub first_block_size: u32,
    /// Number of partitions between samples of the BIG index.
    pub min_index_interval: u32,
    /// Bytes of samples of the BIG index for each byte of data, above 0. If it is absent,
    /// `min_index_interval` applies.
    pub summary_ratio: Option<f64>,
    /// True if the writer syncs all files before it seals them. It is false for files that are
    /// useless after a crash, such as a run of a sort.
    pub is_durable: bool,
    /// Level, repair, host and commit log intervals for Statistics.db.
    pub facts: WriterFacts,
}

impl WriterOptions {
    /// Creates the options from the table's settings.
    ///
    /// # Errors
    /// Returns [`Unsupported`](crate::error::SSTableError::Unsupported) if the version is unknown.
    pub fn for_table(descriptor: Descriptor, table: Arc<TableMetadata>) -> Result<Self> {
        let features = descriptor.features()?;
        let compression = table.options.compression_to_write();
        Ok(Self {
            columns: PresentColumns::All,
            encoding_stats: EncodingStats::default(),
            estimated_partitions: 0,
            bloom_filter_fp_chance: table.options.bloom_filter_fp_chance,
            chunks: compression.map_or(ChunkFormat::PLAIN, ChunkFormat::Compressed),
            column_index_size: features.default_column_index_size,
            first_block_size: 0,
            min_index_interval: table.options.min_index_interval,
            summary_ratio: None,
            is_durable: true,
            facts: WriterFacts::default(),
            descriptor,
            table,
        })
    }
}
