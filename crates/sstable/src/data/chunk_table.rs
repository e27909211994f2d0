//! The table of chunks against Data.db, when both are opened.

use super::file::{DataFile, Layout, longest_stored};
use crate::error::{Result, SSTableError};

/// Offsets are checked in pieces of so many.
const OFFSETS_AT_ONCE: u64 = 8192;

impl DataFile {
    /// An error if the table is not what it should be; what is told if it is, but Data.db ends too early for it.
    pub(super) async fn check_table(&self) -> Result<Option<SSTableError>> {
        match &self.layout {
            Layout::Compressed { info, table_start, .. } => {
                let (chunks, start) = (u64::from(info.chunk_count), *table_start);
                let expected = start.saturating_add(chunks.saturating_mul(8));
                match self.table.length() == expected {
                    true => self.check_offsets(chunks, start, longest_stored(info)).await,
                    false => Err(self.other_length(chunks, expected)),
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

    /// Data.db without its end; `least`: it must have more bytes than that, as `says` knows.
    fn too_short(&self, least: u64, says: &str) -> SSTableError {
        let length = self.file.length();
        let reason = format!("it is too short: it has {length} bytes, and {says} {least}");
        self.corrupt(length, reason)
    }

    /// As many checksums as Data.db has chunks.
    async fn check_checksums(&self, chunk_length: u64) -> Result<Option<SSTableError>> {
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
        // Compactions of Cassandra leave one more checksum, of nothing (reference 24-2).
        let last = self.table.read_array::<4>(found - 4).await?;
        listed -= u64::from(last == [0; 4]);
        Ok((listed > chunks).then(|| {
            let least = (listed - 1).saturating_mul(chunk_length);
            self.too_short(least, "CRC.db has checksums of more than")
        }))
    }

    /// Offsets begin with 0 and leave room for each chunk's checksum.
    async fn check_offsets(
        &self,
        entries: u64,
        start: u64,
        longest: u64,
    ) -> Result<Option<SSTableError>> {
        // Where the next chunk may begin.
        let (mut least, mut most) = (0, 0);
        let mut last = 0;
        let mut entry = 0;
        while entry < entries {
            let at = start + 8 * entry;
            let count = (entries - entry).min(OFFSETS_AT_ONCE);
            let bytes = self.table.read_exact(at, (8 * count) as usize).await?;
            for (index, offset) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let offset = u64::from_be_bytes(*offset);
                if !(least..=most).contains(&offset) {
                    let reason = format!(
                        "chunk {} cannot begin at {offset} of {}, but from {least} to {most}",
                        entry + index as u64,
                        self.file.name()
                    );
                    let place = at + 8 * index as u64;
                    return Err(SSTableError::corrupt(self.table.name(), place, reason));
                }
                last = offset;
                (least, most) = (offset.saturating_add(4), offset.saturating_add(longest));
            }
            entry += count;
        }
        match (entries, self.file.length()) {
            (0, 1..) => Err(self.corrupt(0, "no chunk is listed in CompressionInfo.db")),
            (1.., length) if length < least => {
                Ok(Some(self.too_short(last, "CompressionInfo.db has a chunk that begins at")))
            }
            _ => Ok(None),
        }
    }
}
