//! Opening: every component is checked before it is believed.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{DecoratedKey, schema::TableMetadata};
use espalier_runtime::file::FileSystem;

use super::sstable_reader::{Inner, SSTableReader};
use crate::{
    checksums::Checksums,
    components::{Component, Descriptor, parse_toc},
    data::{column_map::FileLayout, file::DataFile},
    error::{Result, SSTableError},
    filter::BloomFilter,
    index::bti::partition_index::PartitionIndexReader,
    page_cache::{CachedFile, PageCache},
    statistics::{MAXIMUM_LENGTH, Statistics, layout::MURMUR3_PARTITIONER},
    versions::VersionFeatures,
};

/// A table of contents has a line for each of a few components.
const MAXIMUM_TOC_LENGTH: u64 = 1024 * 1024;
/// Four bytes for each page of files of some terabytes.
const MAXIMUM_CHECKSUMS_LENGTH: u64 = 4 << 30;
/// 2^31 words are the most that the format can say.
const MAXIMUM_FILTER_LENGTH: u64 = 8 * (i32::MAX as u64) + 8;

impl SSTableReader {
    /// Opens an SSTable to be read as rows of `table`, or, without one, of the table that its own header describes.
    pub async fn open(
        file_system: &FileSystem,
        descriptor: Descriptor,
        table: Option<Arc<TableMetadata>>,
        cache: &PageCache,
    ) -> Result<Self> {
        let features = descriptor.features()?;
        let components = read_toc(file_system, &descriptor).await?;
        let checksums = match components.contains(&Component::Checksums) {
            true => read_checksums(file_system, &descriptor).await?,
            false => Checksums::default(),
        };
        let statistics = read_statistics(file_system, &descriptor, features).await?;
        let statistics_name = descriptor.name_in_errors(&Component::Statistics);
        let table = table.unwrap_or_else(|| statistics.header.to_table("", "sstable"));
        let layout = FileLayout::new(&statistics_name, &statistics.header, table, features)?;
        let filter = match components.contains(&Component::Filter) {
            true => Some(read_filter(file_system, &descriptor, features, &checksums).await?),
            false => None,
        };
        let is_compressed = components.contains(&Component::CompressionInfo);
        let data =
            DataFile::open(file_system, &descriptor, features, is_compressed, &checksums, cache)
                .await?;
        let open = |component: Component| {
            let checksums = checksums.of(&component).cloned();
            let path = descriptor.path(&component);
            async move { CachedFile::open(file_system, &path, cache, checksums).await }
        };
        let partitions = open(Component::Partitions).await?;
        let (name, length) = (partitions.name().clone(), partitions.length());
        let partition_index = PartitionIndexReader::open(partitions, length)
            .await
            .map_err(|error| SSTableError::index(&name, error))?;
        let rows = open(Component::Rows).await?;
        let bytes_on_disk = data.stored_length() + length + rows.length();
        let footer = partition_index.footer();
        let stats = &statistics.stats;
        // Statistics.db has checksums, Partitions.db has none.
        let disagreement = [
            (features.key_range_in_statistics && footer.first_key != stats.first_key, "first key"),
            (features.key_range_in_statistics && footer.last_key != stats.last_key, "last key"),
            (footer.key_count != stats.partition_sizes.total(), "number of partitions"),
        ];
        if let Some((_, what)) = disagreement.iter().find(|(differs, _)| *differs) {
            let reason = format!("its {what} is not that of Statistics.db");
            return Err(SSTableError::corrupt(&name, length, reason));
        }
        let first_key = DecoratedKey::new(Bytes::copy_from_slice(&footer.first_key));
        let last_key = DecoratedKey::new(Bytes::copy_from_slice(&footer.last_key));
        if first_key > last_key {
            return Err(SSTableError::corrupt(&name, length, "the first key is behind the last"));
        }
        Ok(Self(Rc::new(Inner {
            descriptor,
            components,
            features,
            filter,
            data,
            partition_index,
            rows,
            first_key,
            last_key,
            bytes_on_disk,
            layout: RefCell::new(Arc::new(layout)),
            statistics,
        })))
    }
}

/// Reads a component whole, if it is not longer than `limit`.
pub(crate) async fn read_component(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    component: &Component,
    limit: u64,
) -> Result<Bytes> {
    let path = descriptor.path(component);
    let file = file_system.open_read(&path).await?;
    let length = file.length().await?;
    if length > limit {
        let name = descriptor.name_in_errors(component);
        let reason = format!("{length} bytes are more than the {limit} that it can need");
        return Err(SSTableError::corrupt(&name, limit, reason));
    }
    if length == 0 {
        return Ok(Bytes::new());
    }
    Ok(file.read_exact_at(0, length as usize).await?.into_bytes())
}

async fn read_toc(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<BTreeSet<Component>> {
    let name = descriptor.name_in_errors(&Component::Toc);
    let bytes =
        read_component(file_system, descriptor, &Component::Toc, MAXIMUM_TOC_LENGTH).await?;
    let components = parse_toc(&name, &bytes)?;
    let needed = [Component::Data, Component::Statistics, Component::Partitions, Component::Rows];
    if let Some(missing) = needed.iter().find(|component| !components.contains(component)) {
        return Err(SSTableError::corrupt(&name, 0, format!("{missing} is not listed")));
    }
    if !components.contains(&Component::CompressionInfo) && !components.contains(&Component::Crc) {
        let reason = "neither CompressionInfo.db nor CRC.db is listed: data could not be checked";
        return Err(SSTableError::corrupt(&name, 0, reason));
    }
    Ok(components)
}

/// Reads and checks Statistics.db alone: what a tool wants that does not read rows.
pub async fn read_statistics(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    features: &VersionFeatures,
) -> Result<Statistics> {
    let component = Component::Statistics;
    let name = descriptor.name_in_errors(&component);
    let bytes = read_component(file_system, descriptor, &component, MAXIMUM_LENGTH).await?;
    let statistics = Statistics::read(&name, &bytes, features)?;
    match statistics.partitioner == MURMUR3_PARTITIONER {
        true => Ok(statistics),
        false => {
            let what = format!("partitioner '{}' is", statistics.partitioner);
            Err(SSTableError::unsupported(&name, what))
        }
    }
}

pub(crate) async fn read_checksums(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<Checksums> {
    let component = Component::Checksums;
    let name = descriptor.name_in_errors(&component);
    let limit = MAXIMUM_CHECKSUMS_LENGTH;
    Checksums::parse(&name, &read_component(file_system, descriptor, &component, limit).await?)
}

async fn read_filter(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    features: &VersionFeatures,
    checksums: &Checksums,
) -> Result<BloomFilter> {
    let component = Component::Filter;
    let name = descriptor.name_in_errors(&component);
    let bytes = read_component(file_system, descriptor, &component, MAXIMUM_FILTER_LENGTH).await?;
    if let Some(checksums) = checksums.of(&component) {
        checksums.check(&name, &bytes)?;
    }
    BloomFilter::read(&name, &bytes, features)
}
