//! Warnings about a Data.db whose rows can be read only in part or without checksums.

use crate::{
    data::{chunk_table::Shortfall, file::DataFile},
    error::{Result, SSTableError},
};

/// A warning that Data.db has lost its end, or that it has no checksums. A full read ends with this
/// warning as its error even if the read met no other fault.
#[derive(Clone, Debug)]
pub struct Caveat {
    error: SSTableError,
    /// A position in Data.db, before compression. `error` explains corrupt data from there on.
    explained_from: u64,
}

impl Caveat {
    /// Returns the warning for `data`, if its end or its checksums are missing. `shortfall` is set
    /// if the file has lost its end.
    pub(super) fn of(data: &DataFile, shortfall: Option<Shortfall>) -> Option<Self> {
        let unchecked = || {
            let why = "no checksums: CompressionInfo.db and CRC.db are missing; damage cannot be \
                       detected";
            (!data.is_checked())
                .then(|| Self { error: data.corrupt(0, why), explained_from: u64::MAX })
        };
        let of_end = |Shortfall { error, begins }| Self { error, explained_from: begins };
        shortfall.map(of_end).or_else(unchecked)
    }

    /// Returns the fault of a full read, unless this warning explains it, and the warning itself,
    /// which the caller reports last.
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
