//! Data.db as chunks: compressed ones with their checksums behind them, or plain ones with checksums in CRC.db.
//!
//! A chunk is read whole, its checksum compared, decompressed, and kept in the page cache. Nothing of a chunk is seen
//! whose checksum is wrong. Where chunks lie is read from CompressionInfo.db page by page, not held.

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
        layout::{MAXIMUM_HEAD_LENGTH, SHORT_HEAD_LENGTH},
    },
    data::{chunk_table::Shortfall, read_ahead::ReadAhead},
    error::{Result, SSTableError},
    page_cache::{CachedFile, CachedPage, Caching, PageCache, PageKey, PagesAtHand, Part},
    versions::VersionFeatures,
};

/// The largest chunk of a plain file that is believed.
pub(crate) const MAXIMUM_PLAIN_CHUNK_LENGTH: u32 = 16 * 1024 * 1024;
/// Of data that nothing checks, what is read at once.
const UNCHECKED_CHUNK_LENGTH: u64 = 4096;

#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// Offsets are in `table` from `table_start` on.
    Compressed { info: CompressionInfo, decoder: ChunkDecoder, table_start: u64 },
    /// Checksums are in `table` behind the chunk length.
    Plain { chunk_length: u32 },
    /// Nothing checks the bytes; `table` is the data itself.
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

/// Where a chunk is stored, and the checksum that is stored elsewhere, if it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) offset: u64,
    /// With the checksum behind it.
    pub(super) length: usize,
    checksum: Option<u32>,
}

/// A chunk as stored whose checksum is right: so many bytes of it are what it holds.
enum Checked<'a> {
    /// As it is.
    Plain(usize),
    Compressed(&'a ChunkDecoder, usize),
}

