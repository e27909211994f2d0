//! The arithmetic of deltas: timestamps, deletion times and TTLs are stored as differences from
//! minima. Format: docs/formats/data.md.

use espalier_types::vint;

use super::input::{DataInput, Decoded};
use crate::{DeletionTime, NO_DELETION_TIME};

/// The range of 32-bit local deletion times. Format: docs/formats/README.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDeletionTimes {
    /// Until 2038; "none" is 7FFFFFFF.
    Signed,
    /// Until 2106; "none" is FFFFFFFF.
    Unsigned,
}

impl LocalDeletionTimes {
    /// Returns the latest second that can be stored.
    pub const fn maximum(self) -> u32 {
        match self {
            Self::Signed => 0x7FFF_FFFE,
            Self::Unsigned => 0xFFFF_FFFD,
        }
    }

    /// Returns the number that a file stores for a second. In files for 31-bit times, seconds that
    /// are too late become the latest.
    #[inline]
    pub const fn stored(self, time: u32) -> u32 {
        match self {
            Self::Signed if time == NO_DELETION_TIME => 0x7FFF_FFFF,
            Self::Signed if time > 0x7FFF_FFFE => 0x7FFF_FFFE,
            _ => time,
        }
    }

    /// Returns the second that a number in a file means. In files for 31-bit times, numbers from
    /// 80000000 (hex) on are the result of an overflow; read without a sign they are the right
    /// seconds.
    #[inline]
    pub const fn meant(self, stored: u32) -> u32 {
        match self {
            Self::Signed if stored == 0x7FFF_FFFF => NO_DELETION_TIME,
            _ => stored,
        }
    }
}

/// The baselines of a file or of a message, which stores timestamps, deletion times and TTLs as
/// differences from them. Differences of timestamps wrap at 64 bits. All others wrap at 32 bits,
/// and their vints are sign-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baselines {
    timestamp: i64,
    local_deletion_time: u32,
    ttl: u32,
    times: LocalDeletionTimes,
}

impl Baselines {
    /// Makes baselines from the minimum write timestamp in µs, second of a deletion, and TTL.
    pub const fn new(
        timestamp: i64,
        local_deletion_time: u32,
        ttl: u32,
        times: LocalDeletionTimes,
    ) -> Self {
        Self { timestamp, local_deletion_time, ttl, times }
    }

    /// Returns the timestamp that a delta encodes.
    #[inline]
    pub fn timestamp(&self, delta: u64) -> i64 {
        self.timestamp.wrapping_add(delta as i64)
    }

    /// Returns the second that a delta encodes.
    #[inline]
    pub fn local_deletion_time(&self, delta: u64) -> u32 {
        self.times.meant(self.local_deletion_time.wrapping_add(delta as u32))
    }

    /// Returns the TTL that a delta encodes.
    #[inline]
    pub fn ttl(&self, delta: u64) -> u32 {
        self.ttl.wrapping_add(delta as u32)
    }

    /// Reads a timestamp.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end inside the number.
    #[inline]
    pub fn read_timestamp(&self, input: &mut DataInput<'_>) -> Decoded<i64> {
        Ok(self.timestamp(input.vint()?))
    }

    /// Reads the second of a deletion or expiry.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end inside the number.
    #[inline]
    pub fn read_local_deletion_time(&self, input: &mut DataInput<'_>) -> Decoded<u32> {
        Ok(self.local_deletion_time(input.vint()?))
    }

    /// Reads a TTL.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end inside the number.
    #[inline]
    pub fn read_ttl(&self, input: &mut DataInput<'_>) -> Decoded<u32> {
        Ok(self.ttl(input.vint()?))
    }

    /// Reads a deletion. It is live if its timestamp says so, whatever the seconds are
    /// (docs/formats/README.md).
    ///
    /// # Errors
    ///
    /// Fails if the bytes end inside a number.
    #[inline]
    pub fn read_deletion(&self, input: &mut DataInput<'_>) -> Decoded<DeletionTime> {
        let timestamp = self.read_timestamp(input)?;
        let local_deletion_time = self.read_local_deletion_time(input)?;
        let deletion = DeletionTime::new(timestamp, local_deletion_time);
        Ok(if deletion.is_live() { DeletionTime::LIVE } else { deletion })
    }

    /// Appends a timestamp.
    #[inline]
    pub fn write_timestamp(&self, timestamp: i64, out: &mut Vec<u8>) {
        vint::write_unsigned(self.timestamp_delta(timestamp), out);
    }

    /// Returns the delta that encodes a timestamp.
    #[inline]
    pub fn timestamp_delta(&self, timestamp: i64) -> u64 {
        timestamp.wrapping_sub(self.timestamp) as u64
    }

    /// Appends the second of a deletion or expiry.
    #[inline]
    pub fn write_local_deletion_time(&self, time: u32, out: &mut Vec<u8>) {
        let delta = self.times.stored(time).wrapping_sub(self.local_deletion_time);
        vint::write_unsigned(delta as i32 as u64, out);
    }

    /// Appends a TTL.
    #[inline]
    pub fn write_ttl(&self, ttl: u32, out: &mut Vec<u8>) {
        vint::write_unsigned(ttl.wrapping_sub(self.ttl) as i32 as u64, out);
    }

    /// Appends a deletion.
    #[inline]
    pub fn write_deletion(&self, deletion: DeletionTime, out: &mut Vec<u8>) {
        self.write_timestamp(deletion.marked_for_delete_at, out);
        self.write_local_deletion_time(deletion.local_deletion_time, out);
    }
}
