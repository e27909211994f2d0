//! Data.db as chunks: compressed ones with their checksums after them, plain ones with checksums in
//! CRC.db, or, for offline tools, plain ones without checksums.
//!
//! A look-up reads a whole chunk, compares its checksum, decompresses it and, unless the reader is
//! private, keeps it in the page cache. Sequential reads add nothing to the cache. The reader uses
//! no byte of a chunk whose checksum is wrong. The offsets of chunks are read from pages of
//! CompressionInfo.db when a read needs them.

use std::{collections::BTreeSet, path::Path};

use bytes::Bytes;
use espalier_runtime::{
    file::{FileSystem, PageBuffer, PageBufferMut},
    time::Instant,
    trace, trace_event,
};

use crate::{
    checksums::Checksums,
    components::{Component, Descriptor},
    compression::{
        CompressionInfo,
        chunk_decoder::ChunkDecoder,
        layout::{MAX_HEAD_LENGTH, SHORT_HEAD_LENGTH},
    },
    data::{chunk_table::Shortfall, read_ahead::ReadAhead},
    error::{Result, SSTableError},
    page_cache::{CachedFile, CachedPage, CachedPages, Caching, PageCache, PageKey, Part},
    versions::VersionFeatures,
};

/// The largest chunk of a plain file that the reader accepts, in bytes.
pub(crate) const MAX_PLAIN_CHUNK_LENGTH: u32 = 16 * 1024 * 1024;
/// The length of a chunk, in bytes, of data without checksums. The file itself has no chunks then.
const UNCHECKED_CHUNK_LENGTH: u64 = 4096;

#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// Offsets are in `table` from `table_start` on.
    Compressed { info: CompressionInfo, decoder: ChunkDecoder, table_start: u64 },
    /// Checksums are in `table` after the chunk length.
    Plain { chunk_length: u32 },
    /// The bytes have no checksums; `table` is the data itself.
    Unchecked,
}

/// Data.db and the table of its chunks.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    pub(super) file: CachedFile,
    pub(super) table: CachedFile,
    pub(super) layout: Layout,
    pub(super) length: u64,
}

/// The range of a stored chunk, and its checksum if that is stored elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) offset: u64,
    /// The length in bytes, with the checksum after the chunk.
    pub(super) length: usize,
    pub(super) checksum: Option<u32>,
}

/// The most bytes of a chunk and its successors that a look-up reads at once, when it probably
/// needs more than one chunk. Two such reads are as much as a block of 64 KiB.
const LOOK_UP_BYTES: u64 = 32 * 1024;

impl DataFile {
    /// Opens Data.db with the component that describes its chunks, and checks their table.
    pub(crate) async fn open(
        file_system: &FileSystem,
        descriptor: &Descriptor,
        features: &VersionFeatures,
        components: &BTreeSet<Component>,
        checksums: &Checksums,
        cache: &PageCache,
    ) -> Result<Self> {
        let opened =
            Self::open_as_it_is(file_system, descriptor, features, components, checksums, cache);
        match opened.await? {
            (data_file, None) => Ok(data_file),
            (_, Some(shortfall)) => Err(shortfall.error),
        }
    }

    /// Opens Data.db even if it has lost its end, and returns the shortfall. The lost chunks cannot
    /// be read.
    pub(crate) async fn open_as_it_is(
        file_system: &FileSystem,
        descriptor: &Descriptor,
        features: &VersionFeatures,
        components: &BTreeSet<Component>,
        checksums: &Checksums,
        cache: &PageCache,
    ) -> Result<(Self, Option<Shortfall>)> {
        let open = |component: Component| async move {
            let path = descriptor.path(&component);
            let checksums = checksums.of(&component).cloned();
            CachedFile::open(file_system, Path::new(&path), Part::Data, cache, checksums).await
        };
        let file = open(Component::Data).await?;
        let data_file = if components.contains(&Component::CompressionInfo) {
            let table = open(Component::CompressionInfo).await?;
            table.check_all_pages().await?;
            let (info, table_start) = read_head(&table, features).await?;
            let decoder = ChunkDecoder::new(table.name(), &info)?;
            let length = info.data_length;
            Self { file, table, layout: Layout::Compressed { info, decoder, table_start }, length }
        } else if components.contains(&Component::Crc) {
            let table = open(Component::Crc).await?;
            let chunk_length = u32::from_be_bytes(table.read_array(0).await?);
            if chunk_length == 0 || chunk_length > MAX_PLAIN_CHUNK_LENGTH {
                let reason = format!("chunks of {chunk_length} bytes");
                return Err(SSTableError::corrupt(table.name(), 0, reason));
            }
            let length = file.length();
            Self { file, table, layout: Layout::Plain { chunk_length }, length }
        } else {
            let (table, length) = (file.clone(), file.length());
            return Ok((Self { file, table, layout: Layout::Unchecked, length }, None));
        };
        let shortfall = data_file.check_table().await?;
        Ok((data_file, shortfall))
    }

