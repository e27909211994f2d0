//! Warnings about a Data.db whose rows can be read only in part or without checksums.

use crate::{
    data::{chunk_table::Shortfall, file::DataFile},
    error::{Result, SSTableError},
};

/// A warning that Data.db has lost its end, or that it has no checksums. Even a read that meets no
/// fault ends with this warning, which is an error.
#[derive(Clone, Debug)]
pub struct Caveat {
    error: SSTableError,
    /// The position in Data.db, before compression, from which on `error` explains corrupt data.
    explained_from: u64,
}

impl Caveat {
    /// Returns the warning for `data`, if there is a reason for one. `shortfall` is set if the file
    /// has lost its end.
    pub(super) fn of(data: &DataFile, shortfall: Option<Shortfall>) -> Option<Self> {
        let unchecked = || {
            let why = "nothing checks it, as there is neither CompressionInfo.db nor CRC.db";
            (!data.is_checked())
                .then(|| Self { error: data.corrupt(0, why), explained_from: u64::MAX })
        };
        let of_end = |Shortfall { error, begins }| Self { error, explained_from: begins };
        shortfall.map(of_end).or_else(unchecked)
    }

    /// Splits the outcome of a full read in two. The first error is a fault that this warning does
    /// not explain, if there is one. The second error is the warning itself, which is reported
    /// last.
    pub fn ends(self, read: Result<()>) -> (Option<SSTableError>, SSTableError) {
        let other = read.err().filter(|error| match error {
            SSTableError::Corrupt { file, offset, .. } => {
                *offset < self.explained_from || self.error.file() != Some(file)
            }
            SSTableError::Io(error) => !error.is_unexpected_end(),
            _ => true,
        });
        (other, self.error)
    }
}
