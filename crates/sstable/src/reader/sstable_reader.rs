//! An opened SSTable and its look-ups.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, DecoratedKeyRef, Direction, KeyRange, PartitionHeader, murmur3,
    schema::TableMetadata,
};

use super::{
    caveat::Caveat,
    forward::ForwardRows,
    index::Index,
    key_lookup::FoundPartition,
    only_row::OnlyRow,
    partition_stream::{PartitionStream, Rows},
    reverse::ReverseRows,
    row_source::RowSource,
    scan::Scan,
};
use crate::{
    components::{Component, Descriptor},
    compression::CompressionInfo,
    data::{
        column_map::{ColumnSelection, FileLayout},
        decode::RowDecoder,
        file::DataFile,
        stream::DataStream,
    },
    error::Result,
    filter::BloomFilter,
    index::big::promoted_index::PositionFormat,
    page_cache::{Caching, Pinned},
    secondary_index::SecondaryIndex,
    statistics::{SerializationHeader, Statistics},
    versions::VersionFeatures,
};

/// An SSTable that the calling shard has opened. Clones share it; its files close with the last
/// clone.
#[derive(Clone)]
pub struct SSTableReader(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub(crate) descriptor: Descriptor,
    pub(crate) components: BTreeSet<Component>,
    pub(crate) features: &'static VersionFeatures,
    pub(crate) statistics: Statistics,
    pub(crate) filter: Option<BloomFilter>,
    /// Accounts for the filter's memory in the page cache.
    pub(crate) _filter_memory: Pinned,
    pub(crate) data: DataFile,
    pub(crate) index: Index,
    pub(crate) first_key: DecoratedKey,
    pub(crate) last_key: DecoratedKey,
    pub(crate) bytes_on_disk: u64,
    /// The entries of secondary indexes, by the index's name.
    pub(crate) secondary: BTreeMap<String, SecondaryIndex>,
    /// The rules to decode and compare positions in Index.db for the table's current schema.
    pub(crate) positions: RefCell<Arc<PositionFormat>>,
    /// The layout for decoding rows with the table's current schema.
    pub(crate) layout: RefCell<Arc<FileLayout>>,
}

impl SSTableReader {
    /// Returns the descriptor that names the SSTable's files.
    pub fn descriptor(&self) -> &Descriptor {
        &self.0.descriptor
    }

    /// Returns the components that TOC.txt lists or, for an SSTable that was opened without it,
    /// those that exist.
    pub fn components(&self) -> &BTreeSet<Component> {
        &self.0.components
    }

    /// Returns the entries of the secondary index with this name, if the SSTable has intact ones.
    /// The caller compares their signature.
    pub fn secondary_index(&self, name: &str) -> Option<&SecondaryIndex> {
        self.0.secondary.get(name).filter(|index| !index.is_forgotten())
    }

    /// Leaves the entries of a secondary index out from now on, because some are damaged. Returns
    /// whether they were in use.
    pub fn forget_secondary_index(&self, name: &str) -> bool {
        self.secondary_index(name).is_some_and(SecondaryIndex::forget)
    }

    /// Returns the number of secondary indexes whose entries are left out because of damage.
    pub fn forgotten_secondary_indexes(&self) -> usize {
        self.0.secondary.values().filter(|index| index.is_forgotten()).count()
    }

    /// Returns a warning if Data.db has no checksums. Only offline tools open such an SSTable.
    pub fn caveat(&self) -> Option<Caveat> {
        Caveat::of(&self.0.data, None)
    }

