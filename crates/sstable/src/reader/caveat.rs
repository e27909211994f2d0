//! What is to be told of a Data.db whose rows can be read, or some of them.

use crate::{
    data::{chunk_table::Shortfall, file::DataFile},
    error::{Result, SSTableError},
};

/// That Data.db has lost its end, or that it has no checksums: no success, however far it can be read.
#[derive(Clone, Debug)]
pub struct Caveat {
    error: SSTableError,
    /// Before compression, from where on what cannot be read is only what the error says.
    explained_from: u64,
}

impl Caveat {
    /// `shortfall`: that it has lost its end, if it has.
    pub(super) fn of(data: &DataFile, shortfall: Option<Shortfall>) -> Option<Self> {
        let unchecked = || {
            let why = "nothing checks it, as there is neither CompressionInfo.db nor CRC.db";
            (!data.is_checked())
                .then(|| Self { error: data.corrupt(0, why), explained_from: u64::MAX })
        };
        let of_end = |Shortfall { error, begins }| Self { error, explained_from: begins };
        shortfall.map(of_end).or_else(unchecked)
    }

    /// The outcome of having read everything: `read`, and what else is wrong, which comes last.
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