    /// Returns this file for a reader that uses the page cache in the given way.
    pub(crate) fn with_caching(&self, caching: Caching) -> Self {
        let Self { file, table, layout, length } = self;
        let (file, table) = (file.with_caching(caching), table.with_caching(caching));
        Self { file, table, layout: layout.clone(), length: *length }
    }

    /// Returns the length before compression, in bytes.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the length of Data.db as stored, in bytes.
    pub(crate) fn stored_length(&self) -> u64 {
        self.file.length()
    }

    pub(crate) fn compression(&self) -> Option<&CompressionInfo> {
        match &self.layout {
            Layout::Compressed { info, .. } => Some(info),
            _ => None,
        }
    }

    pub(crate) fn chunk_length(&self) -> u64 {
        match &self.layout {
            Layout::Compressed { info, .. } => u64::from(info.chunk_length),
            Layout::Plain { chunk_length } => u64::from(*chunk_length),
            Layout::Unchecked => UNCHECKED_CHUNK_LENGTH,
        }
    }

    /// Returns the number of the chunk that begins at this position before compression, if there is
    /// one.
    pub(crate) fn chunk_that_begins_at(&self, position: u64) -> Option<u64> {
        let length = self.chunk_length();
        (position.is_multiple_of(length) && position < self.length).then_some(position / length)
    }

    /// Returns the length of a chunk before compression, in bytes.
    pub(crate) fn plain_length(&self, index: u64) -> usize {
        let start = index.saturating_mul(self.chunk_length());
        self.length.saturating_sub(start).min(self.chunk_length()) as usize
    }

    /// Returns whether the chunks have checksums.
    pub(crate) fn is_checked(&self) -> bool {
        !matches!(self.layout, Layout::Unchecked)
    }

    pub(crate) fn corrupt(&self, offset: u64, reason: impl Into<String>) -> SSTableError {
        SSTableError::corrupt(self.file.name(), offset, reason)
    }

    pub(super) async fn extent(&self, index: u64) -> Result<Extent> {
        match &self.layout {
            Layout::Plain { chunk_length } => Ok(Extent {
                offset: index * u64::from(*chunk_length),
                length: self.plain_length(index),
                checksum: Some(u32::from_be_bytes(self.table.read_array(4 + 4 * index).await?)),
            }),
            Layout::Unchecked => Ok(Extent {
                offset: index * UNCHECKED_CHUNK_LENGTH,
                length: self.plain_length(index),
                checksum: None,
            }),
            Layout::Compressed { info, table_start, .. } => {
                let at = table_start + 8 * index;
                let (offset, end) = if index + 1 < u64::from(info.chunk_count) {
                    let pair = self.table.read_array::<16>(at).await?;
                    let (first, second) = pair.split_at(8);
                    (be64(first), be64(second))
                } else {
                    (be64(&self.table.read_array::<8>(at).await?), self.file.length())
                };
                let stored_length = self.file.length();
                match end.checked_sub(offset) {
                    _ if end > stored_length || offset.saturating_add(4) > stored_length => {
                        Err(self.without_end(index, offset))
                    }
                    Some(length) if (4..=longest_stored(info)).contains(&length) => {
                        Ok(Extent { offset, length: length as usize, checksum: None })
                    }
                    _ => {
                        let reason = format!("chunk {index} cannot be at {offset}..{end}");
                        Err(SSTableError::corrupt(self.table.name(), at, reason))
                    }
                }
            }
        }
    }

