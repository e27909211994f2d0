//! A skip under way: the reader of a stream needs nothing before the target of the skip.

use espalier_mutation::{ClusteringBound, DeletionTime};

/// A skip and its target. It ends when the stream has reached or passed the target.
#[derive(Debug)]
pub(super) struct Skip {
    pub(super) to: ClusteringBound,
    /// The range deletion in force according to the markers returned so far. If another range
    /// deletion is in force at `to`, the stream returns a marker there.
    pub(super) reported: DeletionTime,
}