/// The most that a look-up reads beyond the chunk that it wants, when it is known to want more. Two such reads are as much as
/// a block of 64 KiB.
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

    /// The same also if Data.db has lost its end, which is then told beside it. What is not there of it cannot be read.
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
            if chunk_length == 0 || chunk_length > MAXIMUM_PLAIN_CHUNK_LENGTH {
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

    /// The same file for one reader that caches so.
    pub(crate) fn with_caching(&self, caching: Caching) -> Self {
        let Self { file, table, layout, length } = self;
        let (file, table) = (file.with_caching(caching), table.with_caching(caching));
        Self { file, table, layout: layout.clone(), length: *length }
    }

    /// Bytes before compression.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes of Data.db as stored.
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

    /// The chunk whose first byte, before compression, is this one, if it is one's.
    pub(crate) fn chunk_that_begins_at(&self, position: u64) -> Option<u64> {
        let length = self.chunk_length();
        (position.is_multiple_of(length) && position < self.length).then_some(position / length)
    }

    /// Bytes of a chunk before compression.
    pub(crate) fn plain_length(&self, index: u64) -> usize {
        let start = index.saturating_mul(self.chunk_length());
        self.length.saturating_sub(start).min(self.chunk_length()) as usize
    }

    /// Whether there are checksums of its chunks.
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

    /// The error of a chunk that begins at `offset` of the stored data and is not all there.
    pub(super) fn without_end(&self, index: u64, offset: u64) -> SSTableError {
        let length = self.file.length();
        let reason =
            format!("chunk {index} at {offset} is not all there: there are {length} bytes");
        self.corrupt(index.saturating_mul(self.chunk_length()), reason)
    }

    /// Checks a chunk and takes it out of its stored form, for the cache.
    fn open_chunk(&self, index: u64, extent: Extent, stored: PageBuffer) -> Result<CachedPage> {
        let memory = stored.memory_bytes();
        match self.check_chunk(index, &extent, &stored)? {
            Checked::Plain(length) => {
                Ok(CachedPage { bytes: stored.slice(..length).into_bytes(), charge: memory })
            }
            Checked::Compressed(decoder, length) => {
                let mut plain = vec![0; self.plain_length(index)];
                let opened = decoder.decompress_into(&stored[..length], &mut plain);
                opened.map_err(|reason| self.wrong_chunk(index, reason))?;
                Ok(CachedPage { charge: plain.capacity(), bytes: Bytes::from(plain) })
            }
        }
    }

    /// The same for those who have it until they have read it, behind some bytes: in memory that is used again and again, and cleared
    /// but once.
    pub(super) fn open_chunk_behind(
        &self,
        first: &[u8],
        index: u64,
        extent: Extent,
        stored: PageBuffer,
    ) -> Result<Bytes> {
        let checked = self.check_chunk(index, &extent, &stored)?;
        if let (Checked::Plain(length), true) = (&checked, first.is_empty()) {
            return Ok(stored.slice(..*length).into_bytes());
        }
        let mut plain = PageBufferMut::of_anything(first.len() + self.plain_length(index));
        let (before, chunk) = plain.split_at_mut(first.len());
        before.copy_from_slice(first);
        match checked {
            Checked::Plain(length) => chunk.copy_from_slice(&stored[..length]),
            Checked::Compressed(decoder, length) => {
                let opened = decoder.decompress_into(&stored[..length], chunk);
                opened.map_err(|reason| self.wrong_chunk(index, reason))?;
            }
        }
        Ok(plain.freeze().into_bytes())
    }

    fn wrong_chunk(&self, index: u64, reason: String) -> SSTableError {
        self.corrupt(index * self.chunk_length(), format!("chunk {index} {reason}"))
    }

    /// Compares a chunk as stored with its checksum.
    fn check_chunk(&self, index: u64, extent: &Extent, stored: &[u8]) -> Result<Checked<'_>> {
        let plain_length = self.plain_length(index);
        let wrong = |reason: String| self.wrong_chunk(index, reason);
        let check = |body: &[u8], expected: u32| match crc32fast::hash(body) {
            actual if actual == expected => Ok(()),
            actual => Err(wrong(format!(
                "at {} has the checksum {actual:08x}, expected {expected:08x}{}",
                extent.offset,
                self.end_if_last(extent)
            ))),
        };
        let (info, decoder) = match &self.layout {
            Layout::Unchecked => return Ok(Checked::Plain(stored.len())),
            Layout::Plain { .. } => {
                check(stored, extent.checksum.unwrap_or_default())?;
                return Ok(Checked::Plain(stored.len()));
            }
            Layout::Compressed { info, decoder, .. } => (info, decoder),
        };
        let (body, checksum) =
            stored.split_last_chunk::<4>().ok_or_else(|| wrong("has no checksum".into()))?;
        check(body, u32::from_be_bytes(*checksum))?;
        if (body.len() as u64) < u64::from(info.max_compressed_length) {
            return Ok(Checked::Compressed(decoder, body.len()));
        }
        // Stored raw; a short last chunk is padded up to the limit.
        match body.len() < plain_length {
            true => Err(wrong(format!("holds {} bytes, expected {plain_length}", body.len()))),
            false => Ok(Checked::Plain(plain_length)),
        }
    }

    /// Nobody says how long the last chunk is, so that a file without its last bytes looks like one with wrong ones.
    fn end_if_last(&self, extent: &Extent) -> String {
        let length = self.file.length();
        match extent.offset.saturating_add(extent.length as u64) >= length {
            true => format!(
                "; it is the last one: the file may have lost its end, and now has {length} bytes"
            ),
            false => String::new(),
        }
    }

    /// What is in memory now of all files of the cache, and what the look-up itself holds.
    #[inline]
    pub(crate) fn pages_at_hand<'a>(&'a self, held: &'a [(PageKey, Bytes)]) -> PagesAtHand<'a> {
        self.file.cache().at_hand(held)
    }

    /// Whether a page is a chunk of this file.
    pub(crate) fn is_chunk(&self, key: PageKey) -> bool {
        self.file.key(key.page) == key
    }

    /// The chunk with a position of the plain data.
    #[inline]
    pub(crate) fn key_of(&self, position: u64) -> PageKey {
        self.file.key(position / self.chunk_length())
    }

    /// Chunk `index`, which begins at `index * chunk_length` of the plain data, if it is in the cache.
    #[inline]
    pub(crate) fn chunk_at_hand<'p>(
        &self,
        pages: &'p PagesAtHand<'_>,
        index: u64,
    ) -> Option<&'p Bytes> {
        pages.get(self.file.key(index))
    }

    /// The same, from the cache or into it; around it for a private reader. `wanted_end` is the position in the plain data up
    /// to which more is likely to be wanted: what is not there of it is read along, as far as one read should go.
    pub(crate) async fn chunk(&self, index: u64, wanted_end: u64) -> Result<Bytes> {
        let cache = self.file.cache();
        if trace::is_on() {
            match cache.holds(self.file.key(index)) {
                true => self.tell_hit(index),
                false if cache.is_being_read(self.file.key(index)) => self.tell_shared(index),
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

    /// The same for a private reader: what is read along is in `ahead`.
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
                self.tell_hit(index);
            }
            return Ok(bytes);
        }
        let at_once = wanted.min(LOOK_UP_BYTES) as usize;
        let stored = self.stored_by(index, extent, ahead, at_once).await?;
        self.open_chunk_behind(&[], index, extent, stored)
    }

    pub(crate) fn caching(&self) -> Caching {
        self.file.caching()
    }

    /// Whether the chunk that holds a position is in the cache.
    pub(crate) fn is_at_hand(&self, position: u64) -> bool {
        self.file.cache().holds(self.file.key(position / self.chunk_length()))
    }

    /// Reads a chunk, and puts those that were read along into the cache.
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
            // What is wrong with it is for whoever asks for it.
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
            // A fault in what nobody asked for is told to whoever will ask for it.
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

    /// How many chunks one read takes from `index` on.
    fn chunks_to(&self, index: u64, wanted_end: u64) -> u64 {
        let wanted_end = wanted_end.min(self.length);
        let most = (LOOK_UP_BYTES / self.chunk_length()).max(1);
        let wanted = wanted_end.div_ceil(self.chunk_length()).saturating_sub(index);
        let is_absent = |number: &u64| !self.file.cache().holds(self.file.key(*number));
        1 + (index + 1..index + wanted.clamp(1, most)).take_while(is_absent).count() as u64
    }

    /// A chunk is in the cache: for those who trace the request.
    #[cold]
    pub(crate) fn tell_hit(&self, index: u64) {
        trace_event!(
            "Data cache hit: {} at offset {}, {} bytes",
            self.file.name().short(),
            index * self.chunk_length(),
            self.plain_length(index)
        );
    }

    /// Somebody reads a chunk already.
    #[cold]
    fn tell_shared(&self, index: u64) {
        trace_event!(
            "Data cache miss: {} at offset {}, waiting for another's read",
            self.file.name().short(),
            index * self.chunk_length()
        );
    }

    /// Reads stored bytes, into `spare` if that is large enough; `why` is for traces.
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

    /// Reads every chunk there is and checks it, also one that holds nothing.
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

/// The most that a chunk takes as stored. Generous: no algorithm makes random bytes that much longer.
pub(super) fn longest_stored(info: &CompressionInfo) -> u64 {
    2 * u64::from(info.chunk_length) + 65_536
}

/// The head of CompressionInfo.db; more is read only for a dictionary.
async fn read_head(
    table: &CachedFile,
    features: &VersionFeatures,
) -> Result<(CompressionInfo, u64)> {
    let length = |most: usize| table.length().min(most as u64) as usize;
    let short = table.read_exact(0, length(SHORT_HEAD_LENGTH)).await?;
    match CompressionInfo::read(table.name(), &short, features) {
        Err(_) if table.length() > SHORT_HEAD_LENGTH as u64 => {
            let long = table.read_exact(0, length(MAXIMUM_HEAD_LENGTH)).await?;
            CompressionInfo::read(table.name(), &long, features)
        }
        outcome => outcome,
    }
}

fn be64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}
