//! This module defines the bytes of a commit log segment (docs/formats/commit-log.md), for the
//! writer and the reader.
//!
//! ```text
//! segment  header, records, unused space (zeros, or the earlier bytes of a recycled file)
//! header   "ESPALLOG", version u32, shard u32, shard count u32, segment id u64,
//!          crc32 u32 of the preceding bytes
//! record   length u32 of the body, crc32 u32, body
//! body     kind u8, then
//!   1 marker    magic u64, durable segment u64, durable offset u32
//!   2 columns   mapping number, table id, keyspace, table, columns  (see `columns`)
//!   3 mutation  partition updates                                   (see `encode`)
//! ```
//!
//! Integers are little-endian. The crc of a record starts from the crc of the segment's id, so that
//! earlier bytes of a recycled file do not pass as a record, unless a client made them for that
//! purpose (docs/security.md).
//!
//! **Markers.** Every write buffer begins with a marker: the position up to which the log was
//! durable when the writer wrote the buffer. A segment receives its first record only when its
//! predecessor's last record is durable or has failed, so the segment's first marker names the
//! durable end of the predecessor. From the markers, the replay distinguishes a torn tail (no
//! durable record is missing) from corruption (a durable record is missing).

use crc32fast::Hasher;

use espalier_mutation::LogPosition;

pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const VERSION: u32 = 1;
const HEADER_MAGIC: [u8; 8] = *b"ESPALLOG";

/// Bytes in front of each body: length and checksum.
pub(crate) const RECORD_OVERHEAD: usize = 8;

/// Kind of a record: a marker.
pub const KIND_MARKER: u8 = 1;
/// Kind of a record: a column mapping.
pub const KIND_COLUMNS: u8 = 2;
/// Kind of a record: a mutation.
pub const KIND_MUTATION: u8 = 3;

/// Eight arbitrary bytes that hardly occur by chance; the reader searches for them behind damage.
pub(crate) const MARKER_MAGIC: [u8; 8] = [0xE5, 0xBA, 0x11, 0xE2, 0x10, 0x6D, 0xA2, 0x7C];
pub(crate) const MARKER_BODY_BYTES: usize = 21;
pub(crate) const MARKER_BYTES: usize = RECORD_OVERHEAD + MARKER_BODY_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) shard: u32,
    pub(crate) shard_count: u32,
    pub(crate) id: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&HEADER_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.shard.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.shard_count.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.id.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a header. [`HeaderError::Version`] reports an intact header of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderError> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(HeaderError::Damaged)?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if bytes[..8] != HEADER_MAGIC || word(28) != crc32fast::hash(&bytes[..28]) {
            return Err(HeaderError::Damaged);
        }
        if word(8) != VERSION {
            return Err(HeaderError::Version(word(8)));
        }
        let id = u64::from(word(20)) | u64::from(word(24)) << 32;
        Ok(SegmentHeader { shard: word(12), shard_count: word(16), id })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// Not a header: the file was being created, or is damaged.
    Damaged,
    /// An intact header of another version.
    Version(u32),
}

/// Returns the initial value of the checksums of a segment's records.
pub(crate) fn checksum_seed(segment: u64) -> u32 {
    crc32fast::hash(&segment.to_le_bytes())
}

pub(crate) fn record_checksum(seed: u32, body: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(seed);
    hasher.update(&(body.len() as u32).to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// Appends a record with this body to `out`.
pub(crate) fn put_record(seed: u32, body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&record_checksum(seed, body).to_le_bytes());
    out.extend_from_slice(body);
}

pub(crate) fn marker_body(durable: LogPosition) -> [u8; MARKER_BODY_BYTES] {
    let mut body = [0; MARKER_BODY_BYTES];
    body[0] = KIND_MARKER;
    body[1..9].copy_from_slice(&MARKER_MAGIC);
    body[9..17].copy_from_slice(&durable.segment.to_le_bytes());
    body[17..].copy_from_slice(&durable.offset.to_le_bytes());
    body
}

/// Returns the durable position that a marker reports; `None` if the body is not a marker.
pub(crate) fn decode_marker(body: &[u8]) -> Option<LogPosition> {
    let body: &[u8; MARKER_BODY_BYTES] = body.try_into().ok()?;
    if body[0] != KIND_MARKER || body[1..9] != MARKER_MAGIC {
        return None;
    }
    let segment = u64::from_le_bytes(body[9..17].try_into().ok()?);
    let offset = u32::from_le_bytes(body[17..].try_into().ok()?);
    Some(LogPosition { segment, offset })
}

/// The log that a segment belongs to; part of the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogKind {
    /// Writes to the tables.
    Data,
    /// Writes to the tables of `system_schema`. The replay reads this log first, because it needs
    /// the schema to read the other log.
    Schema,
}

impl LogKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Data => "commitlog",
            Self::Schema => "schemalog",
        }
    }

    /// Returns the file name of a segment: `commitlog-<shard>-<id>.log`.
    pub(crate) fn file_name(self, shard: u32, id: u64) -> String {
        format!("{}-{shard}-{id}.log", self.prefix())
    }

    /// Parses the shard and the id from a segment's file name.
    pub(crate) fn parse_file_name(self, name: &str) -> Option<(u32, u64)> {
        let rest = name.strip_prefix(self.prefix())?.strip_prefix('-')?.strip_suffix(".log")?;
        let (shard, id) = rest.split_once('-')?;
        Some((shard.parse().ok()?, id.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_headers_round_trip() {
        let header = SegmentHeader { shard: 3, shard_count: 8, id: 1 << 40 };
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
        let name = LogKind::Data.file_name(3, 77);
        assert_eq!(name, "commitlog-3-77.log");
        assert_eq!(LogKind::Data.parse_file_name(&name), Some((3, 77)));
        assert_eq!(LogKind::Schema.parse_file_name(&name), None);
    }

    #[test]
    fn any_flipped_bit_of_a_header_is_seen() {
        let good = SegmentHeader { shard: 0, shard_count: 1, id: 7 }.encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&bad), Err(HeaderError::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn records_of_another_segment_do_not_pass() {
        let body = marker_body(LogPosition { segment: 1, offset: 2 });
        assert_ne!(
            record_checksum(checksum_seed(1), &body),
            record_checksum(checksum_seed(2), &body)
        );
        assert_eq!(decode_marker(&body), Some(LogPosition { segment: 1, offset: 2 }));
    }
}
