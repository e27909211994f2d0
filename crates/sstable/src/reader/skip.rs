//! A skip under way: the reader of a stream needs nothing before its target.

use espalier_mutation::{ClusteringBound, DeletionTime};

/// The target of a skip. It exists until the stream has reached the target or left it behind.
#[derive(Debug)]
pub(super) struct Skip {
    pub(super) to: ClusteringBound,
    /// The range deletion in force according to the markers returned so far. If another one is in
    /// force at `to`, the stream returns a marker there.
    pub(super) reported: DeletionTime,
}
