//! Flags of rows and cells, and the arithmetic of deltas. Format: docs/formats/data.md.

use espalier_mutation::DeletionTime;
use espalier_types::vint;

use super::input::{DataInput, Decoded};
use crate::{statistics::SerializationHeader, versions::LocalDeletionTimes};

pub(crate) const END_OF_PARTITION: u8 = 0x01;
pub(crate) const IS_MARKER: u8 = 0x02;
pub(crate) const HAS_TIMESTAMP: u8 = 0x04;
pub(crate) const HAS_TTL: u8 = 0x08;
pub(crate) const HAS_DELETION: u8 = 0x10;
pub(crate) const HAS_ALL_COLUMNS: u8 = 0x20;
pub(crate) const HAS_COMPLEX_DELETION: u8 = 0x40;
pub(crate) const EXTENSION: u8 = 0x80;

pub(crate) const EXTENDED_STATIC: u8 = 0x01;
/// Cassandra: the row deletion is shadowable.
pub(crate) const EXTENDED_SHADOWABLE: u8 = 0x02;
/// ScyllaDB: a shadowable deletion follows the row deletion, or stands in its place.
pub(crate) const EXTENDED_SHADOWABLE_FOLLOWS: u8 = 0x80;

pub(crate) const CELL_DELETED: u8 = 0x01;
pub(crate) const CELL_EXPIRING: u8 = 0x02;
pub(crate) const CELL_EMPTY: u8 = 0x04;
pub(crate) const CELL_ROW_TIMESTAMP: u8 = 0x08;
pub(crate) const CELL_ROW_TTL: u8 = 0x10;
pub(crate) const CELL_FLAGS: u8 = 0x1F;

/// The baselines of a file, which stores timestamps, deletion times and TTLs as differences from
/// them. Differences of timestamps wrap at 64 bits. All others wrap at 32 bits, and their vints are
/// sign-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Baselines {
    timestamp: i64,
    local_deletion_time: u32,
    ttl: u32,
    times: LocalDeletionTimes,
}

impl Baselines {
    pub(crate) fn of(header: &SerializationHeader, times: LocalDeletionTimes) -> Self {
        Self {
            timestamp: header.min_timestamp,
            local_deletion_time: header.min_local_deletion_time,
            ttl: header.min_ttl,
            times,
        }
    }

    #[inline]
    pub(crate) fn timestamp(&self, delta: u64) -> i64 {
        self.timestamp.wrapping_add(delta as i64)
    }

    #[inline]
    pub(crate) fn local_deletion_time(&self, delta: u64) -> u32 {
        self.times.meant(self.local_deletion_time.wrapping_add(delta as u32))
    }

    #[inline]
    pub(crate) fn ttl(&self, delta: u64) -> u32 {
        self.ttl.wrapping_add(delta as u32)
    }

    #[inline]
    pub(crate) fn read_timestamp(&self, input: &mut DataInput<'_>) -> Decoded<i64> {
        Ok(self.timestamp(input.vint()?))
    }

    #[inline]
    pub(crate) fn read_local_deletion_time(&self, input: &mut DataInput<'_>) -> Decoded<u32> {
        Ok(self.local_deletion_time(input.vint()?))
    }

    #[inline]
    pub(crate) fn read_ttl(&self, input: &mut DataInput<'_>) -> Decoded<u32> {
        Ok(self.ttl(input.vint()?))
    }

    /// Reads a deletion. It is live if its timestamp says so, whatever the seconds are
    /// (docs/formats/README.md).
    pub(crate) fn read_deletion(&self, input: &mut DataInput<'_>) -> Decoded<DeletionTime> {
        let timestamp = self.read_timestamp(input)?;
        let local_deletion_time = self.read_local_deletion_time(input)?;
        let deletion = DeletionTime::new(timestamp, local_deletion_time);
        Ok(if deletion.is_live() { DeletionTime::LIVE } else { deletion })
    }

    #[inline]
    pub(crate) fn write_timestamp(&self, timestamp: i64, out: &mut Vec<u8>) {
        vint::write_unsigned(self.timestamp_delta(timestamp), out);
    }

    /// Returns the delta that encodes a timestamp.
    #[inline]
    pub(crate) fn timestamp_delta(&self, timestamp: i64) -> u64 {
        timestamp.wrapping_sub(self.timestamp) as u64
    }

    #[inline]
    pub(crate) fn write_local_deletion_time(&self, time: u32, out: &mut Vec<u8>) {
        let delta = self.times.stored(time).wrapping_sub(self.local_deletion_time);
        vint::write_unsigned(delta as i32 as u64, out);
    }

    #[inline]
    pub(crate) fn write_ttl(&self, ttl: u32, out: &mut Vec<u8>) {
        vint::write_unsigned(ttl.wrapping_sub(self.ttl) as i32 as u64, out);
    }

    pub(crate) fn write_deletion(&self, deletion: DeletionTime, out: &mut Vec<u8>) {
        self.write_timestamp(deletion.marked_for_delete_at, out);
        self.write_local_deletion_time(deletion.local_deletion_time, out);
    }
}
