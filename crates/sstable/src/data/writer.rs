//! Writes Data.db in chunks, with the component that describes them, and computes the digest of the
//! whole.
//!
//! A chunk is compressed directly into the buffer from which it is written.
//!
//! Memory: one uncompressed chunk, and the buffers of two files; Data.db is a [`WriteBehindFile`].

use bytes::BytesMut;
use espalier_mutation::schema::CompressionOptions;
use espalier_runtime::file::{FileSystem, PAGE_BYTES};
use espalier_trie::page::Sink;

use crate::{
    append_file::{AppendFile, WrittenFile},
    components::{Component, Descriptor},
    compression::{CompressionInfo, Compressor, layout::MAX_CHUNK_LENGTH},
    data::file::MAX_PLAIN_CHUNK_LENGTH,
    error::{Result, SSTableError},
    versions::VersionFeatures,
    write_behind::WriteBehindFile,
};

/// The division of Data.db into chunks.
#[derive(Clone, Debug, PartialEq)]
pub enum ChunkFormat {
    /// Compressed chunks, with the options of the table.
    Compressed(CompressionOptions),
    /// Plain chunks, each with a checksum in CRC.db. A read must check whole chunks, so it reads at
    /// least one.
    Plain {
        /// Length of a chunk in bytes.
        chunk_length: u32,
    },
}

impl ChunkFormat {
    /// Plain chunks of one page, so that a look-up reads few bytes that it does not need. Cassandra
    /// writes chunks of 64 KiB, and reads chunks of any length.
    pub const PLAIN: ChunkFormat = ChunkFormat::Plain { chunk_length: 4096 };
}

/// Bytes of a checksum after a chunk.
const CHECKSUM_BYTES: usize = 4;

enum Chunks {
    Compressed { info: CompressionInfo, compressor: Compressor, head_length: usize },
    Plain { chunk_length: usize },
}

/// Data.db being written.
pub(crate) struct DataWriter {
    file: WriteBehindFile,
    /// CompressionInfo.db or CRC.db.
    table: AppendFile,
    chunks: Chunks,
    features: &'static VersionFeatures,
    /// Uncompressed bytes that do not yet fill a chunk.
    pending: Vec<u8>,
    /// Uncompressed bytes in chunks that are written.
    flushed: u64,
    /// Stored bytes without checksums.
    stored: u64,
    digest: crc32fast::Hasher,
}

/// The facts about a Data.db that was written.
pub(crate) struct WrittenData {
    /// Length before compression, in bytes.
    pub(crate) length: u64,
    /// Length of Data.db, in bytes.
    pub(crate) stored_length: u64,
    pub(crate) digest: u32,
    /// Stored length without checksums divided by uncompressed length; −1 for plain chunks.
    pub(crate) compression_ratio: f64,
    /// CompressionInfo.db or CRC.db.
    pub(crate) table: WrittenFile,
}

impl DataWriter {
    pub(crate) async fn create(
        file_system: &FileSystem,
        descriptor: &Descriptor,
        features: &'static VersionFeatures,
        format: &ChunkFormat,
        is_durable: bool,
    ) -> Result<Self> {
        let name = descriptor.name_in_errors(&Component::Data);
        let (chunks, component) = match format {
            ChunkFormat::Plain { chunk_length }
                if !(1..=MAX_PLAIN_CHUNK_LENGTH).contains(chunk_length) =>
            {
                let reason = format!("plain chunks of {chunk_length} bytes");
                return Err(SSTableError::rejected(&name, reason));
            }
            ChunkFormat::Plain { chunk_length } => {
                (Chunks::Plain { chunk_length: *chunk_length as usize }, Component::Crc)
            }
            ChunkFormat::Compressed(options) => {
                let chunks = compressed_chunks(&name, options, features)?;
                (chunks, Component::CompressionInfo)
            }
        };
        let file =
            WriteBehindFile::create(file_system, &descriptor.path(&Component::Data), is_durable)
                .await?;
        let mut table =
            AppendFile::create(file_system, &descriptor.path(&component), is_durable).await?;
        match &chunks {
            Chunks::Plain { chunk_length } => table.append(&(*chunk_length as u32).to_be_bytes()),
            // The head is rewritten at the end, when its content is known; its length is the same.
            Chunks::Compressed { head_length, .. } => table.append(&vec![0; *head_length]),
        }
        Ok(Self {
            file,
            table,
            chunks,
            features,
            pending: Vec::new(),
            flushed: 0,
            stored: 0,
            digest: crc32fast::Hasher::new(),
        })
    }

    /// Returns the number of uncompressed bytes so far.
    pub(crate) fn position(&self) -> u64 {
        self.flushed + self.pending.len() as u64
    }

    /// Returns the buffer to which the caller appends uncompressed bytes, before it calls
    /// [`DataWriter::flush_chunks`].
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Returns the position of the buffer's first byte, the length of the buffer at which the
    /// caller must call [`DataWriter::flush_chunks`], and the buffer, to which the caller appends
    /// uncompressed bytes.
    pub(crate) fn open_chunk(&mut self) -> (u64, usize, &mut Vec<u8>) {
        (self.flushed, self.chunk_length(), &mut self.pending)
    }

    /// Returns whether [`DataWriter::flush_chunks`] would write a chunk.
    #[inline]
    pub(crate) fn has_full_chunk(&self) -> bool {
        self.pending.len() >= self.chunk_length()
    }

