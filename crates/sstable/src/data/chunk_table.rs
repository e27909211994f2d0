//! Compares the table of chunks (in CompressionInfo.db or CRC.db) with Data.db at the opening.

use super::file::{DataFile, Layout, longest_stored};
use crate::error::{Result, SSTableError};

/// The finding that Data.db has lost its end.
#[derive(Clone, Debug)]
pub(crate) struct Shortfall {
    pub(crate) error: SSTableError,
    /// Position, before compression, of the first chunk that is not wholly in the file.
    pub(crate) begins: u64,
}

/// Number of offsets that are read at once.
const OFFSETS_AT_ONCE: u64 = 8192;

impl DataFile {
    /// Checks the table of chunks. Returns an error if the table is damaged, and a shortfall if the
    /// table is right but Data.db ends too early.
    pub(super) async fn check_table(&self) -> Result<Option<Shortfall>> {
        match &self.layout {
            Layout::Compressed { info, table_start, .. } => {
                let (chunks, start) = (u64::from(info.chunk_count), *table_start);
                let expected = start.saturating_add(chunks.saturating_mul(8));
                if self.table.length() == expected {
                    self.check_offsets(chunks, start, longest_stored(info)).await
                } else {
                    Err(self.other_length(chunks, expected))
                }
            }
            Layout::Plain { chunk_length } => self.check_checksums(u64::from(*chunk_length)).await,
            Layout::Unchecked => Ok(None),
        }
    }

    fn other_length(&self, chunks: u64, expected: u64) -> SSTableError {
        let found = self.table.length();
        let reason = format!("{chunks} chunks make {expected} bytes, the file has {found}");
        SSTableError::corrupt(self.table.name(), found, reason)
    }

    /// Makes the shortfall of a Data.db that must have at least `least` bytes. `says` is the
    /// component that requires them. `lost` is the number of the first chunk that is not wholly in
    /// the file.
    fn too_short(&self, least: u64, says: &str, lost: u64) -> Shortfall {
        let length = self.file.length();
        let reason =
            format!("it is too short: it has {length} bytes, and {says} needs at least {least}");
        let begins = lost.saturating_mul(self.chunk_length());
        Shortfall { error: self.corrupt(length, reason), begins }
    }

    /// Compares the number of checksums in CRC.db with the number of chunks in Data.db. Fewer or
    /// incomplete checksums are an error, and more checksums are a shortfall.
    async fn check_checksums(&self, chunk_length: u64) -> Result<Option<Shortfall>> {
        let chunks = self.length.div_ceil(chunk_length);
        let expected = 4 + 4 * chunks;
        let found = self.table.length();
        if found == expected {
            return Ok(None);
        }
        if found < expected || !found.is_multiple_of(4) {
            return Err(self.other_length(chunks, expected));
        }
        let mut listed = (found - 4) / 4;
        // Cassandra's compactions leave one more checksum: that of an empty chunk, which is 0
        // (docs/formats/compression.md).
        let last = self.table.read_array::<4>(found - 4).await?;
        listed -= u64::from(last == [0; 4]);
        Ok((listed > chunks).then(|| {
            let least = (listed - 1).saturating_mul(chunk_length).saturating_add(1);
            // The last chunk in the file may be cut, and then its checksum does not match.
            self.too_short(least, "CRC.db", chunks.saturating_sub(1))
        }))
    }

    /// Checks that the first offset is 0, that each chunk has room for its checksum, and that no
    /// chunk but the last is too long. Returns a shortfall if Data.db ends before the last chunk.
    async fn check_offsets(
        &self,
        entries: u64,
        start: u64,
        longest: u64,
    ) -> Result<Option<Shortfall>> {
        let length = self.file.length();
        let mut lost = None;
        // The bounds between which the next chunk may begin.
        let (mut least, mut most) = (0, 0);
        let mut entry = 0;
        while entry < entries {
            let at = start + 8 * entry;
            let count = (entries - entry).min(OFFSETS_AT_ONCE);
            let bytes = self.table.read_exact(at, (8 * count) as usize).await?;
            for (number, offset) in (entry..).zip(bytes.as_chunks::<8>().0) {
                let offset = u64::from_be_bytes(*offset);
                if !(least..=most).contains(&offset) {
                    let reason = format!(
                        "chunk {number} begins at {offset} of {}, not between {least} and {most}",
                        self.file.name()
                    );
                    let place = start + 8 * number;
                    return Err(SSTableError::corrupt(self.table.name(), place, reason));
                }
                // The chunk before this one ends at `offset`. If Data.db ends before `offset`, the
                // earlier chunk is lost.
                if offset > length {
                    lost.get_or_insert(number.saturating_sub(1));
                }
                (least, most) = (offset.saturating_add(4), offset.saturating_add(longest));
            }
            entry += count;
        }
        match (entries, length) {
            (0, 1..) => Err(self.corrupt(0, "no chunk is listed in CompressionInfo.db")),
            (1.., length) if length < least => {
                let lost = lost.unwrap_or(entries - 1);
                Ok(Some(self.too_short(least, "CompressionInfo.db", lost)))
            }
            _ => Ok(None),
        }
    }
}
