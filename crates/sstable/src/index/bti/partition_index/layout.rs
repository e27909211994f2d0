//! This module encodes and decodes the bytes of Partitions.db outside the trie's nodes: payload and
//! footer.

use espalier_trie::page::Node;

use super::super::error::{IndexWriteError, MalformedIndex};

/// Length of the footer's fixed part in bytes: position of the first key, number of keys, position
/// of the root.
pub(super) const FOOTER_SIZE: usize = 3 * 8;

/// Maximum length of a serialized partition key in bytes.
pub(super) const MAX_KEY_SIZE: usize = u16::MAX as usize;

/// The payload bit that is set if a hash byte comes first. The other three bits are the length of
/// the position, less 1 if there is a hash byte.
const HASH_BYTE_FLAG: u8 = 8;

/// Location of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexPosition {
    /// Position in Rows.db of the partition's entry: the partition has a row index.
    RowIndex(u64),
    /// Position in Data.db, in uncompressed bytes, at which the partition begins: it has no row
    /// index.
    Data(u64),
}

impl IndexPosition {
    /// Converts to the signed form. A position in Rows.db is not negative. A position in Data.db is
    /// stored as its complement, which is negative.
    fn to_signed(self) -> Result<i64, IndexWriteError> {
        let (IndexPosition::RowIndex(position) | IndexPosition::Data(position)) = self;
        let signed =
            i64::try_from(position).map_err(|_| IndexWriteError::PositionTooLarge { position })?;
        Ok(match self {
            IndexPosition::RowIndex(_) => signed,
            IndexPosition::Data(_) => !signed,
        })
    }

    fn of_signed(signed: i64) -> IndexPosition {
        match u64::try_from(signed) {
            Ok(position) => IndexPosition::RowIndex(position),
            Err(_) => IndexPosition::Data(!signed as u64),
        }
    }
}

/// The payload of a key that may be the wanted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Low byte of the second half of the key's Murmur3 hash. The format allows it to be absent.
    pub hash_byte: Option<u8>,
    /// Location of the partition.
    pub position: IndexPosition,
}

impl Candidate {
    /// Decodes the payload of a node. Returns `None` if it is malformed.
    pub fn at(node: &Node<'_>) -> Option<Self> {
        decode_payload(node).ok()
    }

    /// Returns the location of the partition, if the candidate can be a key with this hash byte.
    #[inline]
    pub(super) fn position_if(self, hash_byte: u8) -> Option<IndexPosition> {
        self.hash_byte.is_none_or(|other| other == hash_byte).then_some(self.position)
    }
}

/// Encodes a payload. Returns its bits, its bytes and the number of bytes.
pub(super) fn encode_payload(
    hash_byte: u8,
    position: IndexPosition,
) -> Result<(u8, [u8; 9], usize), IndexWriteError> {
    let signed = position.to_signed()?;
    let significant_bits = 64 - (signed ^ (signed >> 63)).leading_zeros() as usize;
    // The sign takes one more bit.
    let size = significant_bits / 8 + 1;
    let mut payload = [0; 9];
    payload[0] = hash_byte;
    // The shift moves the bytes of the position to the front, so that the copy has a fixed length.
    payload[1..].copy_from_slice(&(signed << (64 - 8 * size)).to_be_bytes());
    Ok((HASH_BYTE_FLAG + (size as u8 - 1), payload, 1 + size))
}

/// Returns the length in bytes of a payload with these bits.
pub(in crate::index::bti) fn payload_size(bits: u8) -> usize {
    match bits.checked_sub(HASH_BYTE_FLAG) {
        Some(size) => usize::from(size) + 2,
        None => usize::from(bits),
    }
}

pub(in crate::index::bti) fn decode_payload(node: &Node<'_>) -> Result<Candidate, MalformedIndex> {
    let bits = node.payload_bits();
    let (hash_byte, position) = if bits >= HASH_BYTE_FLAG {
        let size = usize::from(bits - HASH_BYTE_FLAG) + 1;
        (node.payload().first(), node.payload().get(1..1 + size))
    } else {
        (None, node.payload().get(..usize::from(bits)))
    };
    let position = position.filter(|position| !position.is_empty()).ok_or(MalformedIndex {
        position: node.position(),
        reason: "a payload does not fit in its page",
    })?;
    let negative = position[0] >= 0x80;
    let signed = position
        .iter()
        .fold(if negative { -1 } else { 0 }, |signed: i64, &byte| signed << 8 | i64::from(byte));
    Ok(Candidate { hash_byte: hash_byte.copied(), position: IndexPosition::of_signed(signed) })
}

