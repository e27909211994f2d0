//! Warnings about a Data.db whose rows can be read only in part or without checksums.

use crate::{
    data::{chunk_table::Shortfall, file::DataFile},
    error::{Result, SSTableError},
};

/// A warning that Data.db has lost its end, or that it has no checksums. Reading such a file is no
/// success, however far it gets.
#[derive(Clone, Debug)]
pub struct Caveat {
    error: SSTableError,
    /// The position before compression from which on failed reads are explained by `error`.
    explained_from: u64,
}

impl Caveat {
    /// Returns the warning for `data`. `shortfall` says that the file has lost its end, if it has.
    pub(super) fn of(data: &DataFile, shortfall: Option<Shortfall>) -> Option<Self> {
        let unchecked = || {
            let why = "nothing checks it, as there is neither CompressionInfo.db nor CRC.db";
            (!data.is_checked())
                .then(|| Self { error: data.corrupt(0, why), explained_from: u64::MAX })
        };
        let of_end = |Shortfall { error, begins }| Self { error, explained_from: begins };
        shortfall.map(of_end).or_else(unchecked)
    }

    /// Splits the outcome of a full read, `read`, into another fault, if there is one, and this
    /// warning, which is reported last.
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
