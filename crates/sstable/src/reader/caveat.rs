//! What is to be told of a Data.db whose rows can be read, or some of them.

use crate::{
    data::file::DataFile,
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
    pub(super) fn of(data: &DataFile, shortfall: Option<SSTableError>) -> Option<Self> {
        let unchecked = || {
            let why = "nothing checks it, as there is neither CompressionInfo.db nor CRC.db";
            (!data.is_checked())
                .then(|| Self { error: data.corrupt(0, why), explained_from: u64::MAX })
        };
        // Of an uncompressed one, what is there of its last chunk is not what the checksum is of.
        let chunk_length = data.chunk_length();
        let explained_from = data.length().saturating_sub(1) / chunk_length * chunk_length;
        shortfall.map(|error| Self { error, explained_from }).or_else(unchecked)
    }

    /// The outcome of having read everything: `read`, and what else is wrong, which comes last.
    pub fn ends(self, read: Result<()>) -> (Option<SSTableError>, SSTableError) {
        let other = read.err().filter(|error| match error {
            SSTableError::Corrupt { offset, .. } => *offset < self.explained_from,
            SSTableError::Io(error) => !error.is_unexpected_end(),
            _ => true,
        });
        (other, self.error)
    }
}
