//! This module defines where the bytes of an index come from: the page cache and a file, or memory.

use std::future::{Future, ready};

use bytes::{Bytes, BytesMut};
use espalier_runtime::{file::PAGE_BYTES, time::Instant, trace, trace_event};

use crate::{
    error::{FileName, Result, SSTableError},
    page_cache::{CachedFile, CachedPage, Caching},
};

/// The bits of a page number that hold the interval of the summary.
const INTERVAL_BITS: u64 = (1 << 40) - 1;

/// A file that look-ups read by pages and scans read in large pieces, from front to back.
///
/// Dispatch is static, as in [`PageSource`](espalier_trie::page::PageSource): if a page is
/// resident, a look-up costs no more than a plain function call.
pub trait IndexFile {
    /// Returns the name of the file, for errors.
    fn name(&self) -> &FileName;

    /// Returns the length of the file in bytes.
    fn length(&self) -> u64;

    /// Returns the page of 4 KiB with this number. The file's last page may be shorter, and a page
    /// after the end is empty.
    fn page(&self, number: u64) -> impl Future<Output = Result<Bytes>>;

    /// Reads a piece of the file and adds nothing to the cache. The piece must lie inside the file.
    fn piece(&self, offset: u64, length: usize) -> impl Future<Output = Result<Bytes>>;

    /// Returns the page that `make` builds from a part of the file. If an earlier result is cached
    /// under the number, returns it without calling `make`.
    fn made<M: Future<Output = Result<Bytes>>>(
        &self,
        _number: u64,
        make: impl FnOnce() -> M,
    ) -> impl Future<Output = Result<Bytes>> {
        make()
    }
}

impl<F: IndexFile> IndexFile for &F {
    fn name(&self) -> &FileName {
        F::name(self)
    }

    fn length(&self) -> u64 {
        F::length(self)
    }

    fn page(&self, number: u64) -> impl Future<Output = Result<Bytes>> {
        F::page(self, number)
    }

    fn piece(&self, offset: u64, length: usize) -> impl Future<Output = Result<Bytes>> {
        F::piece(self, offset, length)
    }

    fn made<M: Future<Output = Result<Bytes>>>(
        &self,
        number: u64,
        make: impl FnOnce() -> M,
    ) -> impl Future<Output = Result<Bytes>> {
        F::made(self, number, make)
    }
}

impl IndexFile for CachedFile {
    fn name(&self) -> &FileName {
        CachedFile::name(self)
    }

    fn length(&self) -> u64 {
        CachedFile::length(self)
    }

    async fn page(&self, number: u64) -> Result<Bytes> {
        CachedFile::page(self, number).await
    }

    async fn piece(&self, offset: u64, length: usize) -> Result<Bytes> {
        let began = trace::is_on().then(Instant::now);
        let bytes = self.read_checked(offset, length).await?;
        if let Some(began) = began {
            let (name, time_us) = (self.name().short(), began.elapsed().as_micros());
            trace_event!(
                "Reading an interval: {name}, {length} bytes wanted at offset {offset}, in {time_us} µs"
            );
        }
        Ok(bytes)
    }

    async fn made<M: Future<Output = Result<Bytes>>>(
        &self,
        number: u64,
        make: impl FnOnce() -> M,
    ) -> Result<Bytes> {
        let key = self.made_key(number);
        if trace::is_on() {
            let (interval, name) = (number & INTERVAL_BITS, self.name().short());
            let outcome = if self.cache().holds(key) {
                "hit"
            } else if self.cache().is_being_read(key) {
                "miss, read by another"
            } else {
                "miss"
            };
            trace_event!("Page cache {outcome}: interval {interval} of {name}");
        }
        match self.caching() {
            Caching::Shared => {
                let make = || async move {
                    let bytes = make().await?;
                    Ok(CachedPage { charge: bytes.len(), bytes })
                };
                self.cache().get_or_read(key, make).await
            }
            Caching::Private => match self.cache().peek(key) {
                Some(bytes) => Ok(bytes),
                None => make().await,
            },
        }
    }
}

/// A whole file in memory.
#[derive(Clone, Debug)]
pub struct MemoryFile {
    name: FileName,
    bytes: Bytes,
}

impl MemoryFile {
    /// Creates a file with these bytes.
    pub fn new(name: FileName, bytes: Bytes) -> Self {
        Self { name, bytes }
    }
}