/// The part of the file after the trie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The first partition's key, serialized.
    pub first_key: Vec<u8>,
    /// The last partition's key, serialized.
    pub last_key: Vec<u8>,
    /// Number of partitions, at least 1.
    pub key_count: u64,
    /// Position of the trie's root.
    pub root: u64,
}

/// The fixed part of the footer.
pub(super) struct FixedFooter {
    pub first_key_position: u64,
    pub key_count: u64,
    pub root: u64,
}

impl FixedFooter {
    /// Decodes the footer from the last bytes of a file of `file_size` bytes.
    pub fn decode(
        bytes: &[u8; FOOTER_SIZE],
        file_size: u64,
    ) -> Result<FixedFooter, MalformedIndex> {
        let field = |index: usize| {
            bytes
                .iter()
                .skip(index * 8)
                .take(8)
                .fold(0, |value, &byte| value << 8 | u64::from(byte))
        };
        let footer =
            FixedFooter { first_key_position: field(0), key_count: field(1), root: field(2) };
        let position = file_size.saturating_sub(FOOTER_SIZE as u64);
        let malformed = |reason| MalformedIndex { position, reason };
        let keys_size = position
            .checked_sub(footer.first_key_position)
            .ok_or(malformed("the footer places the first key after itself"))?;
        if keys_size > 2 * (2 + MAX_KEY_SIZE as u64) {
            return Err(malformed("the footer places the first key too far before itself"));
        }
        if footer.root >= footer.first_key_position {
            return Err(malformed("the footer places the root after the first key"));
        }
        if footer.key_count == 0 {
            return Err(malformed("the footer counts no keys"));
        }
        Ok(footer)
    }

    /// Adds the first and the last key, which must fill the space between the trie and the footer.
    pub fn with_keys(self, keys: &[u8]) -> Result<Footer, MalformedIndex> {
        let malformed = |reason| MalformedIndex { position: self.first_key_position, reason };
        let mut rest = keys;
        let mut key = || {
            let (length, behind) = rest.split_first_chunk::<2>()?;
            let (key, behind) = behind.split_at_checked(u16::from_be_bytes(*length).into())?;
            rest = behind;
            Some(key.to_vec())
        };
        let first_key = key().ok_or(malformed("the first key is cut off"))?;
        let last_key = key().ok_or(malformed("the last key is cut off"))?;
        if !rest.is_empty() {
            return Err(malformed("there are bytes between the last key and the footer"));
        }
        Ok(Footer { first_key, last_key, key_count: self.key_count, root: self.root })
    }
}

/// Appends the keys and the footer. The first key begins at `position`.
pub(super) fn encode_footer(footer: &Footer, position: u64, output: &mut Vec<u8>) {
    for key in [&footer.first_key, &footer.last_key] {
        output.extend_from_slice(&(key.len() as u16).to_be_bytes());
        output.extend_from_slice(key);
    }
    for field in [position, footer.key_count, footer.root] {
        output.extend_from_slice(&field.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_all_sizes_come_back() {
        let mut positions = vec![0, 1, 0x7F, 0x80, 0xFF, i64::MAX as u64];
        for bits in 7..63 {
            positions.extend([(1 << bits) - 1, 1 << bits]);
        }
        for position in positions {
            for position in [IndexPosition::RowIndex(position), IndexPosition::Data(position)] {
                let (bits, bytes, size) = encode_payload(0xE6, position).unwrap();
                let mut page = vec![bits];
                page.extend_from_slice(&bytes[..size]);
                let candidate = decode_payload(&Node::at(&page, 0).unwrap()).unwrap();
                assert_eq!(candidate, Candidate { hash_byte: Some(0xE6), position });
                page.pop();
                assert!(decode_payload(&Node::at(&page, 0).unwrap()).is_err());
            }
        }
        let too_large = IndexPosition::Data(1 << 63);
        assert!(encode_payload(0, too_large).is_err());
    }

    #[test]
    fn known_payloads() {
        // This is the worked example of the format: offset 0 in Data.db.
        let (bits, bytes, size) = encode_payload(0xE6, IndexPosition::Data(0)).unwrap();
        assert_eq!((bits, &bytes[..size]), (8, &[0xE6, 0xFF][..]));
        // This payload has no hash byte, as the format allows.
        let node = [2, 0x01, 0x00];
        let candidate = decode_payload(&Node::at(&node, 0).unwrap()).unwrap();
        let position = IndexPosition::RowIndex(256);
        assert_eq!(candidate, Candidate { hash_byte: None, position });
    }
}
