//! Small files of lines, of which the last one is a checksum of all others: `crc 1a2b3c4d`.

/// The lines and their checksum.
pub(crate) fn with_checksum(lines: String) -> String {
    let crc = crc32fast::hash(lines.as_bytes());
    lines + &format!("crc {crc:08x}\n")
}

/// The lines before the checksum, without the end of the last one, if it is theirs. `text` is without the end of its last line, too.
pub(crate) fn checked_lines(text: &str) -> Option<&str> {
    let (lines, crc) = text.rsplit_once('\n')?;
    let crc = u32::from_str_radix(crc.strip_prefix("crc ")?, 16).ok()?;
    let is_theirs = crc32fast::hash(format!("{lines}\n").as_bytes()) == crc;
    is_theirs.then_some(lines)
}
