//! This module defines the writer of SSTables.

use espalier_mutation::{
    Cell, Clustering, ColumnData, DeletionTime, PartitionHeader, Row, Unfiltered, UnfilteredStream,
    murmur3, schema::TableMetadata,
};
use espalier_runtime::file::FileSystem;

use super::{
    index::{EndedPartition, IndexWriter},
    options::WriterOptions,
    partition::OpenPartition,
};
use crate::{
    append_file::WrittenFile,
    components::{Component, Descriptor, reserve_name, take_back_if_failed},
    data::{
        clustering_values::borrowed,
        column_map::FileLayout,
        deletion_time::{self, DeletionScope, check_deletion},
        encode::{RowEncoder, write_marker},
        layout::END_OF_PARTITION,
        writer::DataWriter,
    },
    error::{FileName, Result, SSTableError},
    filter::{FilterBuilder, FilterSize},
    index::big::promoted_index::{BlockPosition, BlockPositionRef, PositionKind},
    secondary_index::SecondaryIndexWriter,
    statistics::{SerializationHeader, StatisticsCollector},
    vector_index::VectorIndexWriter,
    versions::{ClusteringStatistics, VersionFeatures},
};

/// A writer of one SSTable. The caller ends it with `finish` or `abort`. If it is dropped instead,
/// the files remain with TemporaryTOC.txt, and are not an SSTable.
pub struct SSTableWriter {
    pub(super) file_system: FileSystem,
    pub(super) options: WriterOptions,
    pub(super) features: &'static VersionFeatures,
    pub(super) header: SerializationHeader,
    pub(super) data: DataWriter,
    pub(super) index: IndexWriter,
    pub(super) filter: Option<FilterBuilder>,
    pub(super) collector: StatisticsCollector,
    name: FileName,
    /// A number that is unique among the writers of this thread.
    pub(super) serial: u64,
    pub(super) encoder: RowEncoder,
    scratch: Vec<u8>,
    pub(super) current: Option<OpenPartition>,
    /// The last position of the previous partition. Its memory is reused for the current one.
    pub(super) spare_position: Option<BlockPosition>,
    /// Key of the partition before the current one.
    last_key: Option<espalier_mutation::DecoratedKey>,
    /// Finished components of secondary indexes.
    pub(super) secondary: Vec<(Component, WrittenFile)>,
}

/// An error of copying a partition from a stream into an SSTable.
#[derive(Debug, thiserror::Error)]
pub enum StreamWriteError<E> {
    /// The stream failed.
    #[error("{0}")]
    Read(E),
    /// The writer failed.
    #[error(transparent)]
    Write(#[from] SSTableError),
}

impl SSTableWriter {
    /// Reserves the name and creates the files.
    ///
    /// # Errors
    /// Returns [`SSTableError::NameTaken`] if a file of this SSTable's name exists; nothing is
    /// changed then. Returns another error if the version or the table cannot be written, or if a
    /// file cannot be created.
    pub async fn create(file_system: &FileSystem, options: WriterOptions) -> Result<Self> {
        let descriptor = options.descriptor.clone();
        reserve_name(file_system, &descriptor).await?;
        let created = Self::create_reserved(file_system, options).await;
        take_back_if_failed(file_system, &descriptor, created).await
    }

    /// Creates the files under a name that the caller has reserved with [`reserve_name`].
    ///
    /// # Errors
    /// Fails if the version or the table cannot be written, or if a file cannot be created. The
    /// caller must then remove the files, of which there is at least TemporaryTOC.txt.
    pub async fn create_reserved(file_system: &FileSystem, options: WriterOptions) -> Result<Self> {
        let features = options.descriptor.writable_features()?;
        let name = options.descriptor.name_in_errors(&Component::Data);
        let table = &options.table;
        let header = SerializationHeader::for_table(
            table,
            |id| options.columns.contains(id),
            &options.encoding_stats,
        );
        let layout = FileLayout::new(&name, &header, table.clone(), features)?;
        // Unless the options exclude it, `create_files` makes the name of TemporaryTOC.txt durable
        // before it creates any other file. Files with neither TOC.txt nor TemporaryTOC.txt would
        // look like an SSTable that has lost its table of contents.
        let (data, index) = create_files(file_system, &options, features).await?;
        let filter =
            FilterSize::for_keys(options.estimated_partitions, options.bloom_filter_fp_chance)
                .map(FilterBuilder::new);
        Ok(Self {
            file_system: file_system.clone(),
            features,
            encoder: RowEncoder::new(layout, features.family),
            collector: StatisticsCollector::new(table.comparator().clone()),
            header,
            data,
            index,
            filter,
            name,
            serial: next_serial(),
            scratch: Vec::new(),
            current: None,
            spare_position: None,
            last_key: None,
            secondary: Vec::new(),
            options,
        })
    }

