//! This module appends and verifies the checksum of a small text file: the last line, for example
//! `crc 1a2b3c4d`, is the CRC-32 of all other lines.

/// Appends the checksum line.
pub fn with_checksum(lines: String) -> String {
    let crc = crc32fast::hash(lines.as_bytes());
    lines + &format!("crc {crc:08x}\n")
}

/// Returns the lines before the checksum without the last line end, or `None` if the checksum is
/// missing or wrong. The last line of `text` must not have a line end either.
pub fn checked_lines(text: &str) -> Option<&str> {
    let (lines, crc) = text.rsplit_once('\n')?;
    let crc = u32::from_str_radix(crc.strip_prefix("crc ")?, 16).ok()?;
    let is_theirs = crc32fast::hash(format!("{lines}\n").as_bytes()) == crc;
    is_theirs.then_some(lines)
}
