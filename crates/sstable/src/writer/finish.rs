//! This module ends the writing of an SSTable: filter, statistics, digest, and the table of
//! contents that seals the files.

use std::collections::BTreeSet;

use bytes::Bytes;
use espalier_mutation::{Token, schema::TableMetadata};
use espalier_runtime::{file::FileSystem, random};

use super::SSTableWriter;
use crate::{
    append_file::{AppendFile, WrittenFile},
    checksums::{PageChecksums, combine, format_checksums},
    components::{
        Component, Descriptor, SSTableId, format_digest, format_toc, remove_sstable,
        take_back_if_failed,
    },
    data::writer::ChunkFormat,
    error::{Result, SSTableError},
    filter::{BloomFilter, FilterBuilder, write_parts as write_filter},
    scylla::{ALL_FEATURES, ScyllaMetadata, ScyllaSchema},
    statistics::{Statistics, StatsComponent},
    versions::VersionFeatures,
};

/// A finished SSTable.
#[derive(Clone, Debug)]
pub struct WrittenSSTable {
    /// Name of the SSTable.
    pub descriptor: Descriptor,
    /// Components of the SSTable.
    pub components: BTreeSet<Component>,
    /// Number of partitions.
    pub partition_count: u64,
    /// Length of Data.db before compression in bytes.
    pub data_length: u64,
    /// Length of Data.db as stored, in bytes.
    pub stored_length: u64,
    /// Length of all files together in bytes.
    pub bytes_on_disk: u64,
    /// Content of Statistics.db.
    pub statistics: Statistics,
}

impl SSTableWriter {
    /// Writes the rest, makes all files durable (unless the options exclude that), and seals them
    /// with TOC.txt. Returns `None` if there are no partitions; the files are removed then.
    ///
    /// # Errors
    /// Returns [`SSTableError::Rejected`] if a partition was not ended or a value cannot be
    /// written, and an I/O error if a write fails. All files are removed after an error.
    pub async fn finish(self) -> Result<Option<WrittenSSTable>> {
        if self.has_open_partition() {
            let name = self.options.descriptor.name_in_errors(&Component::Data);
            self.abort().await?;
            return Err(SSTableError::rejected(&name, "the last partition was not ended"));
        }
        if self.partition_count() == 0 {
            self.abort().await?;
            return Ok(None);
        }
        let (file_system, descriptor) = (self.file_system.clone(), self.options.descriptor.clone());
        let sealed = self.seal().await;
        take_back_if_failed(&file_system, &descriptor, sealed).await.map(Some)
    }

    async fn seal(self) -> Result<WrittenSSTable> {
        let Self { file_system, options, features, header, data, index, .. } = self;
        let Self { filter, collector, secondary, .. } = self;
        let (descriptor, is_durable) = (options.descriptor, options.is_durable);
        let data = data.finish().await?;
        let partition_count = index.key_count();
        let written = index.finish().await?;
        let mut seal = Seal::new(&file_system, &descriptor, is_durable);
        let table = (chunk_table(&options.chunks), data.table);
        seal.components.insert(Component::Data);
        seal.bytes_on_disk += data.stored_length;
        written
            .files
            .into_iter()
            .chain([table])
            .chain(secondary)
            .for_each(|file| seal.add_written(file));

        let mut facts = options.facts;
        facts.bloom_filter_fp_chance = options.bloom_filter_fp_chance;
        let statistics = collector.finish(header, &facts, data.compression_ratio).await;
        let name = descriptor.name_in_errors(&Component::Statistics);
        let statistics_bytes = statistics
            .to_bytes(features)
            .map_err(|reason| SSTableError::rejected(&name, reason))?;
        if !features.statistics_checksums && !features.has_scylla_component {
            seal.checked.push(checked(Component::Statistics, &statistics_bytes));
        }
        let statistics_checksum =
            features.has_scylla_component.then(|| crc32fast::hash(&statistics_bytes));
        seal.small.push((Component::Statistics, statistics_bytes));
        seal.small.push((Component::Digest, Bytes::from(format_digest(data.digest))));
        for (component, bytes) in written.small {
            seal.checked.push(checked(component.clone(), &bytes));
            seal.small.push((component, bytes));
        }
        if let Some(filter) = filter.map(FilterBuilder::finish) {
            seal.write_filter(filter, features).await?;
        }
        seal.small.push((Component::Checksums, Bytes::from(format_checksums(&seal.checked))));
        let toc = seal.list(features.has_scylla_component);
        if let Some(statistics_checksum) = statistics_checksum {
            let mut checksums = seal.checksums_of_checked();
            checksums.push((Component::Data, data.digest));
            checksums.push((Component::Statistics, statistics_checksum));
            checksums.push((Component::Toc, crc32fast::hash(toc.as_bytes())));
            let stats = &statistics.stats;
            let metadata = scylla_metadata(&descriptor, &options.table, stats, checksums);
            seal.small.push((Component::Scylla, metadata.to_bytes().into()));
        }
        seal.write_small().await?;
        seal.write_toc(toc).await?;
        let Seal { components, bytes_on_disk, .. } = seal;
        Ok(WrittenSSTable {
            descriptor,
            components,
            partition_count,
            data_length: data.length,
            stored_length: data.stored_length,
            bytes_on_disk,
            statistics,
        })
    }

