//! The terms that a read looks up in the indexes of its table.

use bytes::Bytes;
use espalier_sstable::VectorLimits;

/// A conjunction of terms. A row that a read returns satisfies all of them; the reader of the rows
/// checks that, because entries may be stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSearch {
    /// At least one term. The first one whose values are listed one by one is walked; other terms
    /// may narrow it.
    pub terms: Vec<IndexTerm>,
}

/// The values of one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTerm {
    /// The name of the index.
    pub index: String,
    /// The values.
    pub values: IndexValues,
}

/// Values by their forms (`put_form` of the mutation crate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexValues {
    /// These values.
    OneOf(Vec<Vec<u8>>),
    /// All values between two bounds.
    Between {
        /// The lower bound.
        lower: Option<FormBound>,
        /// The upper bound.
        upper: Option<FormBound>,
    },
    /// The vectors that are most similar to one, in an index on vectors. The other terms narrow
    /// them.
    Nearest {
        /// The vector, serialised.
        vector: Bytes,
        /// How many of them, on each shard.
        count: usize,
        /// How the search chooses its way.
        limits: VectorLimits,
    },
}

/// One side of a range of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormBound {
    /// The form of the value.
    pub form: Vec<u8>,
    /// True if entries with this form are in the range. If the form was cut, they are.
    pub inclusive: bool,
}
