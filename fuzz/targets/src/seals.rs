//! Repairs checksums, because a wrong checksum would hide the parsers behind it.

use espalier_sstable::Component;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put_checksum(bytes: &mut [u8], start: usize, end: usize) {
    let Some(checksum) = bytes.get(start..end).map(crc32fast::hash) else { return };
    if let Some(place) = bytes.get_mut(end..end.saturating_add(4)) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Repairs the checksums of Statistics.db, in a version that has them: those of the number of
/// parts, of the table of parts, and of each part.
pub fn seal_statistics(bytes: &mut [u8]) {
    put_checksum(bytes, 0, 4);
    let Some(count) = word(bytes, 0).filter(|count| *count <= 64) else { return };
    let table_end = 8 + 8 * count as usize;
    let Some(table) = bytes.get(8..table_end) else { return };
    // This checksum also covers the number of parts.
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..4]);
    hasher.update(table);
    let checksum = hasher.finalize();
    if let Some(place) = bytes.get_mut(table_end..table_end + 4) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
    let starts = (0..count as usize).filter_map(|part| word(bytes, 8 + 8 * part + 4));
    let mut starts: Vec<_> = starts.map(|start| start as usize).collect();
    starts.sort_unstable();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(bytes.len());
        if let Some(end) = end.checked_sub(4).filter(|end| end >= start) {
            put_checksum(bytes, *start, end);
        }
    }
}

/// Repairs a file that ends with the checksum of all bytes before it: Scylla.db, Checksums.db.
pub fn seal_end(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(4) {
        put_checksum(bytes, 0, end);
    }
}

/// Returns CRC.db for an uncompressed Data.db.
pub fn crc_of(data: &[u8], chunk_length: u32) -> Vec<u8> {
    let mut table = chunk_length.to_be_bytes().to_vec();
    for chunk in data.chunks(chunk_length.max(1) as usize) {
        table.extend(crc32fast::hash(chunk).to_be_bytes());
    }
    table
}

/// Returns Digest.crc32 for a Data.db.
pub fn digest_of(data: &[u8]) -> Vec<u8> {
    espalier_sstable::components::format_digest(crc32fast::hash(data)).into_bytes()
}

/// Repairs the checksums inside of a component. In a compressed Data.db each chunk is followed by
/// its checksum; `offsets` are the starts of the chunks.
pub fn seal(component: &Component, bytes: &mut [u8], offsets: &[u64]) {
    match component {
        Component::Statistics => seal_statistics(bytes),
        Component::Scylla | Component::Checksums => seal_end(bytes),
        Component::Data => {
            let ends = offsets.iter().skip(1).copied().chain([bytes.len() as u64]);
            let chunks: Vec<_> = offsets.iter().copied().zip(ends).collect();
            for (start, end) in chunks {
                let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else {
                    continue;
                };
                if let Some(end) = end.checked_sub(4).filter(|end| *end >= start) {
                    put_checksum(bytes, start, end);
                }
            }
        }
        _ => {}
    }
}
