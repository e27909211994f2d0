//! Purges a partition: removes tombstones and expired data that are old enough and cover nothing
//! outside of the compaction.

use espalier_mutation::{
    DecoratedKey, PartitionHeader, Unfiltered, UnfilteredStream,
    purge::{PurgeLimits, purge_deletion, purge_row},
};

use super::overlap::Outside;

/// Decides which deletions of a partition are purged.
struct Decision<'a> {
    limits: PurgeLimits,
    outside: &'a mut Outside,
    /// Deletions below this timestamp cover nothing outside. Determined once, so that the markers
    /// of a partition stay consistent, and only if some deletion is old enough.
    uncovered_below: Option<i64>,
}

impl Decision<'_> {
    fn may_go(&mut self, key: &DecoratedKey, timestamp: i64, second: u32) -> bool {
        if !self.limits.are_old_enough(second) {
            return false;
        }
        let outside = &mut self.outside;
        let below = *self.uncovered_below.get_or_insert_with(|| outside.uncovered_below(key));
        timestamp < below
    }

    fn purge_header(&mut self, header: &mut PartitionHeader) {
        let PartitionHeader { key, deletion, static_row } = header;
        let now_s = self.limits.now_s;
        let may_go = &mut |timestamp, second| self.may_go(key, timestamp, second);
        purge_deletion(deletion, may_go);
        if let Some(row) = static_row {
            purge_row(row, now_s, may_go);
        }
        static_row.take_if(|row| row.is_empty());
    }
}

/// Purges the header of a partition.
pub(crate) fn purge_header(
    header: &mut PartitionHeader,
    limits: PurgeLimits,
    outside: &mut Outside,
) {
    Decision { limits, outside, uncovered_below: None }.purge_header(header);
}

/// A stream of a partition's fragments without purged data.
pub(crate) struct PurgedPartition<'a, S> {
    header: PartitionHeader,
    inner: S,
    decision: Decision<'a>,
}

impl<'a, S: UnfilteredStream> PurgedPartition<'a, S> {
    pub(crate) fn new(inner: S, limits: PurgeLimits, outside: &'a mut Outside) -> Self {
        let mut header = inner.header().clone();
        let mut decision = Decision { limits, outside, uncovered_below: None };
        decision.purge_header(&mut header);
        Self { header, inner, decision }
    }

    pub(crate) fn header(&self) -> &PartitionHeader {
        &self.header
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Unfiltered>, S::Error> {
        let Self { header, inner, decision } = self;
        let now_s = decision.limits.now_s;
        let may_go = &mut |timestamp, second| decision.may_go(&header.key, timestamp, second);
        while let Some(mut fragment) = inner.next().await? {
            match &mut fragment {
                Unfiltered::Row(row) => {
                    purge_row(row, now_s, may_go);
                    if row.is_empty() {
                        continue;
                    }
                }
                Unfiltered::Marker(marker) => {
                    let (mut before, mut after) = (marker.before, marker.after);
                    purge_deletion(&mut before, may_go);
                    purge_deletion(&mut after, may_go);
                    if before.is_live() && after.is_live() {
                        continue;
                    }
                    if (before, after) != (marker.before, marker.after) {
                        *marker = marker.with_deletions(before, after);
                    }
                }
            }
            return Ok(Some(fragment));
        }
        Ok(None)
    }
}