    /// Makes the error for a chunk that begins at `offset` of the stored data and is not wholly in
    /// the file.
    pub(super) fn without_end(&self, index: u64, offset: u64) -> SSTableError {
        let length = self.file.length();
        let reason = format!("chunk {index} at {offset} is cut off: the file has {length} bytes");
        self.corrupt(index.saturating_mul(self.chunk_length()), reason)
    }

    /// Returns the cached pages of all files, and the pages that the look-up itself holds.
    #[inline]
    pub(crate) fn cached_pages<'a>(&'a self, held: &'a [(PageKey, Bytes)]) -> CachedPages<'a> {
        self.file.cache().cached_pages(held)
    }

    /// Returns whether a page is a chunk of this file.
    pub(crate) fn is_chunk(&self, key: PageKey) -> bool {
        self.file.key(key.page) == key
    }

    /// Returns the key of the chunk that holds a position before compression.
    #[inline]
    pub(crate) fn key_of(&self, position: u64) -> PageKey {
        self.file.key(position / self.chunk_length())
    }

    /// Returns chunk `index`, which begins at `index * chunk_length` before compression, if it is
    /// cached.
    #[inline]
    pub(crate) fn cached_chunk<'p>(
        &self,
        pages: &'p CachedPages<'_>,
        index: u64,
    ) -> Option<&'p Bytes> {
        pages.get(self.file.key(index))
    }

    /// Returns chunk `index` from the cache, or reads it and caches it; a private reader does not
    /// cache it. The caller probably reads on up to the position `wanted_end`. So the same read
    /// also takes the next chunks up to this position or up to a cached chunk, at most
    /// [`LOOK_UP_BYTES`].
    pub(crate) async fn chunk(&self, index: u64, wanted_end: u64) -> Result<Bytes> {
        let cache = self.file.cache();
        if trace::is_on() {
            match cache.holds(self.file.key(index)) {
                true => self.trace_hit(index),
                false if cache.is_being_read(self.file.key(index)) => self.trace_shared(index),
                false => {}
            }
        }
        match self.file.caching() {
            Caching::Shared => {
                let read = || self.read_chunks(index, wanted_end);
                cache.get_or_read(self.file.key(index), read).await
            }
            Caching::Private => {
                self.chunk_privately(index, &mut ReadAhead::default(), wanted_end).await
            }
        }
    }

    /// Returns chunk `index` for a private reader; `ahead` keeps the next chunks that the same read
    /// takes.
    pub(crate) async fn chunk_privately(
        &self,
        index: u64,
        ahead: &mut ReadAhead,
        wanted_end: u64,
    ) -> Result<Bytes> {
        let wanted = wanted_end.saturating_sub(index.saturating_mul(self.chunk_length()));
        let extent = self.extent(index).await?;
        if !ahead.holds(&extent)
            && let Some(bytes) = self.file.cache().peek(self.file.key(index))
        {
            if trace::is_on() {
                self.trace_hit(index);
            }
            return Ok(bytes);
        }
        let at_once = wanted.min(LOOK_UP_BYTES) as usize;
        let stored = self.stored_by(index, extent, ahead, at_once).await?;
        self.open_chunk_behind(&[], index, extent, stored)
    }

    pub(crate) fn cache(&self) -> &PageCache {
        self.file.cache()
    }

    pub(crate) fn caching(&self) -> Caching {
        self.file.caching()
    }

    /// Returns whether the chunk that holds a position is cached.
    pub(crate) fn is_cached(&self, position: u64) -> bool {
        self.file.cache().holds(self.file.key(position / self.chunk_length()))
    }

    /// Reads chunk `index` and, in the same read, the next chunks up to `wanted_end`. Caches the
    /// next chunks; the caller caches chunk `index`.
    async fn read_chunks(&self, index: u64, wanted_end: u64) -> Result<CachedPage> {
        let first = self.extent(index).await?;
        let count = self.chunks_to(index, wanted_end);
        if count <= 1 {
            let stored =
                self.read_stored(first.offset, first.length, None, "Data cache miss").await?;
            return self.open_chunk(index, first, stored);
        }
        let mut extents = vec![first];
        let mut end = first.offset.saturating_add(first.length as u64);
        for next in index + 1..index + count {
            // The read that needs that chunk reports the fault.
            let Ok(extent) = self.extent(next).await else { break };
            if extent.offset != end {
                break;
            }
            end = end.saturating_add(extent.length as u64);
            extents.push(extent);
        }
        let length = (end - first.offset) as usize;
        let all = self.read_stored(first.offset, length, None, "Data cache miss").await?;
        let part = |extent: &Extent| {
            let start = (extent.offset - first.offset) as usize;
            all.get(start..start + extent.length).map(PageBuffer::copy_from)
        };
        for (extent, number) in extents.iter().zip(index..).skip(1) {
            let key = self.file.key(number);
            // The read that needs that chunk reports a fault in it.
            if !self.file.cache().holds(key)
                && let Some(stored) = part(extent)
                && let Ok(page) = self.open_chunk(number, *extent, stored)
            {
                self.file.cache().insert(key, page);
            }
        }
        match part(&first) {
            Some(stored) => self.open_chunk(index, first, stored),
            None => Err(self.without_end(index, first.offset)),
        }
    }

    /// Returns the number of chunks that one read takes from `index` on.
    fn chunks_to(&self, index: u64, wanted_end: u64) -> u64 {
        let wanted_end = wanted_end.min(self.length);
        let most = (LOOK_UP_BYTES / self.chunk_length()).max(1);
        let wanted = wanted_end.div_ceil(self.chunk_length()).saturating_sub(index);
        let is_absent = |number: &u64| !self.file.cache().holds(self.file.key(*number));
        1 + (index + 1..index + wanted.clamp(1, most)).take_while(is_absent).count() as u64
    }

    /// Traces a cached chunk.
    #[cold]
    pub(crate) fn trace_hit(&self, index: u64) {
        trace_event!(
            "Data cache hit: {} at offset {}, {} bytes",
            self.file.name().short(),
            index * self.chunk_length(),
            self.plain_length(index)
        );
    }

    /// Traces that another task reads the chunk already.
    #[cold]
    fn trace_shared(&self, index: u64) {
        trace_event!(
            "Data cache miss: {} at offset {}, waiting for another's read",
            self.file.name().short(),
            index * self.chunk_length()
        );
    }

    /// Reads stored bytes, into `spare` if that is large enough; `why` is the text of the trace
    /// event.
    pub(super) async fn read_stored(
        &self,
        offset: u64,
        length: usize,
        spare: Option<PageBufferMut>,
        why: &str,
    ) -> Result<PageBuffer> {
        let began = trace::is_on().then(Instant::now);
        let stored = self.file.read_exact_reusing(offset, length, spare).await?;
        if let Some(began) = began {
            let (name, time_us) = (self.file.name().short(), began.elapsed().as_micros());
            trace_event!("{why}: {name}, read {length} bytes at offset {offset} in {time_us} µs");
        }
        Ok(stored)
    }

    /// Reads every chunk of the file and checks it, also a chunk without content.
    pub(crate) async fn check_all_chunks(&self) -> Result<()> {
        let count = match &self.layout {
            Layout::Compressed { info, .. } => u64::from(info.chunk_count),
            Layout::Plain { .. } | Layout::Unchecked => self.length.div_ceil(self.chunk_length()),
        };
        let mut ahead = ReadAhead::default();
        for index in 0..count {
            self.chunk_ahead(index, &mut ahead).await?;
            espalier_runtime::maybe_yield().await;
        }
        Ok(())
    }
}

/// Returns the length of the longest stored chunk that the reader accepts, in bytes. No compression
/// algorithm lengthens random bytes as much as this limit allows.
pub(super) fn longest_stored(info: &CompressionInfo) -> u64 {
    2 * u64::from(info.chunk_length) + 65_536
}

/// Reads the head of CompressionInfo.db: first as many bytes as a head without a dictionary may
/// have, and then, if they do not suffice, as many as one with a dictionary may have.
async fn read_head(
    table: &CachedFile,
    features: &VersionFeatures,
) -> Result<(CompressionInfo, u64)> {
    let length = |most: usize| table.length().min(most as u64) as usize;
    let short = table.read_exact(0, length(SHORT_HEAD_LENGTH)).await?;
    match CompressionInfo::read(table.name(), &short, features) {
        Err(_) if table.length() > SHORT_HEAD_LENGTH as u64 => {
            let long = table.read_exact(0, length(MAX_HEAD_LENGTH)).await?;
            CompressionInfo::read(table.name(), &long, features)
        }
        outcome => outcome,
    }
}

fn be64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}
