//! Walks Data.db by the text of the format, as far as a row index needs it: positions, ends and
//! open deletions.

use bytes::Bytes;
use espalier_mutation::{BoundKind, DeletionTime};
use espalier_sstable::{
    index::big::promoted_index::{BlockPosition, PositionKind},
    statistics::SerializationHeader,
    versions::DeletionTimeForm,
};
use espalier_types::{CqlType, vint};

/// A row or marker.
pub struct WalkedUnfiltered {
    pub position: BlockPosition,
    /// Offset of the first byte from the start of the partition. `end` is the offset after the last
    /// byte.
    pub start: u64,
    pub end: u64,
    /// The range deletion that is open after it.
    pub open: DeletionTime,
}

pub struct WalkedPartition {
    pub deletion: DeletionTime,
    pub unfiltereds: Vec<WalkedUnfiltered>,
    /// The offset of the byte that ends the partition.
    pub end_offset: u64,
}

struct Walk<'a> {
    data: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn bytes(&mut self, length: usize) -> &[u8] {
        self.at += length;
        &self.data[self.at - length..self.at]
    }

    fn number(&mut self, length: usize) -> u64 {
        self.bytes(length).iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    fn vint(&mut self) -> u64 {
        let mut rest = &self.data[self.at..];
        let value = vint::read_unsigned(&mut rest).unwrap();
        self.at = self.data.len() - rest.len();
        value
    }

    fn deletion(&mut self, form: DeletionTimeForm) -> DeletionTime {
        match form {
            DeletionTimeForm::Unsigned if self.data[self.at] == 0x80 => {
                self.at += 1;
                DeletionTime::LIVE
            }
            DeletionTimeForm::Unsigned => {
                let timestamp = self.number(8) as i64;
                DeletionTime::new(timestamp, self.number(4) as u32)
            }
            DeletionTimeForm::Legacy => {
                let seconds = self.number(4) as u32;
                match self.number(8) as i64 {
                    i64::MIN => DeletionTime::LIVE,
                    timestamp => DeletionTime::new(timestamp, seconds),
                }
            }
        }
    }

    fn deletion_of_deltas(&mut self, header: &SerializationHeader) -> DeletionTime {
        let timestamp = header.min_timestamp.wrapping_add(self.vint() as i64);
        let seconds = header.min_local_deletion_time.wrapping_add(self.vint() as u32);
        DeletionTime::new(timestamp, seconds)
    }

    fn values(&mut self, types: &[(CqlType, bool)]) -> Box<[Option<Bytes>]> {
        let mut values = Vec::new();
        for group in types.chunks(32) {
            let bits = self.vint();
            for (index, (column_type, _)) in group.iter().enumerate() {
                values.push(match bits >> (2 * index) & 3 {
                    0 => {
                        let length = match column_type.fixed_length() {
                            Some(length) => length,
                            None => self.vint() as usize,
                        };
                        Some(Bytes::copy_from_slice(self.bytes(length)))
                    }
                    1 => Some(Bytes::new()),
                    _ => None,
                });
            }
        }
        values.into()
    }
}

/// Walks the partition at `position` of the uncompressed data.
pub fn walk_partition(
    data: &[u8],
    position: u64,
    header: &SerializationHeader,
    form: DeletionTimeForm,
) -> WalkedPartition {
    let base = position as usize;
    let mut walk = Walk { data, at: base };
    let key_length = walk.number(2) as usize;
    walk.bytes(key_length);
    let deletion = walk.deletion(form);
    let types = &header.clustering_types;
    let mut open = DeletionTime::LIVE;
    let mut unfiltereds = Vec::new();
    loop {
        let start = walk.at - base;
        let flags = walk.number(1) as u8;
        if flags == 1 {
            return WalkedPartition { deletion, unfiltereds, end_offset: start as u64 };
        }
        let is_static = flags & 0x80 != 0 && walk.number(1) & 1 != 0;
        let marker = (flags == 2).then(|| {
            let kind = BoundKind::from_number(walk.number(1) as u8).unwrap();
            (kind, walk.number(2) as usize)
        });
        let values = match marker {
            Some((_, count)) => walk.values(&types[..count]),
            None if is_static => Box::default(),
            None => walk.values(types),
        };
        let length = walk.vint() as usize;
        let end = walk.at + length;
        let kind = match marker {
            None => PositionKind::Row,
            Some((kind, _)) => {
                walk.vint();
                if kind.is_boundary() {
                    walk.deletion_of_deltas(header);
                }
                let deletion = walk.deletion_of_deltas(header);
                open = if kind.is_start() { deletion } else { DeletionTime::LIVE };
                PositionKind::Bound(kind)
            }
        };
        walk.at = end;
        if !is_static {
            unfiltereds.push(WalkedUnfiltered {
                position: BlockPosition { kind, values },
                start: start as u64,
                end: (end - base) as u64,
                open,
            });
        }
    }
}
