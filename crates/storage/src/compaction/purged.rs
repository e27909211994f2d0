//! A partition without what may go of it.

use espalier_mutation::{PartitionHeader, Unfiltered, UnfilteredStream};

use crate::{
    StorageError,
    purge::{purge_deletion, purge_row},
};

/// When what is dead may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PurgeLimits {
    /// Second at which things have expired.
    pub(crate) now_s: u32,
    /// Deletions done before this second are old enough.
    pub(crate) gc_before_s: u32,
}

/// A stream that leaves out what may go. That is decided once for the partition, so that markers fit.
pub(crate) struct PurgedPartition<S> {
    header: PartitionHeader,
    inner: S,
    limits: PurgeLimits,
    /// Deletions below this timestamp cover nothing outside.
    uncovered_below: i64,
}

impl<S: UnfilteredStream> PurgedPartition<S> {
    pub(crate) fn new(inner: S, limits: PurgeLimits, uncovered_below: i64) -> Self {
        let mut header = inner.header().clone();
        let mut may_go = may_go(limits, uncovered_below);
        purge_deletion(&mut header.deletion, &mut may_go);
        if let Some(row) = &mut header.static_row {
            purge_row(row, limits.now_s, &mut may_go);
        }
        header.static_row = header.static_row.filter(|row| !row.is_empty());
        Self { header, inner, limits, uncovered_below }
    }
}

fn may_go(limits: PurgeLimits, uncovered_below: i64) -> impl FnMut(i64, u32) -> bool {
    move |timestamp, second| second < limits.gc_before_s && timestamp < uncovered_below
}

impl<S: UnfilteredStream<Error = StorageError>> PurgedPartition<S> {
    pub(crate) fn header(&self) -> &PartitionHeader {
        &self.header
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Unfiltered>, StorageError> {
        let mut may_go = may_go(self.limits, self.uncovered_below);
        while let Some(mut fragment) = self.inner.next().await? {
            match &mut fragment {
                Unfiltered::Row(row) => {
                    purge_row(row, self.limits.now_s, &mut may_go);
                    if row.is_empty() {
                        continue;
                    }
                }
                Unfiltered::Marker(marker) => {
                    let (mut before, mut after) = (marker.before, marker.after);
                    purge_deletion(&mut before, &mut may_go);
                    purge_deletion(&mut after, &mut may_go);
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