    /// Discards the SSTable and removes its files.
    ///
    /// # Errors
    /// Returns an I/O error if a file cannot be removed.
    pub async fn abort(self) -> Result<()> {
        let Self { file_system, options, data, index, .. } = self;
        drop((data, index));
        remove_sstable(&file_system, &options.descriptor).await
    }
}

/// The files of an SSTable that is being sealed.
struct Seal<'a> {
    file_system: &'a FileSystem,
    descriptor: &'a Descriptor,
    is_durable: bool,
    /// All components so far.
    components: BTreeSet<Component>,
    /// The components that Checksums.db covers, in its order.
    checked: Vec<(Component, WrittenFile)>,
    /// The components that are not written yet, in the order in which the writer will write them.
    small: Vec<(Component, Bytes)>,
    bytes_on_disk: u64,
}

impl<'a> Seal<'a> {
    fn new(file_system: &'a FileSystem, descriptor: &'a Descriptor, is_durable: bool) -> Self {
        let (components, checked, small) = (BTreeSet::new(), Vec::new(), Vec::new());
        Self { file_system, descriptor, is_durable, components, checked, small, bytes_on_disk: 0 }
    }

    /// Adds a file that is complete.
    fn add_written(&mut self, (component, file): (Component, WrittenFile)) {
        self.bytes_on_disk += file.length;
        self.components.insert(component.clone());
        self.checked.push((component, file));
    }

    async fn write_filter(
        &mut self,
        filter: BloomFilter,
        features: &VersionFeatures,
    ) -> Result<()> {
        let path = self.descriptor.path(&Component::Filter);
        let mut file = AppendFile::create(self.file_system, &path, self.is_durable).await?;
        write_filter(&filter, features.filter_words, &mut file).await?;
        drop(filter);
        let file = file.finish().await?;
        self.add_written((Component::Filter, file));
        Ok(())
    }

    /// Returns the content of TOC.txt.
    fn list(&mut self, has_scylla_component: bool) -> String {
        self.components.extend(self.small.iter().map(|(component, _)| component.clone()));
        self.components.insert(Component::Toc);
        if has_scylla_component {
            self.components.insert(Component::Scylla);
        }
        format_toc(&self.components)
    }

    fn checksums_of_checked(&self) -> Vec<(Component, u32)> {
        let whole = |(component, file): &(Component, WrittenFile)| {
            (component.clone(), combine(&file.pages, file.length))
        };
        self.checked.iter().map(whole).collect()
    }

    async fn write_small(&mut self) -> Result<()> {
        for (component, bytes) in std::mem::take(&mut self.small) {
            let file = self.file_system.create_new(self.descriptor.path(&component)).await?;
            self.bytes_on_disk += bytes.len() as u64;
            file.append(bytes).await?;
            if self.is_durable {
                file.sync_all().await?;
            }
        }
        Ok(())
    }

    /// Writes TOC.txt, which makes the SSTable valid.
    async fn write_toc(&mut self, toc: String) -> Result<()> {
        let Self { file_system, descriptor, is_durable, .. } = *self;
        self.bytes_on_disk += toc.len() as u64;
        let temporary = descriptor.path(&Component::TemporaryToc);
        let file = file_system.create(&temporary).await?;
        file.append(toc.into_bytes()).await?;
        if is_durable {
            file.sync_all().await?;
            // The names of all files must be durable before TOC.txt, which asserts that they are
            // complete.
            file_system.sync_dir(&descriptor.directory).await?;
        }
        drop(file);
        file_system.rename(&temporary, &descriptor.path(&Component::Toc)).await?;
        if is_durable {
            file_system.sync_dir(&descriptor.directory).await?;
        }
        Ok(())
    }
}

/// Returns a component with the checksums of its pages.
fn checked(component: Component, bytes: &[u8]) -> (Component, WrittenFile) {
    let (length, pages) = (bytes.len() as u64, PageChecksums::of(bytes));
    (component, WrittenFile { length, pages })
}

/// Builds the content of Scylla.db. A run is a set of SSTables that do not overlap. The writer has
/// no information about such sets, so each SSTable gets a run identifier of its own.
fn scylla_metadata(
    descriptor: &Descriptor,
    table: &TableMetadata,
    stats: &StatsComponent,
    checksums: Vec<(Component, u32)>,
) -> ScyllaMetadata {
    ScyllaMetadata {
        token_ranges: vec![(Token::of(&stats.first_key), Token::of(&stats.last_key))],
        features: ALL_FEATURES,
        run_identifier: Some(random::uuid_v4()),
        sstable_identifier: match descriptor.id {
            SSTableId::Uuid(id) => Some(id),
            SSTableId::Generation(_) => None,
        },
        origin: "espalier".into(),
        build_id: String::new(),
        version: env!("CARGO_PKG_VERSION").into(),
        schema: Some(ScyllaSchema::of(table)),
        checksums,
    }
}

fn chunk_table(chunks: &ChunkFormat) -> Component {
    match chunks {
        ChunkFormat::Compressed(_) => Component::CompressionInfo,
        ChunkFormat::Plain { .. } => Component::Crc,
    }
}
