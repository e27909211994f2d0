//! What clients are told of errors of the storage, and of statements that are not known.

use espalier_storage::StorageError;

use crate::{Error, ErrorCode, ErrorDetail};

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        Error::new(error_code(&error), error.to_string())
    }
}

fn error_code(error: &StorageError) -> ErrorCode {
    match error {
        StorageError::MutationTooLarge { .. }
        | StorageError::Unstorable(_)
        | StorageError::ExpiryTooLate { .. }
        | StorageError::UnknownTable(_)
        | StorageError::UnknownTableName { .. } => ErrorCode::Invalid,
        StorageError::MemtablesFull { .. }
        | StorageError::CommitLogFull { .. }
        | StorageError::TooManyUnfinishedBatches { .. } => ErrorCode::Overloaded,
        StorageError::CommitLogWrite(_) => ErrorCode::WriteFailure,
        _ => ErrorCode::ServerError,
    }
}

/// The error for an id that is not known.
pub fn unprepared(id: &[u8]) -> Error {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Error {
        code: ErrorCode::Unprepared,
        message: format!(
            "Prepared query with ID {hex} not found (either the query was not prepared on this host (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)"
        ),
        detail: ErrorDetail::Unprepared { id: id.to_vec() },
    }
}
