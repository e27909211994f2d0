//! The partition that is being written: what was announced, what is open, where it began.

use espalier_mutation::{ClusteringComparator, DecoratedKey, DeletionTime, Row, Unfiltered};

use crate::index::big::promoted_index::BlockPosition;

/// State between the start and the end of a partition.
pub(super) struct OpenPartition {
    pub(super) key: DecoratedKey,
    pub(super) deletion: DeletionTime,
    /// Murmur3 of the key.
    pub(super) hash: (u64, u64),
    /// If it is not empty and not written yet.
    pub(super) static_row: Option<Row>,
    /// Whether the head is written: not before something follows it, for a partition that holds nothing is not written.
    pub(super) has_head: bool,
    /// Position in Data.db.
    pub(super) start: u64,
    /// Start of the unfiltered before, from the partition's start; 0 before the first one.
    pub(super) previous_start: u64,
    /// Position of the unfiltered before.
    pub(super) last: Option<BlockPosition>,
    pub(super) open_deletion: DeletionTime,
}

impl OpenPartition {
    /// Why `next` cannot follow, if it cannot.
    pub(super) fn check(
        &self,
        comparator: &ClusteringComparator,
        next: &Unfiltered,
    ) -> Result<(), String> {
        let positions = self.last.as_ref().map(|last| (last.position(), next.position()));
        if positions.is_some_and(|(last, next)| comparator.compare(last, next).is_ge()) {
            return Err(format!("{next:?} does not come behind {:?}", self.last));
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
        match fits {
            true => Ok(()),
            false => Err(format!("the kind of {marker:?} is not what it does")),
        }
    }
}
