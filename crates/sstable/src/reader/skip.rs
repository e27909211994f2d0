//! A place ahead, before which the reader of a stream needs nothing any more.

use espalier_mutation::{ClusteringBound, DeletionTime};

/// Where to go on. Lies until the stream has got there, or has left it behind.
#[derive(Debug)]
pub(super) struct Skip {
    pub(super) to: ClusteringBound,
    /// The range deletion that the markers given so far have left in force. Where another one is at `to`, a marker there
    /// tells so.
    pub(super) told: DeletionTime,
}