    #[inline]
    fn chunk_length(&self) -> usize {
        match &self.chunks {
            Chunks::Compressed { info, .. } => info.chunk_length as usize,
            Chunks::Plain { chunk_length } => *chunk_length,
        }
    }

    /// Writes the chunks that are full.
    #[inline]
    pub(crate) async fn flush_chunks(&mut self) -> Result<()> {
        if !self.has_full_chunk() { Ok(()) } else { self.write_full_chunks().await }
    }

    async fn write_full_chunks(&mut self) -> Result<()> {
        let length = self.chunk_length();
        let mut pending = std::mem::take(&mut self.pending);
        let mut written = 0;
        while let Some(chunk) = pending.get(written..written + length) {
            self.write_chunk(chunk)?;
            written += length;
            self.file.flush_if_large().await?;
            self.table.flush_if_large().await?;
            espalier_runtime::maybe_yield().await;
        }
        pending.drain(..written);
        self.pending = pending;
        Ok(())
    }

    fn write_chunk(&mut self, plain: &[u8]) -> Result<()> {
        self.flushed += plain.len() as u64;
        let (info, compressor) = match &mut self.chunks {
            Chunks::Plain { .. } => {
                self.table.append(&crc32fast::hash(plain).to_be_bytes());
                self.file.append(plain);
                self.digest.update(plain);
                self.stored += plain.len() as u64;
                return Ok(());
            }
            Chunks::Compressed { info, compressor, .. } => (info, *compressor),
        };
        self.table.append(&self.file.position().to_be_bytes());
        let limit = info.max_compressed_length as usize;
        let (digest, stored) = (&mut self.digest, &mut self.stored);
        let most = compressor.maximum_length(plain.len()) + CHECKSUM_BYTES;
        let written = self.file.append_with(most, |out| {
            let mut length = compressor.compress_into(plain, out)?;
            if length >= limit {
                length = store_raw(plain, limit, out).ok_or("a raw chunk has no room")?;
            }
            let (chunk, behind) = out.split_at_mut(length);
            let checksum =
                behind.first_chunk_mut().ok_or("a chunk has no room for its checksum")?;
            *checksum = crc32fast::hash(chunk).to_be_bytes();
            *stored += length as u64;
            length += checksum.len();
            digest.update(&out[..length]);
            Ok::<_, String>(length)
        });
        written.map_err(|reason| SSTableError::rejected(self.file.name(), reason))?;
        info.chunk_count = info.chunk_count.checked_add(1).ok_or_else(|| {
            SSTableError::rejected(self.file.name(), "more chunks than the format can count")
        })?;
        info.data_length = self.flushed;
        Ok(())
    }

    /// Writes the last chunk and, if the files are to be durable, syncs Data.db and the table.
    pub(crate) async fn finish(mut self) -> Result<WrittenData> {
        self.flush_chunks().await?;
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.write_chunk(&pending)?;
        }
        let mut compression_ratio = -1.0;
        if let Chunks::Compressed { info, .. } = &self.chunks {
            compression_ratio = self.stored as f64 / self.flushed as f64;
            let mut head = BytesMut::new();
            info.write(self.features, &mut head);
            self.table.rewrite_start(head.to_vec()).await?;
        }
        let stored_length = self.file.finish().await?;
        let table = self.table.finish().await?;
        let digest = self.digest.finalize();
        Ok(WrittenData { length: self.flushed, stored_length, digest, compression_ratio, table })
    }
}

/// Stores a chunk uncompressed, because compression would make it too long. The reader takes a
/// chunk of at least `limit` bytes for an uncompressed one, so a shorter chunk is padded to
/// `limit`.
fn store_raw(plain: &[u8], limit: usize, out: &mut [u8]) -> Option<usize> {
    let length = plain.len().max(limit);
    let (chunk, padding) = out.get_mut(..length)?.split_at_mut(plain.len());
    chunk.copy_from_slice(plain);
    padding.fill(0);
    Some(length)
}

fn compressed_chunks(
    name: &crate::error::FileName,
    options: &CompressionOptions,
    features: &VersionFeatures,
) -> Result<Chunks> {
    let compressor = Compressor::with_options(name, &options.class, &options.parameters)?;
    // The reader would reject other chunk lengths.
    if !options.chunk_length.is_power_of_two() || options.chunk_length > MAX_CHUNK_LENGTH {
        let reason = format!(
            "chunks of {} bytes: a power of two is needed, at most {MAX_CHUNK_LENGTH}",
            options.chunk_length
        );
        return Err(SSTableError::rejected(name, reason));
    }
    let info = CompressionInfo {
        compressor: compressor.class().into(),
        options: options.parameters.clone(),
        dictionary: Default::default(),
        chunk_length: options.chunk_length,
        max_compressed_length: if features.raw_chunks {
            CompressionInfo::max_compressed_length_for(
                options.chunk_length,
                options.min_compress_ratio,
            )
        } else {
            i32::MAX as u32
        },
        data_length: 0,
        chunk_count: 0,
    };
    let mut head = BytesMut::new();
    info.write(features, &mut head);
    // The head is rewritten at the end, within the first page.
    if head.len() > PAGE_BYTES {
        let reason = format!("compression options of {} bytes", head.len());
        return Err(SSTableError::rejected(name, reason));
    }
    Ok(Chunks::Compressed { info, compressor, head_length: head.len() })
}
