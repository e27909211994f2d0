//! Opens an SSTable for `stats`, even if some of its files are lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use espalier_mutation::DecoratedKey;
use espalier_mutation::schema::TableMetadata;
use espalier_runtime::file::FileSystem;
use espalier_sstable::components::{Component, components_found};
use espalier_sstable::versions::VersionFeatures;
use espalier_sstable::{
    Descriptor, PageCache, SSTableError, SSTableReader, Statistics, read_statistics,
};

use crate::sstable::{ToolError, output::report, schema::Names};

/// An SSTable, or only its Statistics.db if other files are lost.
pub struct Known {
    pub descriptor: Descriptor,
    pub features: &'static VersionFeatures,
    pub statistics: Statistics,
    pub table: Arc<TableMetadata>,
    pub components: BTreeSet<Component>,
    /// `None` if only Statistics.db could be read.
    pub reader: Option<SSTableReader>,
}

impl Known {
    /// Opens an SSTable. Reports a lost file other than Statistics.db.
    ///
    /// # Errors
    /// Fails if Statistics.db is lost, or if a file is damaged.
    pub async fn open(
        file_system: &FileSystem,
        names: &Names,
        descriptor: &Descriptor,
        cache: &PageCache,
    ) -> Result<Self, ToolError> {
        let error = match names.open(file_system, descriptor, cache).await {
            Ok(reader) => return Ok(Self::of(reader)),
            Err(error) => error,
        };
        let is_lost = matches!(
            &error,
            ToolError::SSTable(SSTableError::Io(lost)) if lost.is_not_found()
        );
        if !is_lost {
            return Err(error);
        }
        // If Statistics.db is lost too, the first error is returned.
        let features = descriptor.features()?;
        let read = read_statistics(file_system, descriptor, features).await;
        let Ok(statistics) = read else { return Err(error) };
        let table = names.table_of(file_system, descriptor, &statistics.header).await?;
        let components = components_found(file_system, descriptor).await?;
        report(format_args!("{error}; showing Statistics.db alone"));
        let descriptor = descriptor.clone();
        Ok(Self { descriptor, features, statistics, table, components, reader: None })
    }

    fn of(reader: SSTableReader) -> Self {
        Self {
            descriptor: reader.descriptor().clone(),
            features: reader.features(),
            statistics: reader.statistics().clone(),
            table: reader.table(),
            components: reader.components().clone(),
            reader: Some(reader),
        }
    }

    /// Returns the first partition's key, if a file has it.
    pub fn first_key(&self) -> Option<DecoratedKey> {
        match &self.reader {
            Some(reader) => Some(reader.first_key().clone()),
            None => self.in_statistics(&self.statistics.stats.first_key),
        }
    }

    /// Returns the last partition's key, if a file has it.
    pub fn last_key(&self) -> Option<DecoratedKey> {
        match &self.reader {
            Some(reader) => Some(reader.last_key().clone()),
            None => self.in_statistics(&self.statistics.stats.last_key),
        }
    }

    fn in_statistics(&self, key: &bytes::Bytes) -> Option<DecoratedKey> {
        self.features.key_range_in_statistics.then(|| DecoratedKey::new(key.clone()))
    }

    /// Returns the number of partitions.
    pub fn partition_count(&self) -> u64 {
        match &self.reader {
            Some(reader) => reader.partition_count(),
            None => self.statistics.stats.partition_sizes.total(),
        }
    }
}
