//! Opens SSTables, and checks the parts of their components that it reads.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use espalier_mutation::schema::TableMetadata;
use espalier_runtime::file::FileSystem;

use super::{
    index::{Index, TrieIndex},
    sstable_reader::{Inner, SSTableReader, position_format},
    trie_keys::TrieKeyEncoder,
};
use crate::{
    checksums::Checksums,
    components::{Component, Descriptor, components_found, parse_toc},
    data::{column_map::FileLayout, file::DataFile},
    error::{Result, SSTableError},
    filter::{BloomFilter, read_parts as read_filter},
    index::{big::BigIndex, bti::partition_index::PartitionIndexReader},
    page_cache::{CachedFile, Caching, PageCache, Part},
    secondary_index::SecondaryIndex,
    statistics::{MAX_LENGTH, Statistics, layout::MURMUR3_PARTITIONER},
    versions::{IndexKind, TrieKeys, VersionFeatures},
};

/// The longest TOC.txt, in bytes: it has one short line for each of a few components.
const MAX_TOC_LENGTH: u64 = 1024 * 1024;
/// The longest Checksums.db, in bytes: four bytes for each page of files of 4 TiB.
const MAX_CHECKSUMS_LENGTH: u64 = 4 << 30;
/// The longest Summary.db, in bytes: samples take at most 2 GiB, and two keys follow.
const MAX_SUMMARY_LENGTH: u64 = (2 << 30) + (1 << 20);

impl SSTableReader {
    /// Opens an SSTable. Rows are decoded as rows of `table` or, if that is `None`, of the table
    /// that the header in Statistics.db describes.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is unknown, if a needed component is missing, damaged or
    /// unreadable, if components disagree, or if the file's columns do not fit `table`.
    pub async fn open(
        file_system: &FileSystem,
        descriptor: Descriptor,
        table: Option<Arc<TableMetadata>>,
        cache: &PageCache,
    ) -> Result<Self> {
        let features = descriptor.features()?;
        let components = read_toc(file_system, &descriptor, features).await?;
        Self::open_components(file_system, descriptor, components, table, cache).await
    }

    /// Opens the remains of an SSTable without its TOC.txt, for offline tools. The components are
    /// the files in the directory. A Data.db without checksums is read unchecked.
    ///
    /// # Errors
    ///
    /// Returns an error in the cases of [`Self::open`] that do not concern TOC.txt.
    pub async fn open_unlisted(
        file_system: &FileSystem,
        descriptor: Descriptor,
        table: Option<Arc<TableMetadata>>,
        cache: &PageCache,
    ) -> Result<Self> {
        let components = components_found(file_system, &descriptor).await?;
        Self::open_components(file_system, descriptor, components, table, cache).await
    }

    /// Opens an SSTable whose filter is lost, for offline tools. Every look-up then reads the
    /// index. If TOC.txt cannot be used, the components are the files in the directory.
    ///
    /// # Errors
    ///
    /// Returns an error in the cases of [`Self::open`] that concern neither TOC.txt nor the filter.
    pub async fn open_without_filter(
        file_system: &FileSystem,
        descriptor: Descriptor,
        table: Option<Arc<TableMetadata>>,
        cache: &PageCache,
    ) -> Result<Self> {
        let features = descriptor.features()?;
        let mut components = match read_toc(file_system, &descriptor, features).await {
            Ok(components) => components,
            Err(_) => components_found(file_system, &descriptor).await?,
        };
        components.remove(&Component::Filter);
        Self::open_components(file_system, descriptor, components, table, cache).await
    }