impl IndexFile for MemoryFile {
    fn name(&self) -> &FileName {
        &self.name
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn page(&self, number: u64) -> impl Future<Output = Result<Bytes>> {
        let start = usize::try_from(number).ok().and_then(|page| page.checked_mul(PAGE_BYTES));
        let start = start.unwrap_or(usize::MAX).min(self.bytes.len());
        let end = start.saturating_add(PAGE_BYTES).min(self.bytes.len());
        ready(Ok(self.bytes.slice(start..end)))
    }

    fn piece(&self, offset: u64, length: usize) -> impl Future<Output = Result<Bytes>> {
        ready(check_inside(self, offset, length).map(|()| {
            let start = offset as usize;
            self.bytes.slice(start..start + length)
        }))
    }
}

fn check_inside<F: IndexFile>(file: &F, offset: u64, length: usize) -> Result<()> {
    match offset.checked_add(length as u64) {
        Some(end) if end <= file.length() => Ok(()),
        _ => {
            let reason = format!("{length} bytes are wanted, the file has {}", file.length());
            Err(SSTableError::corrupt(file.name(), offset, reason))
        }
    }
}

/// Reads `length` bytes at `offset` by pages. The result is a slice of one page, or a copy that
/// joins several pages. Memory is allocated only after the check that the file has that many bytes.
pub(super) async fn read_span<F: IndexFile>(file: &F, offset: u64, length: usize) -> Result<Bytes> {
    check_inside(file, offset, length)?;
    let page_bytes = PAGE_BYTES as u64;
    let (first, within) = (offset / page_bytes, (offset % page_bytes) as usize);
    let page = file.page(first).await?;
    if let Some(end) = within.checked_add(length).filter(|end| *end <= page.len()) {
        return Ok(page.slice(within..end));
    }
    let mut bytes = BytesMut::with_capacity(length);
    bytes.extend_from_slice(page.get(within..).unwrap_or_default());
    for number in first + 1.. {
        let missing = length.saturating_sub(bytes.len());
        if missing == 0 {
            break;
        }
        let page = file.page(number).await?;
        if page.is_empty() {
            return Err(SSTableError::corrupt(file.name(), offset, "the file became shorter"));
        }
        bytes.extend_from_slice(page.get(..missing).unwrap_or(&page));
        espalier_runtime::maybe_yield().await;
    }
    Ok(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use espalier_mutation::DecoratedKey;
    use espalier_runtime::file::FileSystem;

    use super::{
        super::{BigIndex, partition_index::PartitionIndexWriter, summary::SummaryBuilder},
        *,
    };
    use crate::{
        append_file::AppendFile,
        page_cache::{PageCache, Part},
    };

    /// Writes an index with an [`AppendFile`], and reads it through a page cache that has room for
    /// a tenth of it.
    #[test]
    fn an_index_on_disk() {
        espalier_runtime::block_on(async {
            let file_system = FileSystem::simulated(1);
            let path = Path::new("/oa-1-big-Index.db");
            let mut keys: Vec<_> = (0..20_000_u32)
                .map(|number| DecoratedKey::new(Bytes::from(number.to_be_bytes().repeat(5))))
                .collect();
            keys.sort();
            let mut file = AppendFile::create(&file_system, path, true).await.unwrap();
            let mut writer = PartitionIndexWriter::new();
            let mut builder = SummaryBuilder::new(128);
            for (number, key) in keys.iter().enumerate() {
                let data_position = number as u64 * 9;
                let position = writer.append(&mut file, &key.key, data_position, None).unwrap();
                builder.add(&key.key, position);
                file.flush_if_large().await.unwrap();
            }
            let length = file.finish().await.unwrap().length;
            let summary = Bytes::from(builder.finish());
            let name = FileName::new(Path::new("/oa-1-big-Summary.db"));

            let cache = PageCache::new(length as usize / 10);
            let file =
                CachedFile::open(&file_system, path, Part::Index, &cache, None).await.unwrap();
            let index = BigIndex::open(file, Some((&name, &summary)), 180_000, 128).await.unwrap();
            assert!(index.summary_fault().is_none());
            for (number, key) in keys.iter().enumerate().step_by(97) {
                let entry = index.exact(index.file(), key).await.unwrap().unwrap();
                assert_eq!(entry.data_position, number as u64 * 9);
            }
            let misses = cache.metrics().misses;
            let mut entries = index.entries();
            for key in &keys {
                assert_eq!(entries.next().await.unwrap().unwrap().key, *key);
            }
            assert_eq!(entries.next().await.unwrap(), None);
            assert_eq!(cache.metrics().misses, misses, "a walk goes around the cache");
        });
    }
}
