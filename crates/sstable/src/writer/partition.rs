//! This module holds the state of the partition that is being written.

use espalier_mutation::{ClusteringComparator, DecoratedKey, DeletionTime, Row, Unfiltered};

use crate::index::big::promoted_index::BlockPosition;

/// The state of a partition between its start and its end.
pub(super) struct OpenPartition {
    pub(super) key: DecoratedKey,
    pub(super) deletion: DeletionTime,
    /// Murmur3 of the key.
    pub(super) hash: (u64, u64),
    /// The static row, if it is not empty and not yet written.
    pub(super) static_row: Option<Row>,
    /// True if the head is written. It is written only when the partition has content, because an
    /// empty partition is not written.
    pub(super) has_head: bool,
    /// Position in Data.db.
    pub(super) start: u64,
    /// Offset of the previous row or marker from the partition's start; 0 before the first one.
    pub(super) previous_start: u64,
    /// Position of the previous row or marker.
    pub(super) last: Option<BlockPosition>,
    pub(super) open_deletion: DeletionTime,
}

impl OpenPartition {
    /// Checks that `next` can follow. The error is the reason why it cannot.
    pub(super) fn check(
        &self,
        comparator: &ClusteringComparator,
        next: &Unfiltered,
    ) -> Result<(), String> {
        let positions = self.last.as_ref().map(|last| (last.position(), next.position()));
        if positions.is_some_and(|(last, next)| comparator.compare(last, next).is_ge()) {
            return Err(format!("{next:?} does not come after {:?}", self.last));
        }
        let Unfiltered::Marker(marker) = next else { return Ok(()) };
        if marker.before != self.open_deletion {
            let open = self.open_deletion;
            return Err(format!("{marker:?} ends another deletion than {open:?}"));
        }
        let (ends, starts) = (!marker.before.is_live(), !marker.after.is_live());
        let kind = marker.position.kind;
        let fits = match (ends, starts) {
            (true, true) => kind.is_boundary(),
            (false, true) => kind.is_start() && !kind.is_boundary(),
            (true, false) => !kind.is_start(),
            (false, false) => false,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("the kind of {marker:?} does not match its deletions"))
        }
    }
}
