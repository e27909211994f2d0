//! What a writer is told besides the data.

use std::{collections::BTreeSet, sync::Arc};

use espalier_mutation::{
    PartitionUpdate, Row,
    schema::{ColumnId, TableMetadata},
};

use crate::{
    components::Descriptor,
    data::writer::ChunkFormat,
    error::{Result, SSTableError},
    statistics::{EncodingStats, SerializationHeader, collector::WriterFacts},
};

/// Columns of which an SSTable will hold data. Only they are in its header; a row with another one is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PresentColumns {
    /// All that the table has.
    #[default]
    All,
    /// These.
    Only(BTreeSet<ColumnId>),
}

impl PresentColumns {
    /// None yet; to be filled by [`PresentColumns::add_row`] and [`PresentColumns::add_update`].
    pub fn none() -> Self {
        Self::Only(BTreeSet::new())
    }

    /// Takes the columns of a row in.
    pub fn add_row(&mut self, row: &Row) {
        if let Self::Only(ids) = self {
            ids.extend(row.columns.iter().map(|(id, _)| *id));
        }
    }

    /// Takes the columns of an update in.
    pub fn add_update(&mut self, update: &PartitionUpdate) {
        update.static_row.iter().chain(&update.rows).for_each(|row| self.add_row(row));
    }

    /// Takes the columns of an SSTable's header in, as far as the table still has them.
    pub fn add_header(&mut self, header: &SerializationHeader, table: &TableMetadata) {
        if let Self::Only(ids) = self {
            let columns = header.static_columns.iter().chain(&header.regular_columns);
            ids.extend(columns.filter_map(|column| table.column(&column.name)).map(|c| c.id));
        }
    }

    /// Whether the column is in.
    pub fn contains(&self, id: ColumnId) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.contains(&id),
        }
    }
}

/// How an SSTable is to be written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Where, which version, which id.
    pub descriptor: Descriptor,
    /// The table.
    pub table: Arc<TableMetadata>,
    /// Columns of the header.
    pub columns: PresentColumns,
    /// Baselines of the header: minima of what will be written. They may be off; deltas only get longer.
    pub encoding_stats: EncodingStats,
    /// How many partitions will come, for the size of the filter.
    pub estimated_partitions: u64,
    /// 1 for no filter.
    pub bloom_filter_fp_chance: f64,
    /// Chunks of Data.db.
    pub chunks: ChunkFormat,
    /// Bytes of rows from which on a block of the row index ends.
    pub column_index_size: u32,
    /// Bytes of a partition from which on its first block in a trie may end, if that is more: shorter ones are not in Rows.db. 0: as all blocks.
    pub first_block_size: u32,
    /// Partitions between samples of the BIG index.
    pub min_index_interval: u32,
    /// Bytes of samples of the BIG index for each byte of data, above 0; without it, the interval counts.
    pub summary_ratio: Option<f64>,
    /// Whether all is synced before it is sealed: not what is of no use after a crash, such as a run of a sort.
    pub is_durable: bool,
    /// Level, repair, host and commit log, as they go into Statistics.db.
    pub facts: WriterFacts,
}

impl WriterOptions {
    /// Options as the table has them. An error if its compression cannot be written.
    pub fn for_table(descriptor: Descriptor, table: Arc<TableMetadata>) -> Result<Self> {
        let features = descriptor.features()?;
        let name = descriptor.name_in_errors(&crate::components::Component::Data);
        let compression = table
            .options
            .compression_options()
            .map_err(|reason| SSTableError::rejected(&name, reason))?;
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
