//! Data.db alone, from front to back: what a dump of everything takes.
//!
//! For people who look at what is left of an SSTable: its filter or index may be lost, and Data.db may have lost its end.
//! Statistics.db and the table of chunks are needed, for without them the bytes mean nothing.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{KeyBound, schema::TableMetadata};
use espalier_runtime::file::FileSystem;

use super::{
    caveat::Caveat,
    open::{components_known, read_checksums, read_statistics},
    stretches::Stretches,
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

/// Data.db and what tells how it is read.
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
    /// Opens it to be read as rows of the table that its own header describes.
    pub async fn open(
        file_system: &FileSystem,
        descriptor: Descriptor,
        cache: &PageCache,
    ) -> Result<Self> {
        let features = descriptor.features()?;
        let components = components_known(file_system, &descriptor).await?;
        // The chunks have checksums of their own.
        let checksums = match components.contains(&Component::Checksums) {
            true => read_checksums(file_system, &descriptor).await.unwrap_or_default(),
            false => Checksums::default(),
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

    /// Its name.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Statistics.db.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Bytes of Data.db before compression, also of what is not there of it.
    pub fn data_length(&self) -> u64 {
        self.data.length()
    }

    /// That Data.db has lost its end, if the table of its chunks knows of more: reading ends with an error there. Or that
    /// there is no such table, so that nobody can tell whether its bytes are what was written.
    pub fn caveat(&self) -> Option<&Caveat> {
        self.caveat.as_ref()
    }

    /// Reads rows as those of `table` from now on.
    pub fn set_table(&mut self, table: Arc<TableMetadata>) -> Result<()> {
        let name = self.descriptor.name_in_errors(&Component::Statistics);
        let layout = FileLayout::new(&name, &self.statistics.header, table, self.features)?;
        self.layout = Arc::new(layout);
        Ok(())
    }

    /// What chunk `number` of Data.db holds, before compression; `None` behind the last one.
    pub async fn read_chunk(&self, number: u64) -> Result<Option<Bytes>> {
        let begins = number.saturating_mul(self.data.chunk_length());
        match begins < self.data.length() {
            true => self.data.chunk(number, 0).await.map(Some),
            false => Ok(None),
        }
    }

    /// All partitions as stretches.
    pub fn stretches(&self) -> Stretches {
        // Of the other versions only the index knows the last key.
        let last_key =
            self.features.key_range_in_statistics.then(|| self.statistics.stats.last_key.clone());
        Stretches::new(
            self.data.clone(),
            self.layout.clone(),
            Some(0),
            KeyBound::Unbounded,
            last_key,
        )
    }

    /// How rows are decoded.
    pub(crate) fn layout(&self) -> &Arc<FileLayout> {
        &self.layout
    }
}