    /// Returns the features of the SSTable's format version.
    pub fn features(&self) -> &'static VersionFeatures {
        self.0.features
    }

    /// Returns the content of Statistics.db.
    pub fn statistics(&self) -> &Statistics {
        &self.0.statistics
    }

    /// Returns the first partition's key.
    pub fn first_key(&self) -> &DecoratedKey {
        &self.0.first_key
    }

    /// Returns the last partition's key.
    pub fn last_key(&self) -> &DecoratedKey {
        &self.0.last_key
    }

    /// Returns the greatest timestamp in the SSTable, in µs; `i64::MAX` if it holds no timestamp.
    pub fn maximum_timestamp(&self) -> i64 {
        self.0.statistics.stats.max_timestamp
    }

    /// Returns the number of partitions according to the statistics, but at most as many as Data.db
    /// has room for and a trie counts.
    pub fn partition_count(&self) -> u64 {
        /// The length of a key (2 bytes), the flag of a live partition, and the end-of-partition
        /// byte.
        const MIN_PARTITION_BYTES: u64 = 4;
        let mut most = self.data_length() / MIN_PARTITION_BYTES;
        if let Index::Trie(index) = &self.0.index {
            most = most.min(index.partitions.footer().key_count);
        }
        self.0.statistics.stats.partition_sizes.total().min(most)
    }

    /// Returns the length of Data.db before compression, in bytes.
    pub fn data_length(&self) -> u64 {
        self.0.data.length()
    }

    /// Returns the length of Data.db as it is stored, in bytes.
    pub fn stored_data_length(&self) -> u64 {
        self.0.data.stored_length()
    }

    /// Returns the compression of Data.db; `None` if it has none.
    pub fn compression(&self) -> Option<&CompressionInfo> {
        self.0.data.compression()
    }

    /// Returns the Bloom filter, if the SSTable was opened with one.
    pub fn bloom_filter(&self) -> Option<&BloomFilter> {
        self.0.filter.as_ref()
    }

    /// Returns the sum of the lengths of Data.db, as it is stored, and of the index, in bytes.
    pub fn bytes_on_disk(&self) -> u64 {
        self.0.bytes_on_disk
    }

    /// Returns the bytes of memory that the filter and the summary take as long as the SSTable is
    /// open.
    pub fn memory_size(&self) -> usize {
        self.0.index.memory_size() + self.0.filter.as_ref().map_or(0, BloomFilter::memory_size)
    }

    /// Returns the table whose schema decodes the rows.
    pub fn table(&self) -> Arc<TableMetadata> {
        self.0.layout.borrow().table.clone()
    }

    /// Decodes rows as rows of `table` in later reads, as ALTER TABLE requires. Streams under way
    /// keep the old schema.
    ///
    /// # Errors
    ///
    /// Returns an error if the columns of the file do not fit `table`; the old schema then stays in
    /// use.
    pub fn set_table(&self, table: Arc<TableMetadata>) -> Result<()> {
        let name = self.0.descriptor.name_in_errors(&Component::Statistics);
        let header = &self.0.statistics.header;
        let layout = FileLayout::new(&name, header, table, self.0.features)?;
        let positions = position_format(header, &layout);
        *self.0.positions.borrow_mut() = Arc::new(positions);
        *self.0.layout.borrow_mut() = Arc::new(layout);
        Ok(())
    }

    /// Returns false if the SSTable certainly lacks the partition: its key is outside of the key
    /// range, or the filter excludes it.
    pub fn may_contain(&self, key: DecoratedKeyRef<'_>) -> bool {
        self.may_contain_hash(key, murmur3::hash(key.key))
    }

    /// Explains the answer of [`Self::may_contain`], for traces.
    pub fn presence(&self, key: DecoratedKeyRef<'_>) -> Presence {
        match &self.0.filter {
            _ if !self.spans(key) => Presence::OutsideOfRange,
            None => Presence::NoFilter,
            Some(filter) if filter.may_contain_hash(murmur3::hash(key.key)) => Presence::Maybe,
            Some(_) => Presence::FilteredOut,
        }
    }

    /// Answers [`Self::may_contain`] for a caller that has the key's Murmur3 hash already.
    pub fn may_contain_hash(&self, key: DecoratedKeyRef<'_>, hash: (u64, u64)) -> bool {
        self.spans(key) && self.passes_filter(hash)
    }

    /// Returns whether the key lies in the SSTable's key range.
    #[inline]
    pub fn spans(&self, key: DecoratedKeyRef<'_>) -> bool {
        key.compare(self.0.first_key.borrowed()).is_ge()
            && key.compare(self.0.last_key.borrowed()).is_le()
    }

    /// Returns false if the filter excludes all keys that have this Murmur3 hash.
    #[inline]
    pub fn passes_filter(&self, hash: (u64, u64)) -> bool {
        self.0.filter.as_ref().is_none_or(|filter| filter.may_contain_hash(hash))
    }

    /// Prefetches the memory that [`SSTableReader::passes_filter`] will read first.
    #[inline]
    pub fn look_ahead_in_filter(&self, hash: (u64, u64)) {
        if let Some(filter) = &self.0.filter {
            filter.look_ahead(hash);
        }
    }

    /// Returns the budget, in bytes, of the page cache through which the SSTable is read.
    pub fn page_cache_bytes(&self) -> usize {
        self.0.data.cache().budget()
    }

    /// Returns whether a range of keys intersects the SSTable's key range.
    pub fn may_contain_range(&self, range: &KeyRange) -> bool {
        range.starts_before(&self.0.last_key) && !range.ends_before(&self.0.first_key)
    }

    /// Opens a stream of the slices of one partition, in `direction`; `None` if the SSTable lacks
    /// the partition. `slices` are in clustering order for both directions. The stream returns
    /// deletions as they are stored: it reconciles nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the index, or the data where the stream begins, is damaged or cannot be
    /// read.
    pub async fn read_partition(
        &self,
        key: &DecoratedKey,
        slices: Arc<ClusteringSlices>,
        direction: Direction,
        columns: &ColumnSelection,
    ) -> Result<Option<PartitionStream>> {
        self.read_partition_by(key, slices, direction, columns, false).await
    }

    /// Opens the stream of [`Self::read_partition`]. With `bypass_cache`, the stream uses cached
    /// pages, but adds none and does not record their use.
    ///
    /// # Errors
    ///
    /// Returns an error if the index, or the data where the stream begins, is damaged or cannot be
    /// read.
    pub async fn read_partition_by(
        &self,
        key: &DecoratedKey,
        slices: Arc<ClusteringSlices>,
        direction: Direction,
        columns: &ColumnSelection,
        bypass_cache: bool,
    ) -> Result<Option<PartitionStream>> {
        let caching = if bypass_cache { Caching::Private } else { Caching::Shared };
        let Some(found) = self.find_partition(key, None, caching).await? else {
            return Ok(None);
        };
        let FoundPartition { position, deletion, index, data } = found;
        let decoder = self.decoder(columns);
        let data =
            data.unwrap_or_else(|| DataStream::cached(self.0.data.with_caching(caching), position));
        let mut source = RowSource::new(data, decoder);
        let enters_by_index = match direction {
            Direction::Forward => slices.slices.first().is_some_and(|s| !s.start.is_unbounded()),
            Direction::Reverse => true,
        };
        let is_index_checked = index.as_ref().is_some_and(|index| index.file().has_checksums());
        let mut header = if enters_by_index && is_index_checked && !source.has_static_columns() {
            // The index has the deletion, and nothing else in the partition's head is needed. If
            // the index has no checksums, the head is read all the same, because a flipped bit in
            // the index could delete or resurrect a partition.
            PartitionHeader { key: key.clone(), deletion, static_row: None }
        } else {
            let (header, _) = source.read_header().await?;
            if header.key != *key {
                return Err(source.corrupt("another partition than the index says"));
            }
            header
        };
        let only_row = OnlyRow::of(&mut header, source.is_static_compact());
        let rows = match direction {
            Direction::Forward => {
                Rows::Forward(ForwardRows::enter(source, slices, position, index).await?)
            }
            Direction::Reverse => Rows::Reverse(ReverseRows::new(source, slices, position, index)),
        };
        Ok(Some(PartitionStream::new(header, only_row, rows, self.maximum_timestamp())))
    }

    /// Scans the slices of the partitions of a range, in key order.
    ///
    /// # Errors
    ///
    /// Returns an error if the index or the data is damaged or cannot be read where the range
    /// begins.
    pub async fn scan(
        &self,
        range: KeyRange,
        slices: Arc<ClusteringSlices>,
        columns: &ColumnSelection,
    ) -> Result<Scan> {
        Scan::new(self.clone(), range, slices, self.decoder(columns), Caching::Private).await
    }

    /// Scans all columns of the partitions of a range as rows of `table`, which may differ from
    /// [`Self::table`] only in dropped columns.
    ///
    /// # Errors
    ///
    /// Returns an error if the columns of the file do not fit `table`, or if the index or the data
    /// is damaged or cannot be read where the range begins.
    pub async fn scan_as(
        &self,
        table: &Arc<TableMetadata>,
        range: KeyRange,
        slices: Arc<ClusteringSlices>,
    ) -> Result<Scan> {
        let mut layout = self.0.layout.borrow().clone();
        if !Arc::ptr_eq(&layout.table, table) {
            let name = self.0.descriptor.name_in_errors(&Component::Statistics);
            let header = &self.0.statistics.header;
            layout = Arc::new(FileLayout::new(&name, header, table.clone(), self.0.features)?);
        }
        let decoder = RowDecoder::new(layout, &ColumnSelection::All);
        Scan::new(self.clone(), range, slices, decoder, Caching::Private).await
    }

    /// Scans a range of which the caller probably wants a few rows only: the scan takes pages from
    /// the page cache and adds them to it.
    ///
    /// # Errors
    ///
    /// Returns an error if the index or the data is damaged or cannot be read where the range
    /// begins.
    pub async fn short_scan(
        &self,
        range: KeyRange,
        slices: Arc<ClusteringSlices>,
        columns: &ColumnSelection,
    ) -> Result<Scan> {
        Scan::new(self.clone(), range, slices, self.decoder(columns), Caching::Shared).await
    }

    pub(crate) fn decoder(&self, columns: &ColumnSelection) -> RowDecoder {
        RowDecoder::new(self.0.layout.borrow().clone(), columns)
    }
}

/// The answer of the key range and the filter about a partition, before the index is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The key lies before the first or after the last key.
    OutsideOfRange,
    /// The filter says that the SSTable lacks the partition.
    FilteredOut,
    /// The filter says that the SSTable may have the partition.
    Maybe,
    /// The SSTable has no filter, so it may have the partition.
    NoFilter,
}

/// Returns the rules for positions: the file's types decode them, and the table's compare them.
pub(super) fn position_format(header: &SerializationHeader, layout: &FileLayout) -> PositionFormat {
    PositionFormat::new(&header.clustering_types, layout.table.comparator().clone())
}

impl std::fmt::Debug for SSTableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SSTableReader({})", self.0.descriptor)
    }
}