    async fn open_components(
        file_system: &FileSystem,
        descriptor: Descriptor,
        components: BTreeSet<Component>,
        table: Option<Arc<TableMetadata>>,
        cache: &PageCache,
    ) -> Result<Self> {
        let features = descriptor.features()?;
        let checksums = if components.contains(&Component::Checksums) {
            read_checksums(file_system, &descriptor).await?
        } else {
            Checksums::default()
        };
        let statistics = read_statistics(file_system, &descriptor, features).await?;
        let statistics_name = descriptor.name_in_errors(&Component::Statistics);
        let table = table.unwrap_or_else(|| statistics.header.to_table("", "sstable"));
        let layout = FileLayout::new(&statistics_name, &statistics.header, table, features)?;
        let filter = if components.contains(&Component::Filter) {
            let of_filter = checksums.of(&Component::Filter);
            Some(read_filter(file_system, &descriptor, features, of_filter).await?)
        } else {
            None
        };
        let filter_bytes = filter.as_ref().map_or(0, BloomFilter::memory_size);
        let filter_memory = cache.pin(filter_bytes).await;
        let data =
            DataFile::open(file_system, &descriptor, features, &components, &checksums, cache)
                .await?;
        let files = IndexFiles { file_system, descriptor: &descriptor, checksums, cache };
        let index = match features.index {
            IndexKind::Trie(keys) => files.open_trie(keys, &statistics).await?,
            IndexKind::Big => {
                let has_summary = components.contains(&Component::Summary);
                let interval = layout.table.options.min_index_interval;
                files.open_big(has_summary, data.length(), interval).await?
            }
        };
        check_key_range(&index, &statistics, features)?;
        let secondary = files.open_secondary(&components, &statistics).await?;
        let (first_key, last_key) = index.key_range();
        let bytes_on_disk = data.stored_length() + index.length();
        Ok(Self(Rc::new(Inner {
            descriptor,
            components,
            features,
            filter,
            _filter_memory: filter_memory,
            data,
            index,
            first_key,
            last_key,
            bytes_on_disk,
            secondary,
            positions: RefCell::new(Arc::new(position_format(&statistics.header, &layout))),
            layout: RefCell::new(Arc::new(layout)),
            statistics,
        })))
    }
}

/// Compares the first and the last key of the index with each other, and with the keys in
/// Statistics.db, if the version stores them.
fn check_key_range(
    index: &Index,
    statistics: &Statistics,
    features: &VersionFeatures,
) -> Result<()> {
    let (first_key, last_key) = index.key_range();
    let stats = &statistics.stats;
    // Statistics.db has checksums, and the index has none of its own.
    let has_range = features.key_range_in_statistics;
    let disagreement = [
        (
            has_range && first_key.key != stats.first_key,
            "its first key is not that of Statistics.db",
        ),
        (has_range && last_key.key != stats.last_key, "its last key is not that of Statistics.db"),
        (first_key > last_key, "the first key is behind the last"),
    ];
    match disagreement.iter().find(|(differs, _)| *differs) {
        Some((_, what)) => {
            Err(SSTableError::corrupt(index.name(), index.partitions_file().length(), *what))
        }
        None => Ok(()),
    }
}

/// The inputs that opening an index needs.
struct IndexFiles<'a> {
    file_system: &'a FileSystem,
    descriptor: &'a Descriptor,
    checksums: Checksums,
    cache: &'a PageCache,
}