    /// Returns the number of partitions written.
    pub fn partition_count(&self) -> u64 {
        self.index.key_count()
    }

    pub(super) fn has_open_partition(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the number of bytes written to Data.db, before compression.
    pub fn data_length(&self) -> u64 {
        self.data.position()
    }

    /// Returns the name of the SSTable.
    pub fn descriptor(&self) -> &Descriptor {
        &self.options.descriptor
    }

    /// Returns whether the files are made durable.
    pub fn is_durable(&self) -> bool {
        self.options.is_durable
    }

    /// Adds the component of a secondary index, which belongs to this SSTable from now on. All
    /// partitions must have been written.
    ///
    /// # Errors
    /// Fails if the rest of the component cannot be written.
    pub async fn add_secondary_index(&mut self, index: SecondaryIndexWriter) -> Result<()> {
        self.secondary.push(index.finish(self.partition_count()).await?);
        Ok(())
    }

    /// Adds the component of an index on vectors, which belongs to this SSTable from now on.
    ///
    /// # Errors
    /// Fails if the rest of the component cannot be written.
    pub async fn add_vector_index(&mut self, index: VectorIndexWriter) -> Result<()> {
        self.secondary.push(index.finish().await?);
        Ok(())
    }

    /// Returns the table.
    pub fn table(&self) -> &TableMetadata {
        &self.options.table
    }

    /// Writes a whole partition.
    ///
    /// # Errors
    /// Returns [`StreamWriteError::Read`] if the stream fails, and [`StreamWriteError::Write`] if
    /// the writer does.
    pub async fn write_partition<S: UnfilteredStream>(
        &mut self,
        stream: &mut S,
    ) -> Result<(), StreamWriteError<S::Error>> {
        self.start_partition(stream.header().clone())?;
        while let Some(unfiltered) = stream.next().await.map_err(StreamWriteError::Read)? {
            self.put(unfiltered)?;
            self.make_room().await?;
        }
        Ok(self.end_partition().await?)
    }

    /// Begins a partition. Its key must be above the previous one. An empty partition is not
    /// written.
    ///
    /// # Errors
    /// Returns [`SSTableError::Rejected`] if a partition is open, if the key is out of order or too
    /// long, or if the version cannot hold the deletion or the static row.
    pub fn start_partition(&mut self, header: PartitionHeader) -> Result<()> {
        let hash = murmur3::hash(&header.key.key);
        self.start_hashed_partition(header, hash)
    }

    /// Works like [`start_partition`](Self::start_partition) for a caller that has the Murmur3 hash
    /// of the key.
    ///
    /// # Errors
    /// Returns [`SSTableError::Rejected`] in the same cases as
    /// [`start_partition`](Self::start_partition).
    pub fn start_hashed_partition(
        &mut self,
        header: PartitionHeader,
        hash: (u64, u64),
    ) -> Result<()> {
        debug_assert_eq!(hash, murmur3::hash(&header.key.key), "the hash of another key");
        if self.current.is_some() {
            return Err(self.rejected("a partition begins before the last one ended"));
        }
        if self.last_key.as_ref().is_some_and(|last| *last >= header.key) {
            let reason = format!("{:?} does not come after {:?}", header.key, self.last_key);
            return Err(self.rejected(reason));
        }
        if header.key.key.len() > usize::from(u16::MAX) {
            let reason = format!("a partition key of {} bytes", header.key.key.len());
            return Err(self.rejected(reason));
        }
        self.check_storable(DeletionScope::Partition, header.deletion)?;
        let PartitionHeader { key, deletion, static_row } = header;
        let static_row = static_row.filter(|row| !row.is_empty());
        let holds_something = !deletion.is_live() || static_row.is_some();
        self.current = Some(OpenPartition {
            hash,
            key,
            deletion,
            static_row,
            has_head: false,
            start: self.data.position(),
            previous_start: 0,
            last: None,
            open_deletion: DeletionTime::LIVE,
        });
        if holds_something { self.write_head() } else { Ok(()) }
    }

    pub(super) fn write_head(&mut self) -> Result<()> {
        let Some(current) = self.current.as_mut().filter(|current| !current.has_head) else {
            return Ok(());
        };
        current.has_head = true;
        let (key, deletion) = (&current.key.key, current.deletion);
        let static_row = current.static_row.take();
        let out = self.data.buffer();
        let before = out.len();
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(key);
        deletion_time::write(deletion, self.features.deletion_time, out);
        let written = if self.encoder.has_static_columns() {
            let empty = Row::empty(Clustering::empty());
            self.encoder.write_static_row(static_row.as_ref().unwrap_or(&empty), out)
        } else if static_row.is_some() {
            Err("a static row, but no static column in the file's header".into())
        } else {
            Ok(())
        };
        if let Err(reason) = written {
            // The writer takes the whole partition back.
            out.truncate(before);
            self.last_key = self.current.take().map(|current| current.key);
            return Err(self.rejected(reason));
        }
        self.collector.start_partition(key, deletion);
        if let Some(row) = &static_row {
            self.collector.add_static_row(row);
            self.collect_counters(row);
        }
        Ok(())
    }

    /// Adds a row or marker to the partition, after the previous one.
    ///
    /// # Errors
    /// Returns [`SSTableError::Rejected`] if no partition is open, if the row or marker is out of
    /// order or does not fit the table, or if the version cannot hold it; and an I/O error if a
    /// write fails.
    pub async fn add(&mut self, unfiltered: Unfiltered) -> Result<()> {
        self.put(unfiltered)?;
        self.make_room().await
    }

    /// Works like [`add`](Self::add), and does not wait. The caller must call
    /// [`make_room`](Self::make_room) next. It suits callers that add many rows, because an async
    /// function moves its arguments more often than a plain function.
    ///
    /// # Errors
    /// Returns [`SSTableError::Rejected`] in the same cases as [`add`](Self::add).
    pub fn put(&mut self, unfiltered: Unfiltered) -> Result<()> {
        if matches!(&unfiltered, Unfiltered::Row(row) if row.is_empty()) {
            return Ok(());
        }
        let Some(current) = &self.current else {
            return Err(self.rejected("a row without a partition"));
        };
        current
            .check(self.options.table.comparator(), &unfiltered)
            .map_err(|reason| self.rejected(reason))?;
        self.check_values(&unfiltered)?;
        self.write_head()?;
        let position = self.data.position();
        let Some(current) = &mut self.current else { return Ok(()) };
        let offset = position - current.start;
        let previous = offset - current.previous_start;
        let out = self.data.buffer();
        let before = out.len();
        let written = match &unfiltered {
            Unfiltered::Row(row) => {
                let clustering = borrowed(&row.clustering.values);
                self.encoder.write_row(clustering, row, previous, out)
            }
            Unfiltered::Marker(marker) => write_marker(
                marker,
                self.encoder.types(),
                self.encoder.baselines(),
                previous,
                &mut self.scratch,
                out,
            ),
        };
        if let Err(reason) = written {
            out.truncate(before);
            return Err(self.rejected(reason));
        }
        let place = BlockPositionRef::from(&unfiltered);
        self.index.begin(self.encoder.types(), place, offset, current.open_deletion)?;
        match &unfiltered {
            Unfiltered::Row(row) => {
                if current.last.is_none() {
                    self.collector.cover_first_row(&row.clustering.values);
                }
                self.collector.add_row_data(row);
                self.collect_counters(row);
            }
            Unfiltered::Marker(marker) => self.collector.add_marker(marker),
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        if let Unfiltered::Marker(marker) = &unfiltered {
            current.open_deletion = marker.after;
        }
        current.previous_start = offset;
        let end = self.data.position() - current.start;
        self.index.end(self.encoder.types(), place, end, current.open_deletion)?;
        current.last = Some(unfiltered.into());
        Ok(())
    }

    /// Ends the partition.
    ///
    /// # Errors
    /// Returns [`SSTableError::Rejected`] if no partition is open, or if a range deletion is open;
    /// and an I/O error if a write fails.
    pub async fn end_partition(&mut self) -> Result<()> {
        self.close_partition()?;
        self.make_room().await
    }

    /// Does the part of [`end_partition`](Self::end_partition) that does not wait. The caller must
    /// call [`make_room`](Self::make_room) next.
    fn close_partition(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else {
            return Err(self.rejected("no partition is open"));
        };
        if !current.open_deletion.is_live() {
            return Err(self.rejected("a range deletion is open at the end of a partition"));
        }
        if !current.has_head {
            self.last_key = Some(current.key);
            return Ok(());
        }
        let end_offset = self.data.position() - current.start;
        self.data.buffer().push(END_OF_PARTITION);
        self.collector.end_partition(end_offset + 1);
        if let Some(BlockPosition { kind: PositionKind::Row, values }) = &current.last {
            self.collector.cover_last_row(values);
        }
        let key = &current.key;
        let ended = EndedPartition {
            key,
            hash: current.hash,
            deletion: current.deletion,
            start: current.start,
            end_offset,
            last: current.last.as_ref().map(BlockPosition::as_ref),
        };
        self.index.end_partition(self.encoder.types(), ended)?;
        if let Some(filter) = &mut self.filter {
            filter.add_hash(current.hash);
        }
        self.last_key = Some(current.key);
        self.spare_position = current.last;
        Ok(())
    }

    fn check_values(&self, unfiltered: &Unfiltered) -> Result<()> {
        let (found, most) = (unfiltered.position().values.len(), self.encoder.types().len());
        if self.features.clustering_statistics == ClusteringStatistics::MinMaxValues {
            self.check_clustering_lengths(borrowed(unfiltered.position().values))?;
        }
        match unfiltered {
            Unfiltered::Row(_) if found != most => {
                let reason = format!("a row with {found} clustering values; the table has {most}");
                Err(self.rejected(reason))
            }
            Unfiltered::Marker(marker) if found > most => {
                Err(self.rejected(format!("{marker:?} has too many values")))
            }
            Unfiltered::Row(_) => Ok(()),
            // If the row index cannot hold a range deletion with a negative timestamp, no block
            // begins inside such a range deletion. So a range deletion has only the limits of a row
            // deletion.
            Unfiltered::Marker(marker) => [marker.before, marker.after]
                .into_iter()
                .try_for_each(|deletion| self.check_storable(DeletionScope::Row, deletion)),
        }
    }

    /// Checks that no clustering value has more than 65,535 bytes. Some versions store the values
    /// of the least and the greatest clustering in Statistics.db with lengths of two bytes.
    pub(super) fn check_clustering_lengths<'a>(
        &self,
        values: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<()> {
        match values.flatten().find(|value| value.len() > usize::from(u16::MAX)) {
            Some(long) => Err(self.rejected(format!("a clustering value of {} bytes", long.len()))),
            None => Ok(()),
        }
    }

    fn check_storable(&self, scope: DeletionScope, deletion: DeletionTime) -> Result<()> {
        check_deletion(self.features, scope, deletion)
            .map_err(|error| self.rejected(error.to_string()))
    }

    fn collect_counters(&mut self, row: &Row) {
        if !self.options.table.is_counter() {
            return;
        }
        let cells = row.columns.iter().filter_map(|(_, data)| match data {
            ColumnData::Simple(cell) => Some(cell),
            ColumnData::Complex(_) => None,
        });
        for Cell { value, .. } in cells {
            self.collector.add_counter_context(value);
        }
    }

    pub(super) fn rejected(&self, reason: impl Into<String>) -> SSTableError {
        SSTableError::rejected(&self.name, reason)
    }
}

fn next_serial() -> u64 {
    thread_local! {
        static NEXT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    NEXT.replace(NEXT.get() + 1)
}

async fn create_files(
    file_system: &FileSystem,
    options: &WriterOptions,
    features: &'static VersionFeatures,
) -> Result<(DataWriter, IndexWriter)> {
    let descriptor = &options.descriptor;
    if options.is_durable {
        file_system.sync_dir(&descriptor.directory).await?;
    }
    let data =
        DataWriter::create(file_system, descriptor, features, &options.chunks, options.is_durable)
            .await?;
    let index = IndexWriter::create(file_system, features, options).await?;
    Ok((data, index))
}
