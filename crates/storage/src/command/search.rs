//! The terms that a read looks up in its table's secondary indexes.

use std::sync::Arc;

use bytes::Bytes;
use espalier_sstable::VectorLimits;

/// A conjunction of terms. A read may skip rows that lack a term. Its caller checks the rows that
/// it returns, because entries may be stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSearch {
    /// The terms, at least one. The read walks one term: a search for near vectors if there is one,
    /// else single values, else a range. The other terms may narrow it.
    pub terms: Vec<IndexTerm>,
}

/// Maximum number of streams of a search, one for each source of entries and value (arbitrary).
/// Each stream costs a seek, and the memory of a cursor. A read reads its whole target if a term
/// alone exceeds the limit. Once the terms together reach the limit, the read leaves out the rest.
pub const MAX_SEARCH_STREAMS: usize = 1024;

/// The values to look up in one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTerm {
    /// The name of the index.
    pub index: String,
    /// The values to look up.
    pub values: IndexValues,
}

/// The values of a term, each in the form that index entries have (`put_form` of the mutation
/// crate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexValues {
    /// Any of these values.
    OneOf(Vec<Vec<u8>>),
    /// All values between two bounds.
    Between {
        /// The lower bound.
        lower: Option<FormBound>,
        /// The upper bound.
        upper: Option<FormBound>,
    },
    /// The vectors that are most similar to a given vector, in an index on vectors. The other terms
    /// narrow them.
    Nearest {
        /// The vector, serialised.
        vector: Bytes,
        /// The number of vectors to find on each shard.
        count: usize,
        /// The limits by which the search chooses its method.
        limits: VectorLimits,
        /// Places that the search of the previous read found. The shard that ended that read takes
        /// the rest of them instead of searching again.
        found: Option<FoundPlaces>,
    },
}

/// Places of rows or partitions that a search has found, in order.
pub type FoundPlaces = Arc<[Vec<u8>]>;

/// A bound on the similarity of the rows that a search for near vectors has left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearestBound {
    /// The greatest similarity of these rows, as the index knows it.
    pub similarity: f32,
    /// The greatest likely error of the similarities that the index knows; 0 if the search has
    /// compared the vectors themselves.
    pub error: f32,
}

impl NearestBound {
    /// Returns the bound of two searches together.
    pub fn with(self, other: Self) -> Self {
        Self {
            similarity: self.similarity.max(other.similarity),
            error: self.error.max(other.error),
        }
    }
}

/// One side of a range of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormBound {
    /// The form of the value.
    pub form: Vec<u8>,
    /// True if entries with this form are in the range. Always true if the form was cut.
    pub inclusive: bool,
}
