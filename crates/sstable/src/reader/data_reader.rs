//! Reads Data.db without an index, from front to back, for a full dump.
//!
//! This reader serves offline tools that look at the remains of an SSTable. The filter or the index
//! may be lost, and Data.db may have lost its end. Without Statistics.db, no row can be decoded;
//! without CompressionInfo.db, no compressed chunk.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{KeyBound, schema::TableMetadata};
use espalier_runtime::file::FileSystem;

use super::{
    caveat::Caveat,
    open::{components_known, read_checksums, read_statistics},
    row_batches::RowBatches,
};
use crate::{
    checksums::Checksums,
    components::{Component, Descriptor},
    data::{column_map::FileLayout, file::DataFile},
    error::Result,
    page_cache::PageCache,
    statistics::Statistics,
    versions::VersionFeatures,
};

/// Data.db and the metadata that is needed to decode it.
#[derive(Debug)]
pub struct DataReader {
    descriptor: Descriptor,
    features: &'static VersionFeatures,
    statistics: Statistics,
    data: DataFile,
    caveat: Option<Caveat>,
    layout: Arc<FileLayout>,
}

impl DataReader {
    /// Opens Data.db. Rows are decoded as rows of the table that the file's own header describes.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is unknown, if Statistics.db, Data.db or a table of chunks
    /// that TOC.txt lists is missing, or if Statistics.db or the table of chunks is damaged or
    /// unreadable.
    pub async fn open(
        file_system: &FileSystem,
        descriptor: Descriptor,
        cache: &PageCache,
    ) -> Result<Self> {
        let features = descriptor.features()?;
        let components = components_known(file_system, &descriptor).await?;
        // A damaged Checksums.db is ignored, because the chunks have checksums of their own.
        let checksums = if components.contains(&Component::Checksums) {
            read_checksums(file_system, &descriptor).await.unwrap_or_default()
        } else {
            Checksums::default()
        };
        let statistics = read_statistics(file_system, &descriptor, features).await?;
        let name = descriptor.name_in_errors(&Component::Statistics);
        let table = statistics.header.to_table("", "sstable");
        let layout = Arc::new(FileLayout::new(&name, &statistics.header, table, features)?);
        let (data, shortfall) = DataFile::open_as_it_is(
            file_system,
            &descriptor,
            features,
            &components,
            &checksums,
            cache,
        )
        .await?;
        let caveat = Caveat::of(&data, shortfall);
        Ok(Self { descriptor, features, statistics, data, caveat, layout })
    }

    /// Returns the descriptor that names the SSTable's files.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the content of Statistics.db.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the length of Data.db before compression, in bytes, including the part that is lost.
    pub fn data_length(&self) -> u64 {
        self.data.length()
    }

    /// Returns a warning if the table of chunks shows that Data.db has lost its end; reads then end
    /// with an error there. Also returns a warning if no such table exists, because the bytes then
    /// have no checksums.
    pub fn caveat(&self) -> Option<&Caveat> {
        self.caveat.as_ref()
    }

    /// Decodes rows as rows of `table` in later reads.
    ///
    /// # Errors
    ///
    /// Returns an error if the columns of the file do not fit `table`.
    pub fn set_table(&mut self, table: Arc<TableMetadata>) -> Result<()> {
        let name = self.descriptor.name_in_errors(&Component::Statistics);
        let layout = FileLayout::new(&name, &self.statistics.header, table, self.features)?;
        self.layout = Arc::new(layout);
        Ok(())
    }

    /// Reads chunk `number` of Data.db and decompresses it; `None` after the last chunk.
    ///
    /// # Errors
    ///
    /// Returns an error if the chunk is damaged or cannot be read.
    pub async fn read_chunk(&self, number: u64) -> Result<Option<Bytes>> {
        let begins = number.saturating_mul(self.data.chunk_length());
        if begins < self.data.length() {
            self.data.chunk(number, 0).await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns all partitions as row batches.
    pub fn row_batches(&self) -> RowBatches {
        // If Statistics.db stores no last key, only the index has it, and this reader reads no
        // index.
        let last_key =
            self.features.key_range_in_statistics.then(|| self.statistics.stats.last_key.clone());
        RowBatches::new(
            self.data.clone(),
            self.layout.clone(),
            Some(0),
            KeyBound::Unbounded,
            last_key,
        )
    }

    /// Returns the layout for decoding rows.
    pub(crate) fn layout(&self) -> &Arc<FileLayout> {
        &self.layout
    }
}