impl IndexFiles<'_> {
    async fn open(&self, component: Component) -> Result<CachedFile> {
        let checksums = self.checksums.of(&component).cloned();
        let path = self.descriptor.path(&component);
        let file =
            CachedFile::open(self.file_system, &path, Part::Index, self.cache, checksums).await?;
        Ok(if self.cache.keeps_index_pages() { file } else { file.with_caching(Caching::Private) })
    }

    /// Opens the entries of secondary indexes. Leaves out components that are missing, damaged or
    /// of another version, because a compaction can make them again from the rows.
    async fn open_secondary(
        &self,
        components: &BTreeSet<Component>,
        statistics: &Statistics,
    ) -> Result<BTreeMap<String, SecondaryIndex>> {
        let partitions = statistics.stats.partition_sizes.total();
        let mut opened = BTreeMap::new();
        for component in components {
            let Component::SecondaryIndex(name) = component else { continue };
            let index = match self.open(component.clone()).await {
                Ok(file) => SecondaryIndex::open(file, partitions).await,
                Err(error) => Err(error),
            };
            match index {
                Ok(index) => {
                    opened.insert(name.clone(), index);
                }
                Err(SSTableError::Io(error)) if !error.is_not_found() => {
                    return Err(SSTableError::Io(error));
                }
                Err(_) => {}
            }
        }
        Ok(opened)
    }

    async fn open_trie(&self, keys: TrieKeys, statistics: &Statistics) -> Result<Index> {
        let file = self.open(Component::Partitions).await?;
        let (name, length) = (file.name().clone(), file.length());
        let partitions = PartitionIndexReader::open(file, length)
            .await
            .map_err(|error| SSTableError::index(&name, error))?;
        let rows = self.open(Component::Rows).await?;
        if partitions.footer().key_count != statistics.stats.partition_sizes.total() {
            let reason = "its number of partitions is not that of Statistics.db";
            return Err(SSTableError::corrupt(&name, length, reason));
        }
        let keys = TrieKeyEncoder::new(keys, &statistics.header.key_type);
        Ok(Index::Trie(TrieIndex { partitions, rows, keys }))
    }

    async fn open_big(
        &self,
        has_summary: bool,
        data_length: u64,
        min_index_interval: u32,
    ) -> Result<Index> {
        let file = self.open(Component::Index).await?;
        let component = Component::Summary;
        let name = self.descriptor.name_in_errors(&component);
        let mut summary = None;
        if has_summary {
            match read_component(self.file_system, self.descriptor, &component, MAX_SUMMARY_LENGTH)
                .await
            {
                Ok(bytes) => summary = Some(bytes),
                // The reader rebuilds the summary from Index.db, as it does if Summary.db turns out
                // to be wrong.
                Err(SSTableError::Io(error)) if error.is_not_found() => {}
                Err(SSTableError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let summary = summary.as_ref().map(|bytes| (&name, bytes));
        let index = BigIndex::open(file, summary, data_length, min_index_interval).await?;
        Ok(Index::Big(index))
    }
}

/// Reads a whole component, which must not be longer than `limit` bytes.
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

/// Returns the components that exist and, if TOC.txt can be read, those that it lists.
pub(super) async fn components_known(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<BTreeSet<Component>> {
    let mut components = components_found(file_system, descriptor).await?;
    let name = descriptor.name_in_errors(&Component::Toc);
    let toc = read_component(file_system, descriptor, &Component::Toc, MAX_TOC_LENGTH).await;
    if let Ok(mut listed) = toc.and_then(|bytes| parse_toc(&name, &bytes)) {
        components.append(&mut listed);
    }
    Ok(components)
}

async fn read_toc(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    features: &VersionFeatures,
) -> Result<BTreeSet<Component>> {
    let name = descriptor.name_in_errors(&Component::Toc);
    let bytes = read_component(file_system, descriptor, &Component::Toc, MAX_TOC_LENGTH).await?;
    let components = parse_toc(&name, &bytes)?;
    let index = if features.has_trie_index() {
        [Component::Partitions, Component::Rows].as_slice()
    } else {
        // Summary.db can be made again.
        &[Component::Index]
    };
    let mut needed = [Component::Data, Component::Statistics].iter().chain(index);
    if let Some(missing) = needed.find(|component| !components.contains(component)) {
        return Err(SSTableError::corrupt(&name, 0, format!("{missing} is not listed")));
    }
    if !components.contains(&Component::CompressionInfo) && !components.contains(&Component::Crc) {
        let reason = "neither CompressionInfo.db nor CRC.db is listed: data could not be checked";
        return Err(SSTableError::corrupt(&name, 0, reason));
    }
    Ok(components)
}

/// Reads and checks Statistics.db alone, for tools that read no rows.
///
/// # Errors
///
/// Returns an error if Statistics.db is missing, damaged or unreadable, or if it names another
/// partitioner than [`MURMUR3_PARTITIONER`].
pub async fn read_statistics(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    features: &VersionFeatures,
) -> Result<Statistics> {
    let component = Component::Statistics;
    let name = descriptor.name_in_errors(&component);
    let bytes = read_component(file_system, descriptor, &component, MAX_LENGTH).await?;
    let statistics = Statistics::read(&name, &bytes, features)?;
    if statistics.partitioner == MURMUR3_PARTITIONER {
        Ok(statistics)
    } else {
        let what = format!("partitioner '{}' is", statistics.partitioner);
        Err(SSTableError::unsupported(&name, what))
    }
}

pub(crate) async fn read_checksums(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<Checksums> {
    let component = Component::Checksums;
    let name = descriptor.name_in_errors(&component);
    let limit = MAX_CHECKSUMS_LENGTH;
    Checksums::parse(&name, &read_component(file_system, descriptor, &component, limit).await?)
}
