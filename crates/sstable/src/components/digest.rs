//! Digest.crc32 contains the CRC-32 of all bytes of Data.db as stored, in decimal and without a
//! newline. Format: docs/formats/components.md.

use crate::error::{FileName, Result, SSTableError};

/// Returns the text for a checksum.
pub fn format_digest(checksum: u32) -> String {
    checksum.to_string()
}

/// Parses the checksum in the text. White space around it is accepted.
///
/// # Errors
/// Returns [`SSTableError::Corrupt`] if the text is not a decimal checksum.
pub fn parse_digest(file: &FileName, bytes: &[u8]) -> Result<u32> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        let shown = String::from_utf8_lossy(bytes.get(..32).unwrap_or(bytes)).into_owned();
        SSTableError::corrupt(file, 0, format!("expected a decimal checksum, found '{shown}'"))
    })
}
